// Table of kernels: transposes, rows in other orders, and mirror images of entries above the diagonal, with the bits of the host's:
// kernels/cpu/amg/products.py.
#include "device.cuh"
#include "sparse/table.cuh"
#include "sparse/stages/stage.cuh"
#include "sparse/stages/rooms.cuh"

constexpr int MOST_THREADS = 256;   // of a block

// The rank of each entry among those of its column that came before: by chance, so rows are sorted later. 8 bytes an
// entry, and an atomic addition in L2.
ENTRY rank_entries(In<int> columns, i64 entries, Out<int> counts, Out<int> ranks) {
    const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
    for (i64 k = thread_number(); k < entries; k += step)
        ranks[k] = atomicAdd(counts + columns[k], 1);
}

// Calls visit(row, entry) for all entries, with `width` threads a row, and with a block's all of them where a row is long.
template <typename Visit>
DEVICE void for_entries(In<i64> start, int rows, int width, Visit visit) {
    __shared__ int long_rows[MOST_THREADS], found;
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    const int i = static_cast<int>((thread_number()) / width);
    const int lane = threadIdx.x % width;
    if (i < rows) {
        const i64 begin = start[i], end = start[i + 1];
        if (end - begin > 64 * width) {
            if (lane == 0) long_rows[atomicAdd(&found, 1)] = i;
        } else {
            for (i64 k = begin + lane; k < end; k += width) visit(i, k);
        }
    }
    __syncthreads();
    for (int n = 0; n < found; ++n) {
        const int row = long_rows[n];
        for (i64 k = start[row] + threadIdx.x; k < start[row + 1]; k += blockDim.x) visit(row, k);
    }
}

// Calls put(place, row, entry) for all entries of A, with the place of each in the transpose.
template <typename Put>
DEVICE void for_places(int rows, int width, In<i64> a_start, In<int> a_columns, In<int> ranks, In<i64> start, Put put) {
    for_entries(a_start, rows, width, [&](int i, i64 k) { put(start[a_columns[k]] + ranks[k], i, k); });
}

#define PLACES int rows, int width, In<i64> a_start, In<int> a_columns, In<int> ranks, In<i64> start
#define THESE_PLACES rows, width, a_start, a_columns, ranks, start

// Entries to their rows of the transpose, 12 and 24 bytes an entry beside begins of rows. Those of a row of the transpose come from rows close to each
// other, so they meet in L2, as long as that holds all rows that are written at a time: together, both kernels' entries took
// 1.3 times as long, on lattices with 65,000 points in a plane as with 262,000.
ENTRY scatter_columns(PLACES, Out<int> columns) {
    for_places(THESE_PLACES, [&](i64 to, int i, i64) { columns[to] = i; });
}
ENTRY scatter_values(PLACES, In<double> a_values, Out<double> values) {
    for_places(THESE_PLACES, [&](i64 to, int, i64 k) { values[to] = a_values[k]; });
}

// The lengths of rows in another order, where -1 is a row without entries.
ENTRY lengths_in_order(int rows, In<int> order, In<i64> start, Out<i64> lengths) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) lengths[i] = order[i] < 0 ? 0 : start[order[i] + 1] - start[order[i]];
}

// Rows in that order, to their places. 24 bytes an entry.
ENTRY reorder(
    int rows, int width, In<i64> a_start, In<int> a_columns, In<double> a_values, In<int> order,
    In<i64> start, Out<int> columns, Out<double> values
) {
    for_entries(start, rows, width, [&](int i, i64 k) {
        const i64 from = a_start[order[i]] + k - start[i];
        columns[k] = a_columns[from];
        values[k] = a_values[from];
    });
}

// Rows as they come: in rooms, or compressed where those have no size.
struct Found {
    Rooms rooms;
    In<i64> start;
    const int* columns;
    const double* values;
    i64 from;

    // Go to row i, which is to begin there; its length, or 0 where it found no room.
    DEVICE i64 find(int i, i64 begin) {
        const i64 size = start[i + 1] - begin;
        if (rooms.room && size > max(rooms.room, rooms.larger)) return 0;
        from = rooms.room ? rooms.begin(i, size, columns) : begin;
        return size;
    }
    DEVICE int column(int n) const { return columns[from + n]; }
    DEVICE double value(int n) const { return values[from + n]; }
};

// An entry that was made in the row of its mirror image.
struct alignas(16) Image {
    double value;
    int column;
};

// Rows of which entries from the diagonal on are in rooms, and those below it are images: first[i] and on of row i.
struct Halves {
    Rooms rooms;
    In<i64> lengths;
    In<int> columns;
    In<double> values;
    In<i64> first;
    In<Image> images;
    const Image* own;   // of the row
    i64 from;
    int below;

