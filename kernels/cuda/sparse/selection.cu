// Some rows of a matrix, with their entries in some columns (dsolver.kernels.cpu.amg.selection is the text).

#include "device.cuh"
#include "sparse/table.cuh"

using real = REAL;

constexpr int LANES = 8;   // that share a row, as in selection.py

DEVICE i64 own_row() { return thread_number() / LANES; }

using number_4 = int;   // of a column, by its bytes
using number_8 = i64;

// rows: those that are taken; null for all. low, high: columns that are taken.
EACH(BYTES, 4, 8) ENTRY select_##BYTES(
    In<i64> start, In<number_##BYTES> columns, In<real> values, In<i64> rows, int count, i64 low, i64 high,
    Out<int> lengths, In<i64> begins, Out<number_##BYTES> out_columns, Out<real> out_values
) {
    const Group<LANES> group;
    const i64 i = own_row();
    i64 k = 0, last = 0, at = 0;
    if (i < count) {
        const i64 row = rows ? rows[i] : i;
        k = start[row];
        last = start[row + 1];
        if (begins) at = begins[i];
    }
    int found = 0;
    // All lanes of a warp go on until the longest of its rows has ended: they wait for each other.
    for (k += group.lane; group.any(k < last); k += LANES) {
        const number_##BYTES column = k < last ? columns[k] : 0;
        const bool kept = k < last && column >= low && column < high;
        const unsigned all = group.ballot(kept);
        if (kept && begins) {
            const i64 to = at + found + __popc(all & group.before());
            out_columns[to] = column;
            out_values[to] = values[k];
        }
        found += __popc(all);
    }
    if (!begins && group.lane == 0 && i < count) lengths[i] = found;
}

// Lengths of some rows.
ENTRY lengths_of(In<i64> start, In<i64> rows, int count, Out<int> lengths) {
    const i64 i = thread_number();
    if (i < count) lengths[i] = static_cast<int>(start[rows[i] + 1] - start[rows[i]]);
}

// What a row has of entries in own columns, low .. high, and in others, and whether it has any in others: three numbers a row.
// longest: the most entries in others that a row has.
ENTRY count_parts(In<i64> start, In<int> columns, int rows, int low, int high, Out<int> counts, Out<i64> longest) {
    const Group<LANES> group;
    const i64 i = own_row(), first = i < rows ? start[i] : 0, last = i < rows ? start[i + 1] : 0;
    const int length = static_cast<int>(last - first);
    int own = 0;
    for (i64 k = first + group.lane; k < last; k += LANES) own += columns[k] >= low && columns[k] < high;
    own = group.sum(own);
    if (group.lane == 0 && i < rows) {
        counts[3 * i] = own;
        counts[3 * i + 1] = length - own;
        counts[3 * i + 2] = length > own;
        if (length > own) atomicMax(reinterpret_cast<int*>(longest), length - own);
    }
}

// sums: of these numbers up to each row, number after number. Own columns are numbered from low on, and others without these.
ENTRY fill_parts(
    In<i64> start, In<int> columns, In<real> values, int rows, int low, int high, In<i64> sums, Out<i64> local_start,
    Out<int> local_columns, Out<real> local_values, Out<i64> boundary, Out<i64> ghost_start, Out<int> slots,
    Out<real> ghost_values
) {
    const Group<LANES> group;
    const i64 i = own_row();
    i64 k = 0, last = 0, own = 0, ghost = 0;
    if (i < rows) {
        k = start[i];
        last = start[i + 1];
        own = i ? sums[i - 1] : 0;
        ghost = i ? sums[rows + i - 1] : 0;
        if (group.lane == 0) {
            const i64 ends = sums[rows + i], number = sums[2 * static_cast<i64>(rows) + i];
            if (i == 0) local_start[0] = 0;
            local_start[i + 1] = sums[i];
            if (ends > ghost) {
                boundary[number - 1] = i;
                ghost_start[number - 1] = ghost;
            }
            if (i == rows - 1) ghost_start[number] = ends;
        }
    }
    for (k += group.lane; group.any(k < last); k += LANES) {
        const bool there = k < last;
        const int column = there ? columns[k] : 0;
        const bool inside = there && column >= low && column < high;
        const unsigned owns = group.ballot(inside), ghosts = group.ballot(there && !inside);
        if (inside) {
            const i64 to = own + __popc(owns & group.before());
            local_columns[to] = column - low;
            local_values[to] = values[k];
        } else if (there) {
            const i64 to = ghost + __popc(ghosts & group.before());
            slots[to] = column < low ? column : column - (high - low);
            ghost_values[to] = values[k];
        }
        own += __popc(owns);
        ghost += __popc(ghosts);
    }
}

