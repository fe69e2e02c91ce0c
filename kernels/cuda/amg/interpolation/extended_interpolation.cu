// Rows of P with at most so many entries each: kernels/cpu/amg/extended_interpolation.py says which, and in which order sums are made.
//
// A row is found, truncated and scaled in shared memory, so that what is dropped is never written. A row reads 13 bytes an
// entry of A, and of each strong fine neighbor 24 and 12 for each coarse point that it sees, on lattices from caches; it
// writes 12 an entry that is kept.

#include "device.cuh"
#include "sparse/table.cuh"
#include "sparse/staged.cuh"
#include "amg/interpolation/terms.cuh"
#include "amg/interpolation/rows.cuh"
#include "amg/interpolation/kept.cuh"

constexpr unsigned char DEPENDS = 1;    // as in couplings.py
constexpr signed char COARSE = 1;       // as in pmis.py

// Rows of P before they are compressed: `most` places each, and their lengths.
struct Wide {
    i64* lengths;
    int most;
    int* columns;
    double* values;

    DEVICE int skipped(i64) const { return NONE; }

    template <typename Lanes>
    DEVICE void keep_row(const Lanes& group, i64 p, const Room& room, int n, double scale) const {
        const int kept = keep(group, room, n, scale, most, columns + p * most, values + p * most);
        if (group.lane == 0 && p != NO_ROW) lengths[p] = kept;
    }

    DEVICE void keep_alone_row(i64 p, int* found, double* weights, int n, double scale) const {
        lengths[p] = keep_alone(found, weights, n, scale, most, columns + p * most, values + p * most);
    }
};

struct Interpolation : Wide {
    static constexpr bool CENTERED = true;
    const i64 *points, *a_start;   // points: none where a row is made of each
    const int* a_columns;
    const double* a_values;
    const unsigned char* bits;
    const signed char* state;
    int below;
    const i64* start;    // of the couplings of fine points to coarse ones; zeros are none
    const int* seen;
    const double *weights, *weight_sums;
    const int* coarse;
    double negligible;

    DEVICE i64 point(i64 p) const { return points ? __ldg(points + p) : p; }
    DEVICE i64 first(i64 p) const { return __ldg(a_start + point(p)); }
    DEVICE i64 last(i64 p) const { return __ldg(a_start + point(p) + 1); }

    DEVICE bool done(int lane, i64 p) const {
        const i64 i = below + point(p);
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

    DEVICE Entry entry(i64 k) const {
        return {__ldg(a_columns + k), __ldg(bits + k), __ldg(a_values + k)};
    }

    DEVICE Terms terms(const Entry& of) const {
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

    DEVICE int column(i64 m, double value) const {
        const int found = __ldg(seen + m);   // requested together with the value
        return value == 0.0 ? NONE : found;
    }
    DEVICE double product(double factor, i64 m) const { return __dmul_rn(factor, -fabs(__ldg(weights + m))); }

    template <typename Lanes>
    DEVICE void finish(const Lanes& group, i64 p, const Room& room, int n, const Center& sums) const {
        keep_row(group, p, room, sums.center > negligible * sums.size ? n : 0, -1.0 / sums.center);
    }
    DEVICE void finish_alone(i64 p, int* found, double* sums, int n, const Center& of) const {
        keep_alone_row(p, found, sums, of.center > negligible * of.size ? n : 0, -1.0 / of.center);
    }
};

struct Product : Wide {
    static constexpr bool CENTERED = false;
    const i64* a_start;
    const int* a_columns;
    const double* a_values;
    const i64* start;
    const int* b_columns;
    const double* b_values;

    DEVICE i64 first(i64 p) const { return __ldg(a_start + p); }
    DEVICE i64 last(i64 p) const { return __ldg(a_start + p + 1); }

    DEVICE bool done(int, i64) const { return false; }

    struct Entry {
        int column;
        double value;
    };

    DEVICE Entry entry(i64 k) const { return {__ldg(a_columns + k), __ldg(a_values + k)}; }

    DEVICE Terms terms(const Entry& of) const {
        Terms found;
        found.begin = __ldg(start + of.column);
        found.length = static_cast<int>(__ldg(start + of.column + 1) - found.begin);
        found.factor = of.value;
        return found;
    }

    DEVICE int column(i64 m, double) const { return __ldg(b_columns + m); }
    DEVICE double product(double factor, i64 m) const { return __dmul_rn(factor, __ldg(b_values + m)); }

    template <typename Lanes>
    DEVICE void finish(const Lanes& group, i64 p, const Room& room, int n, const Center&) const {
        keep_row(group, p, room, n, 1.0);
    }
    DEVICE void finish_alone(i64 p, int* found, double* sums, int n, const Center&) const {
        keep_alone_row(p, found, sums, n, 1.0);
    }
};

#define WIDE i64 *lengths, int most, int *out_columns, double *out_values
#define A const i64 *a_start, const int *a_columns, const double *a_values
#define B const i64 *start, const int *columns, const double *values

ROWS(
    interpolate,
    (Interpolation{
        {lengths, most, out_columns, out_values}, points, a_start, a_columns, a_values, bits, state, below, start, columns,
        values, sums, coarse, negligible,
    }),
    WIDE, const i64* points, A, const unsigned char* bits, const signed char* state, int below, B, const double* sums,
    const int* coarse, double negligible
)

ROWS(
    multiply,
    (Product{{lengths, most, out_columns, out_values}, a_start, a_columns, a_values, start, columns, values}),
    WIDE, A, B
)

// The sum of each row of couplings, in its order; one that depends alone has another sign.
ENTRY add_up(In<i64> start, In<double> values, i64 rows, Out<double> sums) {
    const i64 i = thread_number();
    if (i >= rows) return;
    double total = 0.0;
    const i64 last = start[i + 1];
    for (i64 k = start[i]; k < last; ++k) total = __dadd_rn(total, -fabs(values[k]));
    sums[i] = total;
}

// Couplings to fewer coarse points, in the places of those to all of them: others are zeros. 24 bytes an entry.
ENTRY rename(
    In<i64> start, In<int> columns, In<double> values, i64 rows, In<i64> names, Out<int> out_columns,
    Out<double> out_values
) {
    const i64 k = thread_number();
    if (k >= start[rows]) return;   // arrays may be longer
    const i64 name = names[columns[k]];
    out_columns[k] = max(static_cast<int>(name), 0);
    out_values[k] = name < 0 ? 0.0 : values[k];
}

// Rows of equal room, one after the other. A thread an entry, kept or not: 24 bytes each.
ENTRY compress(
    In<int> columns, In<double> values, In<i64> start, i64 rows, int most, Out<int> out_columns, Out<double> out_values
) {
    const i64 from = thread_number(), row = from / most;
    if (row >= rows) return;
    const i64 to = start[row] + (from - row * most);
    if (to >= start[row + 1]) return;
    out_columns[to] = columns[from];
    out_values[to] = values[from];
}
