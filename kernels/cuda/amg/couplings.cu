// Strong couplings of rows (dsolver/kernels/cuda/amg/couplings.py): some lanes a row, chosen by the rows' mean length, so
// that lanes of a warp read what lies together.

#include "device.cuh"
#include "sparse/table.cuh"

constexpr int THREADS = 256;
constexpr int TILE = 2048;               // entries of a block that are in shared memory at once
constexpr int LOADS = TILE / THREADS;    // of a thread, all requested before the first is used
constexpr int BATCH = 4;                 // entries of a lane that it looks at together
constexpr int DEPENDS = 1, LEADS = 2;
constexpr signed char COARSE = 1, FINE = 2;

// Places of a tile in shared memory: rows of 16 doubles, or 32 integers, would all begin in one bank.
constexpr DEVICE int of_value(int i) { return i + i / 16; }
constexpr DEVICE int of_column(int i) { return i + i / 32; }

#define CSR In<i64> start, In<int> columns, In<double> values

// Size of the most negative coupling, diagonal, and the part of it that (a_ii + sum of |a_ij|) / 2 is, of `of_block` rows a
// block, a thread a row.
// Sums have the order of the rows, so one thread makes each; entries come to it through shared memory, in tiles.
ENTRY __launch_bounds__(THREADS, 4) measure(
    CSR, int rows, int below, int of_block, Out<double> largest, Out<double> diagonal, Out<double> share
) {
    __shared__ double value_at[of_value(TILE)];
    __shared__ int column_at[of_column(TILE)];
    const int first = blockIdx.x * of_block, last = min(first + of_block, rows), i = first + threadIdx.x;
    const i64 begin = start[first], end = start[last];
    const i64 from = i < last ? start[i] : 0, to = i < last ? start[i + 1] : 0;
    double most = 0.0, center = 0.0, size = 0.0;
    for (i64 base = begin; base < end; base += TILE) {
        const int here = static_cast<int>(min(static_cast<i64>(TILE), end - base));
        double value[LOADS];
        int column[LOADS];
        UNROLLED for (int k = 0; k < LOADS; ++k) {
            const int at = k * THREADS + threadIdx.x;
            value[k] = at < here ? values[base + at] : 0.0;
            column[k] = at < here ? columns[base + at] : 0;
        }
        UNROLLED for (int k = 0; k < LOADS; ++k) {
            const int at = k * THREADS + threadIdx.x;
            value_at[of_value(at)] = value[k];
            column_at[of_column(at)] = column[k];
        }
        __syncthreads();
        const int stop = static_cast<int>(max(0LL, min(static_cast<i64>(here), to - base)));
        for (int k = static_cast<int>(max(0LL, min(static_cast<i64>(here), from - base))); k < stop; ++k) {
            const double entry = value_at[of_value(k)];
            size = __dadd_rn(size, fabs(entry));
            if (column_at[of_column(k)] == below + i) center = entry;
            else most = fmax(most, -entry);
        }
        __syncthreads();
    }
    if (i >= last) return;
    largest[i] = most;
    diagonal[i] = center;
    share[i] = __ddiv_rn(__dadd_rn(center, size), __dmul_rn(2.0, center));
}

// A row of a group of G lanes, in step with the others of its warp; the entries first .. end - 1 are none behind the last row.
template <int G>
struct Row {
    Group<G> group;
    i64 i, first, end;

    DEVICE Row(const i64* start, int rows) {
        i = (static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x) / G;
        first = i < rows ? start[i] : 0;
        end = i < rows ? start[i + 1] : 0;
    }
};

