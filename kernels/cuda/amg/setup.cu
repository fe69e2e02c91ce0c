// Levels without a lattice, whose rows are made on the host: their entries as tables, and how large their eigenvalues are.

constexpr int LANES = 32, WARPS = 8;   // of a block
constexpr unsigned ALL = 0xffffffffu;

__device__ __forceinline__ double sum_of_lanes(double value) {
    for (int step = LANES / 2; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    return value;
}

// columns and entries (width, rows): entry k of each row, and -1 and 0 where a row has no more. 12 bytes read an entry.
extern "C" __global__ void tabulate(
    const long long* __restrict__ start, const int* __restrict__ columns, const double* __restrict__ values, int rows,
    int width, int* __restrict__ out_columns, double* __restrict__ out_values
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    const long long first = start[i];
    const int count = static_cast<int>(start[i + 1] - first);
    for (int k = 0; k < width; ++k) {
        const long long to = static_cast<long long>(k) * rows + i;
        out_columns[to] = k < count ? columns[first + k] : -1;
        out_values[to] = k < count ? values[first + k] : 0.0;
    }
}

// A vector that is rough and everywhere the same, over the root of the diagonal, and that, which is 1 where there is none.
extern "C" __global__ void rough(
    const long long* __restrict__ start, const int* __restrict__ columns, const double* __restrict__ values, int rows,
    double* __restrict__ x, double* __restrict__ diagonal
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    double own = 1.0;
    for (long long k = start[i]; k < start[i + 1]; ++k)
        if (columns[k] == i) own = values[k];
    diagonal[i] = own;
    x[i] = (static_cast<double>((i + 1) * 2654435761LL % 4294967296LL) / 2147483648.0 - 1.0) / sqrt(own);
}

// y = D^-1 A x, a warp a row, and for each block's rows the parts of x'Dx and y'Dy: parts (2, blocks).
extern "C" __global__ void power_step(
    const long long* __restrict__ start, const int* __restrict__ columns, const double* __restrict__ values, int rows,
    const double* __restrict__ diagonal, const double* __restrict__ x, double* __restrict__ y, double* __restrict__ parts
) {
    __shared__ double before[WARPS], after[WARPS];
    const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES, i = blockIdx.x * WARPS + warp;
    double product = 0.0;
    if (i < rows)
        for (long long k = start[i] + lane; k < start[i + 1]; k += LANES) product += values[k] * x[columns[k]];
    product = sum_of_lanes(product);
    if (lane == 0) {
        const double own = i < rows ? diagonal[i] : 1.0, from = i < rows ? x[i] : 0.0, to = product / own;
        if (i < rows) y[i] = to;
        before[warp] = own * from * from;
        after[warp] = own * to * to;
    }
    __syncthreads();
    if (threadIdx.x < 2) {
        double sum = 0.0;
        for (int w = 0; w < WARPS; ++w) sum += threadIdx.x ? after[w] : before[w];
        parts[threadIdx.x * gridDim.x + blockIdx.x] = sum;
    }
}
