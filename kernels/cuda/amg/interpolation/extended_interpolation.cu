// Rows of P with at most so many entries each: kernels/cpu/amg/extended_interpolation.py says which, and in which order sums are made.
//
// A row is found, truncated and scaled in shared memory, so that what is dropped is never written. A row reads 13 bytes an
// entry of A, and of each strong fine neighbor 24 and 12 for each coarse point that it sees, on lattices from caches; it
// writes 12 an entry that is kept.

#include "sparse/table.cuh"
#include "sparse/staged.cuh"
#include "amg/interpolation/rows.cuh"

constexpr double MOST_SCALING = 10.0;   // as in extended_interpolation.py
constexpr unsigned char DEPENDS = 1;    // as in couplings.py
constexpr signed char COARSE = 1;       // as in pmis.py

// Whether a weight is kept rather than another one: it is larger, or as large in a smaller column.
__device__ __forceinline__ bool before(double value, int column, double other, int others) {
    return fabs(value) > fabs(other) || (fabs(value) == fabs(other) && column < others);
}

// What restores the sum of all weights where some of them are kept.
__device__ __forceinline__ double scaling(double total, double kept) {
    const double factor = kept != 0.0 ? total / kept : 1.0;
    return 0.0 < factor && factor <= MOST_SCALING ? factor : 1.0;
}

// The next weight that is kept after (value, column), of n. Zero if there is none.
template <typename Lanes>
__device__ __forceinline__ void next(const Lanes& group, const Room& room, int n, double& value, int& column) {
    double best = 0.0;
    int at = 0x7fffffff;
    for (int m = group.lane; m < n; m += Lanes::LANES) {
        const double weight = room.sums[m];
        const int where = room.columns[m];
        if (before(weight, where, best, at) && before(value, column, weight, where) && weight != 0.0) {
            best = weight;
            at = where;
        }
    }
#pragma unroll
    for (int step = Lanes::LANES / 2; step > 0; step /= 2) {
        const double other = __shfl_xor_sync(group.mask, best, step, Lanes::LANES);
        const int where = __shfl_xor_sync(group.mask, at, step, Lanes::LANES);
        if (before(other, where, best, at)) {
            best = other;
            at = where;
        }
    }
    value = best;
    column = at;
}

// The largest of n weights, columns ascending, times scale and what restores their sum, which is made in the order in which
// they were found; returns how many there are.
template <typename Lanes>
__device__ __forceinline__ int keep(
    const Lanes& group, const Room& room, int n, double scale, int most, int* columns, double* values
) {
    constexpr int G = Lanes::LANES;
    double total = 0.0, found = 0.0;
    for (int m = 0; m < n; ++m) total = __dadd_rn(total, room.sums[m]);
    int kept = 0, column = NONE;
    double value = __longlong_as_double(0x7ff0000000000000);   // infinity
    const int turns = group.most(min(most, n));
    for (int turn = 0; turn < turns; ++turn) {
        next(group, room, n, value, column);   // behind the last one there are zeros
        if (value == 0.0) continue;
        if (group.lane == 0) {
            room.kept[kept] = value;
            room.kept_columns[kept] = column;
        }
        ++kept;
    }
    group.sync();   // the sums are not needed any more
    for (int m = group.lane; m < kept; m += G) {
        const int own = room.kept_columns[m];
        int at = 0;
        for (int q = 0; q < kept; ++q) at += room.kept_columns[q] < own;
        columns[at] = own;
        room.sums[at] = room.kept[m];
    }
    group.sync();
    for (int m = 0; m < kept; ++m) found = __dadd_rn(found, room.sums[m]);
    const double factor = __dmul_rn(scale, scaling(total, found));
    for (int m = group.lane; m < kept; m += G) values[m] = __dmul_rn(room.sums[m], factor);
    return kept;
}