// Bits of each entry, and of each row how many rows depend on it: 13 bytes an entry and `largest` of its column. A lane has
// BATCH entries at a time: what it waits for is one load of each of them, not one after the other.
EACH(G, 1, 2, 4, 8, 16, 32) ENTRY __launch_bounds__(THREADS) couple_##G(
    CSR, int rows, int below, In<double> largest, double theta, Out<unsigned char> bits, Out<i64> counts
) {
    const Row<G> row(start, rows);
    const int me = below + static_cast<int>(row.i);
    const double own = row.i < rows ? __dmul_rn(theta, largest[me]) : 0.0;
    int n = 0;
    for (i64 base = row.first + row.group.lane; base < row.end; base += BATCH * G) {
        int j[BATCH];
        double size[BATCH], other[BATCH];
        UNROLLED for (int q = 0; q < BATCH; ++q) {
            const bool there = base + q * G < row.end;
            j[q] = there ? columns[base + q * G] : me;
            size[q] = there ? -values[base + q * G] : 0.0;
        }
        UNROLLED for (int q = 0; q < BATCH; ++q) other[q] = size[q] > 0.0 ? largest[j[q]] : 0.0;
        UNROLLED for (int q = 0; q < BATCH; ++q) {
            int found = 0;
            if (j[q] != me && size[q] > 0.0) {
                if (size[q] > own) found |= DEPENDS;
                if (size[q] > __dmul_rn(theta, other[q])) found |= LEADS;
            }
            if (base + q * G < row.end) bits[base + q * G] = static_cast<unsigned char>(found);
            n += found / LEADS;
        }
    }
    n = row.group.sum(n);
    if (row.i < rows && row.group.lane == 0) counts[row.i] = n;
}

#define COARSE_ROWS \
    In<i64> start, In<int> columns, In<unsigned char> bits, In<signed char> state, int rows, int below, \
    int every

// Which of a lane's BATCH entries from `base` on lead to coarse points: a bit of each, and their bits and columns.
template <int G>
DEVICE int coarse_ones(
    const int* columns, const unsigned char* bits, const signed char* state, int every, i64 base, i64 end,
    int (&bit)[BATCH], int (&j)[BATCH]
) {
    const int wanted = every ? DEPENDS | LEADS : DEPENDS, left = static_cast<int>(min(end - base, BATCH * 1LL * G));
    int found = 0;
    bits += base;
    columns += base;
    UNROLLED for (int q = 0; q < BATCH; ++q) bit[q] = q * G < left ? bits[q * G] : 0;
    UNROLLED for (int q = 0; q < BATCH; ++q) j[q] = bit[q] & wanted ? columns[q * G] : -1;
    UNROLLED for (int q = 0; q < BATCH; ++q) found |= (j[q] >= 0 && state[j[q]] == COARSE) << q;
    return found;
}

// Entries of each row that lead to coarse points: 1 byte an entry, and 5 where it is strong.
EACH(G, 1, 2, 4, 8, 16, 32) ENTRY __launch_bounds__(THREADS) count_coarse_##G(COARSE_ROWS, Out<i64> lengths) {
    const Row<G> row(start, rows);
    const i64 end = row.i < rows && (every || state[below + row.i] == FINE) ? row.end : row.first;
    int n = 0, bit[BATCH], j[BATCH];
    for (i64 base = row.first + row.group.lane; base < end; base += BATCH * G)
        n += __popc(coarse_ones<G>(columns, bits, state, every, base, end, bit, j));
    n = row.group.sum(n);
    if (row.i < rows && row.group.lane == 0) lengths[row.i] = n;
}

// These entries, in their order. Of `every` one, the value tells the directions, as in kernels/cpu/amg/couplings.py.
EACH(G, 1, 2, 4, 8, 16, 32) ENTRY __launch_bounds__(THREADS) fill_coarse_##G(
    COARSE_ROWS, In<double> values, In<int> names, In<i64> out_start, Out<int> out_columns, Out<double> out_values
) {
    const Row<G> row(start, rows);
    i64 to = row.i < rows ? out_start[row.i] : 0;
    const bool some = row.i < rows && to < out_start[row.i + 1];
    const int turns = row.group.most(some ? static_cast<int>((row.end - row.first + BATCH * G - 1) / (BATCH * G)) : 0);
    i64 base = row.first + row.group.lane;
    for (int turn = 0; turn < turns; ++turn, base += BATCH * G) {
        int bit[BATCH], j[BATCH];
        const int found = some ? coarse_ones<G>(columns, bits, state, every, base, row.end, bit, j) : 0;
        UNROLLED for (int q = 0; q < BATCH; ++q) {
            const unsigned all = row.group.ballot(found >> q & 1);
            if (found >> q & 1) {
                const i64 at = to + __popc(all & ((1u << row.group.lane) - 1u));
                out_columns[at] = names[j[q]];
                const double value = values[base + q * G];
                const bool both = bit[q] == (DEPENDS | LEADS);
                out_values[at] = !every || both ? value : bit[q] & DEPENDS ? -value : 0.0;
            }
            to += __popc(all);
        }
    }
}
