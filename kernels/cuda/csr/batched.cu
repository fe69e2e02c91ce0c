// Products of compressed rows with WIDTH vectors at once: an entry's 12 bytes are read once for all of them. Sums are those of
// rows.cu, column by column.

#include "slices.cuh"
#include "sparse/finish.cuh"
#include "sparse/columns.cuh"
#include "csr/kinds.cuh"

#define VECTORS COLUMNS
#define OF_VECTORS ALL_COLUMNS

constexpr int THREADS = 256;
constexpr int FLIGHT = WIDTH > 4 ? 2 : 4;   // entries that a lane requests at a time, each with WIDTH items

// The sums of a row of matrices in the same places, one, or both parts of a complex one, in each column: of T threads, whose
// parts are added in a fixed tree.
template <int T, int KIND, int PARTS, typename Vectors>
DEVICE void add_row(
    real (&sums)[PARTS][WIDTH], const i64* start, const int* columns, const real* const (&values)[PARTS],
    const Vectors& finish, int row, int lane
) {
    const i64 last = __ldg(start + row + 1);
    i64 i = __ldg(start + row) + lane;
    wait_for_last_launch();
    for (; i < last; i += FLIGHT * T) {
        int c[FLIGHT];
        real a[PARTS][FLIGHT], b[FLIGHT][WIDTH];
        UNROLLED for (int k = 0; k < FLIGHT; ++k) c[k] = i + k * T < last ? __ldcs(columns + i + k * T) : -1;
        UNROLLED for (int k = 0; k < FLIGHT; ++k)
            EACH_PART a[p][k] = c[k] < 0 ? real(0) : __ldcs(values[p] + i + k * T);
        UNROLLED for (int k = 0; k < FLIGHT; ++k) {
            if (c[k] < 0) { EACH_COLUMN b[k][n] = real(0); }
            else finish.template load<KIND>(b[k], c[k]);
        }
        UNROLLED for (int k = 0; k < FLIGHT; ++k) EACH_PART EACH_COLUMN sums[p][n] = fma(a[p][k], b[k][n], sums[p][n]);
    }
    UNROLLED for (int distance = T / 2; distance > 0; distance /= 2) {
        EACH_PART EACH_COLUMN sums[p][n] += __shfl_xor_sync(ALL_LANES, sums[p][n], distance);
    }
}

// Rows with T threads each. WITH_DOT: x . y of each column and block in `partials` (WIDTH, blocks).
template <int T, int KIND, bool WITH_DOT>
DEVICE void multiply(CSR, const Finishes finish, double* partials, int rows) {
    next_may_start();
    const i64 thread = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    const int lane = threadIdx.x % T;
    const bool mine = thread / T < rows;
    const int row = mine ? static_cast<int>(thread / T) : rows - 1;
    const real* const parts[1] = {values};
    real found[1][WIDTH] = {};
    add_row<T, KIND>(found, start, columns, parts, finish, row, lane);
    real (&sums)[WIDTH] = found[0];
    if (mine && lane == 0) { EACH_COLUMN sums[n] = finish.of(n).write<KIND>(row, sums[n]); }
    if constexpr (WITH_DOT) {
        __shared__ double of_warp[WIDTH][THREADS / SLICE];
        EACH_COLUMN {
            const double part = warp_sum(mine && lane == 0 ? finish.of(n).beside<KIND>(row) * sums[n] : 0.0);
            if (lane_number() == 0) of_warp[n][threadIdx.x / SLICE] = part;
        }
        __syncthreads();
        if (threadIdx.x < WIDTH) {
            double total = 0.0;
            for (int w = 0; w < THREADS / SLICE; ++w) total += of_warp[threadIdx.x][w];
            partials[static_cast<i64>(threadIdx.x) * gridDim.x + blockIdx.x] = total;
        }
    }
}

// Of a complex matrix, whose imaginary parts lie in the places of the real ones: 20 bytes an entry, of floats 12.
template <int T, int KIND>
DEVICE void multiply_complex(CSR, const real* imaginary, const ComplexFinishes finish, int rows) {
    next_may_start();
    const i64 thread = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    const int lane = threadIdx.x % T;
    const bool mine = thread / T < rows;
    const int row = mine ? static_cast<int>(thread / T) : rows - 1;
    const real* const parts[2] = {values, imaginary};
    real sums[2][WIDTH] = {};
    add_row<T, KIND>(sums, start, columns, parts, finish, row, lane);
    if (mine && lane == 0) finish.write<KIND>(row, sums);
}

#if WIDTH % 2 == 0
#define COMPLEX(T, NAME, KIND)                                                                                        \
    ENTRY __launch_bounds__(THREADS) NAME##_##T(CSR, In<real> imaginary, const real* wi, COLUMNS, int rows) {         \
        const ComplexFinishes finish{ALL_COLUMNS, wi};                                                                \
        multiply_complex<T, KIND>(start, columns, values, imaginary, finish, rows);                                   \
    }
#else
#define COMPLEX(T, NAME, KIND)
#endif

#define REAL_AND_COMPLEX(T)                                                                                           \
    THREADS_OF_ROW(T)                                                                                                 \
    COMPLEX(T, complex_spmv, PRODUCT)                                                                                 \
    COMPLEX(T, complex_residual, RESIDUAL)                                                                            \
    COMPLEX(T, complex_sweep, SWEEP)                                                                                  \
    COMPLEX(T, complex_first, FIRST)

REAL_AND_COMPLEX(4)
REAL_AND_COMPLEX(8)
REAL_AND_COMPLEX(16)
REAL_AND_COMPLEX(32)