// The same by one thread, whose columns and weights stand THREADS places from each other.
__device__ __forceinline__ int keep_alone(
    int* found, double* weights, int n, double scale, int most, int* columns, double* values
) {
    double total = 0.0, sum = 0.0, smallest = 0.0;
    int kept = 0, least = 0, at_least = 0;   // the one to be replaced
    for (int m = 0; m < n; ++m) {
        const int column = found[m * THREADS];
        const double weight = weights[m * THREADS];
        total = __dadd_rn(total, weight);
        if (weight == 0.0 || (kept == most && !before(weight, column, smallest, at_least))) continue;
        const int at = kept == most ? least : kept++;
        found[at * THREADS] = column;
        weights[at * THREADS] = weight;
        if (kept < most) continue;
        least = 0;
        smallest = weights[0];
        at_least = found[0];
        for (int q = 1; q < most; ++q) {
            const double other = weights[q * THREADS];
            const int where = found[q * THREADS];
            if (!before(smallest, at_least, other, where)) continue;
            least = q;
            smallest = other;
            at_least = where;
        }
    }
    for (int m = 1; m < kept; ++m) {
        const int column = found[m * THREADS];
        const double weight = weights[m * THREADS];
        int at = m;
        for (; at > 0 && found[(at - 1) * THREADS] > column; --at) {
            found[at * THREADS] = found[(at - 1) * THREADS];
            weights[at * THREADS] = weights[(at - 1) * THREADS];
        }
        found[at * THREADS] = column;
        weights[at * THREADS] = weight;
    }
    for (int m = 0; m < kept; ++m) sum = __dadd_rn(sum, weights[m * THREADS]);
    const double factor = __dmul_rn(scale, scaling(total, sum));
    for (int m = 0; m < kept; ++m) {
        columns[m] = found[m * THREADS];
        values[m] = __dmul_rn(weights[m * THREADS], factor);
    }
    return kept;
}

// Rows of P before they are compressed: `most` places each, and their lengths.
struct Wide {
    long long* lengths;
    int most;
    int* columns;
    double* values;

    __device__ __forceinline__ int skipped(long long) const { return NONE; }

    template <typename Lanes>
    __device__ __forceinline__ void keep_row(
        const Lanes& group, long long p, const Room& room, int n, double scale
    ) const {
        const int kept = keep(group, room, n, scale, most, columns + p * most, values + p * most);
        if (group.lane == 0 && p != NO_ROW) lengths[p] = kept;
    }

    __device__ __forceinline__ void keep_alone_row(long long p, int* found, double* weights, int n, double scale) const {
        lengths[p] = keep_alone(found, weights, n, scale, most, columns + p * most, values + p * most);
    }
};

struct Interpolation : Wide {
    static constexpr bool CENTERED = true;
    const long long *points, *a_start;   // points: none where a row is made of each
    const int* a_columns;
    const double* a_values;
    const unsigned char* bits;
    const signed char* state;
    int below;
    const long long* start;    // of the couplings of fine points to coarse ones; zeros are none
    const int* seen;
    const double *weights, *weight_sums;
    const int* coarse;
    double negligible;

    __device__ __forceinline__ long long point(long long p) const { return points ? __ldg(points + p) : p; }
    __device__ __forceinline__ long long first(long long p) const { return __ldg(a_start + point(p)); }
    __device__ __forceinline__ long long last(long long p) const { return __ldg(a_start + point(p) + 1); }

    __device__ __forceinline__ bool done(int lane, long long p) const {
        const long long i = below + point(p);
        if (__ldg(state + i) != COARSE) return false;
        if (lane == 0) {
            columns[p * most] = __ldg(coarse + i);
            values[p * most] = 1.0;
            lengths[p] = 1;
        }
        return true;
    }

    struct Entry {
        int column, bit;
        double value;
    };

    __device__ __forceinline__ Entry entry(long long k) const {
        return {__ldg(a_columns + k), __ldg(bits + k), __ldg(a_values + k)};
    }

    __device__ __forceinline__ Terms terms(const Entry& of) const {
        const int j = of.column;
        const double value = of.value;
        Terms found;
        found.size = fabs(value);
        if (!(of.bit & DEPENDS)) {
            found.center = value;
            return found;
        }
        const int own = __ldg(coarse + j);
        if (own >= 0) {
            found.own = own;
            found.value = value;
            return found;
        }
        found.begin = __ldg(start + j);
        found.length = static_cast<int>(__ldg(start + j + 1) - found.begin);
        found.factor = value / __dadd_rn(value, __ldg(weight_sums + j));
        found.center = __dmul_rn(value, found.factor);
        return found;
    }

    __device__ __forceinline__ int column(long long m, double value) const {
        const int found = __ldg(seen + m);   // requested together with the value
        return value == 0.0 ? NONE : found;
    }
    __device__ __forceinline__ double product(double factor, long long m) const {
        return __dmul_rn(factor, -fabs(__ldg(weights + m)));
    }

