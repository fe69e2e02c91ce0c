// Products of compressed rows: some threads of a warp a row. 12 bytes an entry, 8 of a row pointer, x and y.

#include "slices.cuh"
#include "sums.cuh"
#include "range.cuh"
#include "sparse/finish.cuh"
#include "csr/kinds.cuh"

#define VECTORS FINISH
#define OF_VECTORS FINISHED

constexpr int THREADS = 256;

// The sum of row `row` over the entries of this lane of T. All of a round's columns are requested before the first is used,
// and then all of its x: a row costs two latencies of memory for each round, and most rows have one round. Five of a lane in
// place of four take 0.83 to 0.98 of the time of rows that 8 or more threads share; six take 1.07 where rows of 42 have 16.
template <int T, typename X>
DEVICE real row_part(CSR, const X x, int row, int lane) {
    constexpr int FLIGHT = T < 8 ? 4 : 5;
    const i64 last = __ldg(start + row + 1);
    real sum = 0;
    for (i64 i = __ldg(start + row) + lane; i < last; i += FLIGHT * T) {
        int c[FLIGHT];
        real a[FLIGHT], b[FLIGHT];
        UNROLLED for (int k = 0; k < FLIGHT; ++k) c[k] = i + k * T < last ? __ldcs(columns + i + k * T) : -1;
        UNROLLED for (int k = 0; k < FLIGHT; ++k) a[k] = c[k] < 0 ? real(0) : __ldcs(values + i + k * T);
        UNROLLED for (int k = 0; k < FLIGHT; ++k) b[k] = c[k] < 0 ? real(0) : x[c[k]];
        UNROLLED for (int k = 0; k < FLIGHT; ++k) sum = fma(a[k], b[k], sum);
    }
    return sum;
}

// Rows with T threads each, their parts added in a fixed tree. WITH_DOT: x . y of each block in `partials`.
template <int T, int KIND, bool WITH_DOT>
DEVICE void multiply(CSR, const Finish finish, double* partials, int rows) {
    next_may_start();
    const i64 thread = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    const int lane = threadIdx.x % T;
    const bool mine = thread / T < rows;
    const int row = mine ? static_cast<int>(thread / T) : rows - 1;
    wait_for_last_launch();
    real sum = row_part<T>(start, columns, values, finish.read<KIND>(), row, lane);
    UNROLLED for (int distance = T / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, distance);
    if (mine && lane == 0) sum = finish.write<KIND>(row, sum);
    if constexpr (WITH_DOT) {
        const double total = sum_of_block(mine && lane == 0 ? finish.beside<KIND>(row) * sum : 0.0);
        if (threadIdx.x == 0) partials[blockIdx.x] = total;
    }
}

THREADS_OF_ROW(1)
THREADS_OF_ROW(2)
THREADS_OF_ROW(4)
THREADS_OF_ROW(8)
THREADS_OF_ROW(16)
THREADS_OF_ROW(32)

// The place of a row's diagonal entry; -1 if it has none.
DEVICE i64 place_of(const i64* start, const int* columns, int row) {
    const i64 last = start[row + 1];
    const i64 low = search(start[row], last, [&](i64 middle) { return columns[middle] < row; });
    return low < last && columns[low] == row ? low : -1;
}

// The diagonal: 0 where a row has no such entry. Columns of a row ascend. It begins at item `first` of `items`, and the others
// are 1.
ENTRY diagonal(CSR, real* out, int rows, int first, int items) {
    next_may_start();
    wait_for_last_launch();
    const int item = blockIdx.x * THREADS + threadIdx.x, row = item - first;
    if (item >= items) return;
    const i64 place = row < 0 || row >= rows ? -1 : place_of(start, columns, row);
    out[item] = row < 0 || row >= rows ? real(1) : place < 0 ? real(0) : values[place];
}

// As `diagonal`, of rows in double; NaN where it leaves the range of normal numbers of the type that it is written in.
ENTRY diagonal_in_range(In<i64> start, In<int> columns, In<double> values, real* out, int rows, int first, int items) {
    const int item = blockIdx.x * THREADS + threadIdx.x, row = item - first;
    if (item >= items) return;
    const i64 place = row < 0 || row >= rows ? -1 : place_of(start, columns, row);
    out[item] = row < 0 || row >= rows ? real(1) : in_range(place < 0 ? 0.0 : values[place]);
}

// The same of a diagonal that is known.
ENTRY guarded_diagonal(In<double> diagonal, real* out, int rows, int first, int items) {
    const int item = blockIdx.x * THREADS + threadIdx.x, row = item - first;
    if (item < items) out[item] = row < 0 || row >= rows ? real(1) : in_range(diagonal[row]);
}

// The sum of the squares of the rows' lengths and the longest, of each block: the host adds them up.
ENTRY __launch_bounds__(THREADS) lengths(const i64* start, int rows, i64* found) {
    __shared__ i64 squares[THREADS / SLICE];
    __shared__ int longest[THREADS / SLICE];
    i64 sum = 0;
    int most = 0;
    for (int row = blockIdx.x * THREADS + threadIdx.x; row < rows; row += gridDim.x * THREADS) {
        const int length = static_cast<int>(start[row + 1] - start[row]);
        sum += static_cast<i64>(length) * length;
        most = max(most, length);
    }
    for (int distance = SLICE / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, distance);
    most = __reduce_max_sync(ALL_LANES, most);
    if (lane_number() == 0) { squares[threadIdx.x / SLICE] = sum; longest[threadIdx.x / SLICE] = most; }
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int w = 1; w < THREADS / SLICE; ++w) { sum += squares[w]; most = max(most, longest[w]); }
    found[2 * blockIdx.x] = sum;
    found[2 * blockIdx.x + 1] = most;
}
