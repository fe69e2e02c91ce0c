// Couplings of coarse points by at least so many paths of strong couplings: `paths` in kernels/cpu/amg/couplings.py.

#include "device.cuh"
#include "sparse/table.cuh"
#include "sparse/staged.cuh"
#include "amg/interpolation/terms.cuh"
#include "amg/interpolation/rows.cuh"

constexpr double LEADING = 67108864.0;   // 2^26: a sum counts paths of the one direction, and this times those of the other

DEVICE double one_path(int bits) { return (bits & 1) + LEADING * (bits >> 1); }

// The bits of a coupling that its value tells, as in kernels/cpu/amg/couplings.py.
DEVICE int bits_of(double value) { return (value != 0.0) + 2 * (value <= 0.0); }

// Rows are counted where there are no columns to write to. Those of a thread are kept until then: columns times four, plus bits.
struct Paths {
    static constexpr bool CENTERED = false;
    i64* lengths;
    unsigned* short_rows;
    const i64* out_start;
    int* out_columns;
    double* out_values;
    const i64 *points, *a_start;
    const int* a_columns;
    const unsigned char* bits;
    int below;
    const int* coarse;
    const i64* start;   // of the couplings of all points to coarse ones
    const int* seen;
    const double* seen_values;
    int least;

    DEVICE i64 first(i64 p) const { return __ldg(a_start + __ldg(points + p)); }
    DEVICE i64 last(i64 p) const { return __ldg(a_start + __ldg(points + p) + 1); }

    DEVICE bool done(int, i64) const { return false; }

    DEVICE int skipped(i64 p) const { return __ldg(coarse + below + __ldg(points + p)); }

    struct Entry {
        int column, bit;
    };

    DEVICE Entry entry(i64 k) const { return {__ldg(a_columns + k), __ldg(bits + k)}; }

    DEVICE Terms terms(const Entry& of) const {
        const int bit = of.bit, j = of.column;
        Terms found;
        if (bit == 0) return found;
        found.own = __ldg(coarse + j);
        found.value = 2.0 * one_path(bit);
        found.begin = __ldg(start + j);
        found.length = static_cast<int>(__ldg(start + j + 1) - found.begin);
        found.factor = bit;
        return found;
    }

    DEVICE double product(double factor, i64 m) const {
        return one_path(static_cast<int>(factor) & bits_of(__ldg(seen_values + m)));
    }
    DEVICE int column(i64 m, double value) const {
        const int found = __ldg(seen + m);   // requested together with the value
        return value == 0.0 ? NONE : found;
    }

    // The directions with paths enough.
    DEVICE int enough(double sum) const {
        const double leading = floor(sum / LEADING);
        return (sum - leading * LEADING >= least) + 2 * (leading >= least);
    }

    DEVICE void finish_alone(i64 p, int* found, double* sums, int n, const Center&) const {
        int kept = 0;
        for (int m = 0; m < n; ++m) {
            const int directions = enough(sums[m * THREADS]);
            if (!directions) continue;
            const int entry = static_cast<int>(static_cast<unsigned>(found[m * THREADS]) << 2 | directions);
            int at = kept++;
            for (; at > 0 && static_cast<unsigned>(found[(at - 1) * THREADS]) > static_cast<unsigned>(entry); --at)
                found[at * THREADS] = found[(at - 1) * THREADS];
            found[at * THREADS] = entry;
        }
        for (int m = 0; m < kept; ++m) short_rows[p * ALONE + m] = found[m * THREADS];
        lengths[p] = kept;
    }

    template <typename Lanes>
    DEVICE void finish(const Lanes& group, i64 p, const Room& room, int n, const Center&) const {
        constexpr int G = Lanes::LANES;
        const int own = p == NO_ROW ? NONE : skipped(p);
        const int turns = group.most((n + G - 1) / G);
        int kept = 0;
        for (int turn = 0, m = group.lane; turn < turns; ++turn, m += G) {
            const int column = m < n ? room.columns[m] : own;
            const double sum = m < n ? room.sums[m] : 0.0;
            const bool mine = column != own && enough(sum);
            const unsigned all = group.ballot(mine);
            group.sync();   // all have read what is overwritten now
            if (mine) {
                const int at = kept + __popc(all & group.before());
                room.columns[at] = column;
                room.sums[at] = sum;
            }
            kept += __popc(all);
        }
        group.sync();
        if (p == NO_ROW) return;
        if (out_columns == nullptr) {
            if (group.lane == 0) lengths[p] = kept;
            return;
        }
        const i64 to = __ldg(out_start + p);
        for (int m = group.lane; m < kept; m += G) {
            const int column = room.columns[m];
            int at = 0;
            for (int q = 0; q < kept; ++q) at += room.columns[q] < column;
            out_columns[to + at] = column;
            out_values[to + at] = enough(room.sums[m]);
        }
    }
};

ROWS(
    paths,
    (Paths{
        lengths, short_rows, out_start, out_columns, out_values, points, a_start, a_columns, bits, below, coarse, start, seen,
        seen_values, least,
    }),
    i64 *lengths, unsigned *short_rows, const i64 *out_start, int *out_columns, double *out_values, const i64 *points,
    const i64 *a_start, const int *a_columns, const unsigned char *bits, int below, const int *coarse,
    const i64 *start, const int *seen, const double *seen_values, int least
)

// The rows of threads, at their places. Of other rows there is nothing of use, and they are written later.
ENTRY unpack(In<unsigned> short_rows, In<i64> start, i64 rows, Out<int> out_columns, Out<double> out_values) {
    const i64 from = thread_number(), row = from / ALONE;
    if (row >= rows) return;
    const i64 to = start[row] + from % ALONE;
    if (to >= start[row + 1]) return;
    out_columns[to] = short_rows[from] >> 2;
    out_values[to] = short_rows[from] & 3u;
}
