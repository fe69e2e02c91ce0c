// The inverse of a matrix with a positive semidefinite symmetric part, of up to a few thousand rows, once in set-up, by Gauss-Jordan
// elimination with diagonal pivots, a block of them at a time (dsolver.kernels.formats.dense.semidefinite_inverse is the text).
// The same operations in the same order in every run.

#include "device.cuh"

constexpr int BLOCK = 32, LINES = 8;   // rows and columns of a tile; threads of a block are BLOCK x LINES
constexpr int PARTS = BLOCK / LINES;   // rows of a tile that a thread has, LINES apart

// a (n, n), row after row, was zero: one thread a row of the stencil.
ENTRY dense_matrix(
    In<int> numbering, In<i64> steps, In<double> weights, i64 weight_stride, int weight_step, int offsets,
    int nx, int ny, int n, double* a
) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    const int line = row / nx;
    const i64 center = row % nx + 1 + (nx + 2LL) * (line % ny + 1 + (ny + 2LL) * (line / ny + 1));
    for (int k = 0; k < offsets; ++k) {
        const int column = numbering[center + steps[k]];
        // Several offsets meet the same column across a short periodic axis.
        if (column >= 0 && column < n) a[static_cast<i64>(row) * n + column] += weights[k * weight_stride + weight_step * row];
    }
}

// a (n, n), row after row, of compressed rows: a block of threads a row.
ENTRY dense_rows(In<i64> start, In<int> columns, In<double> values, int n, Out<double> a) {
    double* const row = a + static_cast<i64>(blockIdx.x) * n;
    for (int j = threadIdx.x; j < n; j += blockDim.x) row[j] = 0.0;
    __syncthreads();
    for (i64 k = start[blockIdx.x] + threadIdx.x; k < start[blockIdx.x + 1]; k += blockDim.x) row[columns[k]] = values[k];
}

// out (n, n) = a, or its symmetric part, zero in rows and columns that are not kept; NULL: all are. One thread an item.
ENTRY keep(In<double> a, In<unsigned char> kept, int symmetric, int n, Out<double> out) {
    const i64 item = thread_number(), i = item / n, j = item % n;
    if (i >= n) return;
    const double value = symmetric ? (a[item] + a[j * n + i]) / 2.0 : a[item];
    out[item] = !kept || (kept[i] && kept[j]) ? value : 0.0;
}

// Where the inverse of the diagonal block is that begins at `first`: that of the next one is made while it is read.
__device__ double* inverse_of(double* inverses, int first) { return inverses + (first / BLOCK % 2) * (BLOCK * BLOCK); }

// The inverse of a diagonal block that begins at `first`, zero in rows and columns whose pivot vanishes against what `matrix`
// has on its diagonal; kept tells which are left. own: the block's items, zeros behind the last row and column. By all threads
// of a block; a warp has a part of the rows.
__device__ void invert_block(
    double (&own)[PARTS], const double* matrix, int n, int first, double tolerance, double* inverse, unsigned char* kept
) {
    __shared__ double rows[2][BLOCK], least[BLOCK];
    __shared__ bool used[BLOCK];
    const int x = threadIdx.x, y = threadIdx.y;
    if (y == 0) least[x] = first + x < n ? tolerance * matrix[(n + 1LL) * (first + x)] : 0.0;
    UNROLLED for (int part = 0; part < PARTS; ++part) {
#pragma unroll 1
        for (int line = 0; line < LINES; ++line) {
            const int i = part * LINES + line;
            if (y == line) rows[i % 2][x] = own[part];
            __syncthreads();   // one a pivot: the row before the last one has been read by all who are here
            const double row = rows[i % 2][x], pivot = rows[i % 2][i];
            const bool good = first + i < n && pivot > least[i];
            if (x == 0 && y == 0) {
                used[i] = good;
                if (first + i < n) kept[first + i] = good;
            }
            if (!good) continue;
            UNROLLED for (int k = 0; k < PARTS; ++k) {
                const double column = __shfl_sync(ALL_LANES, own[k], i);
                if (k == part && y == line) own[k] = x == i ? 1.0 / pivot : row / pivot;
                else own[k] = x == i ? -column / pivot : own[k] - column * (row / pivot);
            }
        }
    }
    __syncthreads();
    UNROLLED for (int k = 0; k < PARTS; ++k) {
        const int line = y + k * LINES;
        inverse[line * BLOCK + x] = used[x] && used[line] ? own[k] : 0.0;
    }
}

