// Ghost parts in compressed rows. They are few rows, so what counts is that a product is one launch, and that all that set-up
// wrote is at hand when the halo has come: the row, and the first entries of each of its threads.

#include "slices.cuh"
#include "sums.cuh"

constexpr int THREADS = 256, AT_HAND = 4;

#define GHOSTS In<i64> start, In<int> columns, In<real> values, In<int> places, const real* h

// The row of T threads.
template <int T>
struct Row {
    int number, place, lane;    // of the row, where it is in a vector, and of this thread in it
    bool valid;                 // the last warp may have fewer rows
    i64 next, last;       // this thread's entries that have not been requested, and where the row ends
    int c[AT_HAND];
    real a[AT_HAND];

    DEVICE Row(In<i64> start, In<int> columns, In<real> values, In<int> places, int rows) {
        const i64 thread = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
        valid = thread / T < rows;
        number = valid ? static_cast<int>(thread / T) : rows - 1;
        lane = threadIdx.x % T;
        place = __ldg(places + number);
        next = __ldg(start + number) + lane;
        last = __ldg(start + number + 1);
        request(columns, values);
    }

    DEVICE void request(In<int> columns, In<real> values) {
        UNROLLED for (int k = 0; k < AT_HAND; ++k) {
            const i64 i = next + k * T;
            c[k] = i < last ? __ldcs(columns + i) : -1;
            a[k] = i < last ? __ldcs(values + i) : real(0);
        }
        next += AT_HAND * T;
    }

    // The product with the halo, in all threads of the row: each adds its entries in order, and a fixed tree adds the threads.
    DEVICE real times(In<int> columns, In<real> values, const real* h) {
        real sum = 0, x[AT_HAND];
        for (;;) {
            UNROLLED for (int k = 0; k < AT_HAND; ++k) x[k] = c[k] < 0 ? real(0) : h[c[k]];
            UNROLLED for (int k = 0; k < AT_HAND; ++k) sum = fma(a[k], x[k], sum);
            if (next >= last) break;
            request(columns, values);
        }
        UNROLLED for (int distance = T / 2; distance > 0; distance /= 2)
            sum += __shfl_xor_sync(ALL_LANES, sum, distance);
        return sum;
    }
};

// Entries times items at the places of their rows, or in their columns.
EACH(T, 1, 8, 32) ENTRY __launch_bounds__(THREADS) scale_##T(
    GHOSTS, int by_rows, Out<real> out, int rows
) {
    const i64 thread = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    if (thread / T >= rows) return;
    const int row = static_cast<int>(thread / T);
    for (i64 i = start[row] + threadIdx.x % T; i < start[row + 1]; i += T)
        out[i] = values[i] * h[by_rows ? places[row] : columns[i]];
}

// y += sign H h at the places of the rows.
EACH(T, 1, 8, 32) ENTRY __launch_bounds__(THREADS) add_##T(GHOSTS, double sign, real* y, int rows) {
    next_may_start();
    Row<T> own(start, columns, values, places, rows);
    wait_for_last_launch();
    const bool writes = own.valid && own.lane == 0;
    const real old = writes ? y[own.place] : real(0), sum = own.times(columns, values, h);
    if (writes) y[own.place] = old + static_cast<real>(sign) * sum;
}

// q = H h, dot = x . q.
EACH(T, 1, 8, 32) ENTRY __launch_bounds__(THREADS) times_dot_##T(
    GHOSTS, const real* x, real* q, double* partials, unsigned* ticket, double* dot, int rows
) {
    next_may_start();
    Row<T> own(start, columns, values, places, rows);
    wait_for_last_launch();
    const bool writes = own.valid && own.lane == 0;
    const real factor = writes ? x[own.place] : real(0), sum = own.times(columns, values, h);
    if (writes) q[own.number] = sum;
    grid_sum<sum_of_block>(static_cast<double>(factor) * (writes ? sum : real(0)), partials, ticket, dot);
}