    template <typename Lanes>
    __device__ __forceinline__ void finish(
        const Lanes& group, long long p, const Room& room, int n, const Center& sums
    ) const {
        keep_row(group, p, room, sums.center > negligible * sums.size ? n : 0, -1.0 / sums.center);
    }
    __device__ __forceinline__ void finish_alone(long long p, int* found, double* sums, int n, const Center& of) const {
        keep_alone_row(p, found, sums, of.center > negligible * of.size ? n : 0, -1.0 / of.center);
    }
};

struct Product : Wide {
    static constexpr bool CENTERED = false;
    const long long* a_start;
    const int* a_columns;
    const double* a_values;
    const long long* start;
    const int* b_columns;
    const double* b_values;

    __device__ __forceinline__ long long first(long long p) const { return __ldg(a_start + p); }
    __device__ __forceinline__ long long last(long long p) const { return __ldg(a_start + p + 1); }

    __device__ __forceinline__ bool done(int, long long) const { return false; }

    struct Entry {
        int column;
        double value;
    };

    __device__ __forceinline__ Entry entry(long long k) const { return {__ldg(a_columns + k), __ldg(a_values + k)}; }

    __device__ __forceinline__ Terms terms(const Entry& of) const {
        Terms found;
        found.begin = __ldg(start + of.column);
        found.length = static_cast<int>(__ldg(start + of.column + 1) - found.begin);
        found.factor = of.value;
        return found;
    }

    __device__ __forceinline__ int column(long long m, double) const { return __ldg(b_columns + m); }
    __device__ __forceinline__ double product(double factor, long long m) const {
        return __dmul_rn(factor, __ldg(b_values + m));
    }

    template <typename Lanes>
    __device__ __forceinline__ void finish(
        const Lanes& group, long long p, const Room& room, int n, const Center&
    ) const {
        keep_row(group, p, room, n, 1.0);
    }
    __device__ __forceinline__ void finish_alone(long long p, int* found, double* sums, int n, const Center&) const {
        keep_alone_row(p, found, sums, n, 1.0);
    }
};

#define WIDE long long *lengths, int most, int *out_columns, double *out_values
#define A const long long *a_start, const int *a_columns, const double *a_values
#define B const long long *start, const int *columns, const double *values

ROWS(
    interpolate,
    (Interpolation{
        {lengths, most, out_columns, out_values}, points, a_start, a_columns, a_values, bits, state, below, start, columns,
        values, sums, coarse, negligible,
    }),
    WIDE, const long long* points, A, const unsigned char* bits, const signed char* state, int below, B, const double* sums,
    const int* coarse, double negligible
)

ROWS(
    multiply,
    (Product{{lengths, most, out_columns, out_values}, a_start, a_columns, a_values, start, columns, values}),
    WIDE, A, B
)

// The sum of each row of couplings, in its order; one that depends alone has another sign.
extern "C" __global__ void add_up(
    const long long* __restrict__ start, const double* __restrict__ values, long long rows, double* __restrict__ sums
) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    double total = 0.0;
    const long long last = start[i + 1];
    for (long long k = start[i]; k < last; ++k) total = __dadd_rn(total, -fabs(values[k]));
    sums[i] = total;
}

// Couplings to fewer coarse points, in the places of those to all of them: others are zeros. 24 bytes an entry.
extern "C" __global__ void rename(
    const long long* __restrict__ start, const int* __restrict__ columns, const double* __restrict__ values, long long rows,
    const long long* __restrict__ names, int* __restrict__ out_columns, double* __restrict__ out_values
) {
    const long long k = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (k >= start[rows]) return;   // arrays may be longer
    const long long name = names[columns[k]];
    out_columns[k] = max(static_cast<int>(name), 0);
    out_values[k] = name < 0 ? 0.0 : values[k];
}

// Rows of equal room, one after the other. A thread an entry, kept or not: 24 bytes each.
extern "C" __global__ void compress(
    const int* __restrict__ columns, const double* __restrict__ values, const long long* __restrict__ start, long long rows,
    int most, int* __restrict__ out_columns, double* __restrict__ out_values
) {
    const long long from = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x, row = from / most;
    if (row >= rows) return;
    const long long to = start[row] + (from - row * most);
    if (to >= start[row + 1]) return;
    out_columns[to] = columns[from];
    out_values[to] = values[from];
}
