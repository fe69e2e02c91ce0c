// Levels without a lattice: their entries as tables.

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