// The inverse of the first diagonal block: one block of threads.
ENTRY pivot_block(In<double> a, In<double> matrix, int n, double tolerance, double* inverses, unsigned char* kept) {
    double own[PARTS];
    UNROLLED for (int k = 0; k < PARTS; ++k) {
        const int x = threadIdx.x, y = threadIdx.y + k * LINES;
        own[k] = x < n && y < n ? a[static_cast<i64>(y) * n + x] : 0.0;
    }
    invert_block(own, matrix, n, 0, tolerance, inverse_of(inverses, 0), kept);
}

// left (n, BLOCK) = the block's columns, right (BLOCK, n) = inverse times its rows: BLOCK rows and columns of them each block of
// threads. Before `eliminate` overwrites them.
ENTRY panels(In<double> a, Out<double> inverses, int n, int first, Out<double> left, Out<double> right) {
    __shared__ double factors[BLOCK][BLOCK + 1], rows[BLOCK][BLOCK + 1];
    const double* const inverse = inverse_of(inverses, first);
    const int x = threadIdx.x, top = blockIdx.x * BLOCK, j = top + x;
    for (int y = threadIdx.y; y < BLOCK; y += LINES) {
        factors[y][x] = inverse[y * BLOCK + x];
        rows[y][x] = first + y < n && j < n ? a[static_cast<i64>(first + y) * n + j] : 0.0;
        if (top + y < n) left[(top + y) * BLOCK + x] = first + x < n ? a[static_cast<i64>(top + y) * n + first + x] : 0.0;
    }
    __syncthreads();
    if (j >= n) return;
    for (int c = threadIdx.y; c < BLOCK; c += LINES) {
        double sum = 0.0;
        for (int k = 0; k < BLOCK; ++k) sum += factors[c][k] * rows[k][x];
        right[static_cast<i64>(c) * n + j] = sum;
    }
}

// One block of the elimination everywhere, a tile of BLOCK x BLOCK items each, and the inverse of the next diagonal block.
ENTRY eliminate(
    Out<double> a, In<double> matrix, double* inverses, In<double> left, In<double> right, int n, int first,
    double tolerance, unsigned char* kept
) {
    __shared__ double columns[BLOCK][BLOCK + 1], rows[BLOCK][BLOCK + 1];
    const double* const inverse = inverse_of(inverses, first);
    const int j = blockIdx.x * BLOCK + threadIdx.x, top = blockIdx.y * BLOCK, next = first + BLOCK;
    const bool pivot_columns = static_cast<int>(blockIdx.x) * BLOCK == first, pivot_rows = top == first;
    for (int y = threadIdx.y; y < BLOCK; y += LINES) {
        columns[y][threadIdx.x] = top + y < n ? left[(top + y) * BLOCK + threadIdx.x] : 0.0;
        rows[y][threadIdx.x] = pivot_columns ? inverse[y * BLOCK + threadIdx.x]
            : j < n ? right[static_cast<i64>(y) * n + j] : 0.0;
    }
    __syncthreads();
    double own[PARTS];
    UNROLLED for (int k = 0; k < PARTS; ++k) {
        const int y = threadIdx.y + k * LINES;
        own[k] = 0.0;
        if (top + y >= n || j >= n) continue;
        double* const out = a + static_cast<i64>(top + y) * n + j;
        if (pivot_rows) {
            own[k] = rows[y][threadIdx.x];
        } else {
            double sum = 0.0;
            for (int c = 0; c < BLOCK; ++c) sum += columns[y][c] * rows[c][threadIdx.x];
            own[k] = pivot_columns ? -sum : *out - sum;
        }
        *out = own[k];
    }
    if (top == next && static_cast<int>(blockIdx.x) * BLOCK == next) {
        invert_block(own, matrix, n, next, tolerance, inverse_of(inverses, next), kept);
    }
}