    DEVICE i64 find(int i, i64) {
        i64 length;
        RightRows{lengths, columns, rooms}.find(i, from, length);
        own = images + first[i];
        below = static_cast<int>(first[i + 1] - first[i]);
        from -= below;
        return below + length;
    }
    DEVICE int column(int n) const { return n < below ? own[n].column : columns[from + n]; }
    DEVICE double value(int n) const { return n < below ? own[n].value : values[from + n]; }
};

// Rows to their places, with columns ascending: compressed rows may have them in other orders before. A row is held in shared
// memory, of up to `most` entries (a multiple of four), 12 bytes each; an entry finds its place by counting the smaller
// columns. 24 bytes an entry.
template <int G, typename Source>
DEVICE void sort_rows(const Stage& stage, int most, Source source, In<i64> start, int* columns, double* values) {
    extern __shared__ __align__(16) char memory[];
    const Group<G> group;
    double* held = reinterpret_cast<double*>(memory) + threadIdx.x / G * most;
    int* keys = reinterpret_cast<int*>(memory + 8 * (blockDim.x / G) * most) + threadIdx.x / G * most;
    const int4* quads = reinterpret_cast<const int4*>(keys);
    Turns<G> turns(stage);
    while (turns.next()) {
        const int i = turns.row();
        i64 begin = 0, size = 0;
        if (i >= 0) {
            begin = start[i];
            size = source.find(i, begin);
            if (size > most) {
                if (group.lane == 0) stage.pass_on(i);
                size = 0;
            }
        }
        const int full = (static_cast<int>(size) + 3) / 4;
        for (int n = group.lane; n < 4 * full; n += G) {
            keys[n] = n < size ? source.column(n) : 0x7fffffff;   // no smaller one
            if (n < size) held[n] = source.value(n);
        }
        group.sync();
        for (int n = group.lane; n < size; n += G) {
            const int mine = keys[n];
            int to = 0;
            for (int quad = 0; quad < full; ++quad) {
                const int4 four = quads[quad];
                to += (four.x < mine) + (four.y < mine) + (four.z < mine) + (four.w < mine);
            }
            columns[begin + to] = mine;
            values[begin + to] = held[n];
        }
        group.sync();   // before the next rows come here
    }
}

#define KERNELS(G)                                                                                                       \
    ENTRY sort_##G(                                                                                                      \
        STAGE, int most, ROOMS, In<i64> start, const int* from_columns, const double* from_values, int* columns,         \
        double* values                                                                                                   \
    ) {                                                                                                                  \
        const Found found{THESE_ROOMS, start, from_columns, from_values, 0};                                             \
        sort_rows<G>(THIS_STAGE, most, found, start, columns, values);                                                   \
    }                                                                                                                    \
    ENTRY sort_halves_##G(                                                                                               \
        STAGE, int most, ROOMS, In<i64> lengths, In<int> from_columns, In<double> from_values,                           \
        In<i64> first, In<Image> images, In<i64> start, int* columns, double* values                                     \
    ) {                                                                                                                  \
        const Halves halves{THESE_ROOMS, lengths, from_columns, from_values, first, images, nullptr, 0, 0};              \
        sort_rows<G>(THIS_STAGE, most, halves, start, columns, values);                                                  \
    }
KERNELS(4)
KERNELS(8)
KERNELS(16)
KERNELS(32)

// Some of those rows with their columns as they come, a block each.
ENTRY gather_halves(
    In<int> which, ROOMS, In<i64> lengths, In<int> from_columns, In<double> from_values, In<i64> first,
    In<Image> images, In<i64> start, int* columns, double* values
) {
    Halves halves{THESE_ROOMS, lengths, from_columns, from_values, first, images, nullptr, 0, 0};
    const int i = which[blockIdx.x];
    const i64 size = halves.find(i, 0), to = start[i];
    for (int n = threadIdx.x; n < size; n += blockDim.x) {
        columns[to + n] = halves.column(n);
        values[to + n] = halves.value(n);
    }
}

// Entries below the diagonal of a matrix with ascending columns to their mirror images, where these are there. Row i is column
// below + i; other columns are left alone. To `wrong` come as many as have no mirror image: above the diagonal those that
// find none, below it those that were not found. The arrays of values may be the same; if they are not, those without a
// mirror image are not written below the diagonal.
ENTRY mirror(
    int rows, int width, In<i64> start, In<int> columns, const double* from, double* values, int below, u64* wrong
) {
    int missed = 0;
    for_entries(start, rows, width, [&](int i, i64 k) {
        const int j = columns[k] - below;
        if (j < 0 || j >= rows || j == i) {
            values[k] = from[k];
            return;
        }
        ++missed;
        if (j < i) return;
        const double value = from[k];
        const i64 first = start[j];
        const int* const row = columns + first;
        const int size = static_cast<int>(start[j + 1] - first), wanted = below + i;
        const int low = search(0, size, [&](int middle) { return row[middle] < wanted; });
        const bool there = low < size && row[low] == wanted;
        values[k] = value;
        if (!there) return;
        values[first + low] = value;
        missed -= 2;
    });
    missed = __reduce_add_sync(ALL_LANES, missed);
    __shared__ int all;
    if (threadIdx.x == 0) all = 0;
    __syncthreads();
    if (threadIdx.x % WARP == 0 && missed) atomicAdd(&all, missed);
    __syncthreads();
    if (threadIdx.x == 0 && all) atomicAdd(wrong, static_cast<u64>(static_cast<i64>(all)));
}