// A matrix between rows with a one each: row i before it in column i, and those behind it in columns behind its own, of which it
// has so many.
ENTRY border(
    In<i64> start, In<int> columns, In<real> values, i64 entries, int rows, int width, int before, int after,
    Out<i64> out_start, Out<int> out_columns, Out<real> out_values
) {
    const i64 i = thread_number(), at = i - before;
    if (i < before + entries + after) {
        const bool inside = at >= 0 && at < entries;
        out_columns[i] = inside ? columns[at] + before : static_cast<int>(at < 0 ? i : at - entries + before + width);
        out_values[i] = inside ? values[at] : real(1);
    }
    if (i <= before + static_cast<i64>(rows) + after)
        out_start[i] = at < 0 ? i : at < rows ? before + start[at] : before + entries + at - rows;
}

// Pieces of as many rows: ends[2 n] becomes the largest of the columns that piece n has, and ends[2 n + 1] the largest of
// MOST - column, both from 0. Blocks of a piece lie along y.
constexpr int MOST = 0x7fffffff;
ENTRY ends_of_pieces(const i64* __restrict__ start, const int* __restrict__ columns, i64 rows, int* __restrict__ ends) {
    const i64 n = blockIdx.y, pieces = gridDim.y, last = start[rows * (n + 1) / pieces];
    int high = 0, low = 0;
    const i64 step = gridDim.x * static_cast<i64>(blockDim.x);
    for (i64 k = start[rows * n / pieces] + thread_number(); k < last; k += step) {
        high = max(high, columns[k]);
        low = max(low, MOST - columns[k]);
    }
    const Group<WARP> group;
    high = group.most(high);
    low = group.most(low);
    if (group.lane == 0) {
        atomicMax(ends + 2 * n, high);
        atomicMax(ends + 2 * n + 1, low);
    }
}

// Six numbers of each piece: its first entry and the one behind its last, the same of the rows of another matrix that its columns
// range over, and between these four such rows' numbers; of a piece without entries no rows.
ENTRY windows_of_pieces(
    const i64* __restrict__ start, i64 rows, const i64* __restrict__ others, const int* __restrict__ ends, int pieces,
    i64* __restrict__ out
) {
    const i64 n = threadIdx.x;
    if (n >= pieces) return;
    const i64 begin = start[rows * n / pieces], end = start[rows * (n + 1) / pieces];
    const i64 first = begin < end ? MOST - ends[2 * n + 1] : 0, last = begin < end ? ends[2 * n] + 1 : 0;
    const i64 found[] = {begin, end, first, last, others[first], others[last]};
    for (int i = 0; i < 6; ++i) out[6 * n + i] = found[i];
}

// 1 for rows that have entries.
ENTRY mark_nonempty(In<i64> start, int rows, Out<int> marks) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) marks[i] = start[i + 1] > start[i];
}

// These rows, and where they begin; before[i]: how many there are before row i.
ENTRY take_nonempty(In<i64> start, int rows, In<i64> before, Out<i64> out, Out<i64> out_start) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > rows) return;
    if (i == rows || start[i + 1] > start[i]) out_start[before[i]] = start[i];
    if (i < rows && start[i + 1] > start[i]) out[before[i]] = i;
}