// Entries above the diagonal, in rooms or compressed: how many each column has, and the rank of each among those, by chance. Row
// i has its diagonal in column first + i. 8 bytes an entry, and an atomic addition in L2.
ENTRY rank_mirrored(
    int rows, int width, int first, In<i64> lengths, In<int> columns, ROOMS, Out<int> counts, Out<int> ranks
) {
    const i64 thread = thread_number(), i = thread / width;
    if (i >= rows) return;
    i64 from, length;
    RightRows{lengths, columns, THESE_ROOMS}.find(static_cast<int>(i), from, length);
    for (i64 k = from + thread % width; k < from + length; k += width)
        if (columns[k] > first + i) ranks[k] = atomicAdd(counts + columns[k], 1);
}

// Images of entries above the diagonal in columns low .. high, column after column: those of column j begin at begin[j - low]. 16
// bytes read an entry, and 16 written at once: those of a column come from rows close to each other, so they meet in L2.
ENTRY scatter_images(
    int rows, int width, int first, In<i64> lengths, In<int> columns, In<double> values, ROOMS, In<int> ranks,
    int low, int high, In<i64> begin, Out<Image> images
) {
    const i64 thread = thread_number(), i = thread / width;
    if (i >= rows) return;
    const int row = first + static_cast<int>(i);
    i64 from, length;
    RightRows{lengths, columns, THESE_ROOMS}.find(static_cast<int>(i), from, length);
    for (i64 k = from + thread % width; k < from + length; k += width) {
        const int column = columns[k];
        if (column > row && column >= low && column < high) images[begin[column - low] + ranks[k]] = {values[k], row};
    }
}

// Images that other chunks have sent, among those of own entries: of row i behind begin[i], by rank. Columns move by `shift`.
ENTRY place_images(
    i64 count, In<int> of_rows, In<int> columns, In<double> values, In<int> ranks, int shift, In<i64> begin,
    Out<Image> images
) {
    const i64 k = thread_number();
    if (k < count) images[begin[of_rows[k]] + ranks[k]] = {values[k], columns[k] + shift};
}

// Images in two arrays, rows less `first`.
ENTRY split_images(i64 count, In<Image> images, int first, Out<int> rows, Out<double> values) {
    const i64 k = thread_number();
    if (k >= count) return;
    const Image image = images[k];
    rows[k] = image.column - first;
    values[k] = image.value;
}

// Other numbers for columns, in place: all move by `shift`, and of those from `end` on only some are left, of which before[n]
// come before the n-th; all are where it is null.
ENTRY rename_columns(i64 count, int end, int shift, In<i64> before, Out<int> columns) {
    const i64 k = thread_number();
    if (k >= count) return;
    const int column = columns[k];
    columns[k] = shift + (before && column >= end ? end + static_cast<int>(before[column - end]) : column);
}

// Rows of R A P, compressed or in rooms, of which only rounding is left: what r' D r is on the diagonal, or one, and zeros. A
// warp's group of eight lanes a row: they make products of r and the diagonal together, and add them up one after the other.
ENTRY fill_lost(
    In<i64> start, In<int> columns, Out<double> values, ROOMS, int rows, int below, In<i64> r_start,
    In<int> r_columns, In<double> r_values, In<double> diagonal, double negligible
) {
    constexpr int G = 8;
    const Group<G> group;
    const int i = static_cast<int>((thread_number()) / G);
    i64 first = 0, last = 0, begin = 0, end = 0;
    if (i < rows) {
        first = r_start[i];
        last = r_start[i + 1];
        const RightRows of{start, columns, THESE_ROOMS};
        i64 length;
        of.find(i, begin, length);
        end = begin + length;
    }
    double size = 0.0;
    for (; group.any(first < last); first += G) {
        const i64 k = first + group.lane;
        double part = 0.0;   // zeros change no sum that begins with +0
        if (k < last) part = __dmul_rn(__dmul_rn(r_values[k], r_values[k]), diagonal[r_columns[k]]);
        UNROLLED for (int lane = 0; lane < G; ++lane) size = __dadd_rn(size, group.from(part, lane));
    }
    i64 found = -1;   // the diagonal's entry, in the lane that has seen it
    for (i64 k = begin + group.lane; k < end; k += G)
        if (columns[k] == below + i) found = k;
    const bool lost = found >= 0 && values[found] <= __dmul_rn(negligible, size);
    if (!group.ballot(lost)) return;
    for (i64 k = begin + group.lane; k < end; k += G)
        if (columns[k] != below + i) values[k] = 0.0;
    if (lost) values[found] = size > 0.0 ? size : 1.0;
}
