// Set-up of a chunk: storage order, slices, and where half sweeps are cut.

#include "slices.cuh"
#include "range.cuh"
#include "sell/assembly/assembly.cuh"

ENTRY measure_local(SOURCE, ROWS, SHAPES, int runs_wanted, Found* found, real* diagonal, In<i64> order) {
    measure(Square(), SOURCE_OF_ARGUMENTS, COLUMNS_OF_ARGUMENTS, wanted, slices, ends, runs, runs_wanted, diagonal, found, order);
}

ENTRY __launch_bounds__(WIDEST * SLICE, STAGING ? 5 : 9) fill_local(SOURCE, ROWS, PLACES, ROOM, In<i64> order) {
    if (FITS) fill(Square(), SOURCE_OF_ARGUMENTS, COLUMNS_OF_ARGUMENTS, wanted, slices, ends, runs, start, column_start, values, columns, order);
}

ENTRY __launch_bounds__(WIDEST * SLICE, STAGING ? 5 : 9) refill_local(
    SOURCE, ROWS, In<Header> headers, real* values, real* diagonal, Found* found
) {
    refill(SOURCE_OF_ARGUMENTS, COLUMNS_OF_ARGUMENTS, wanted, slices, headers, values, diagonal, found);
}

ENTRY measure_halo(SOURCE, ROWS, SHAPES, int runs_wanted, Found* found) {
    measure(Halo(), SOURCE_OF_ARGUMENTS, COLUMNS_OF_ARGUMENTS, wanted, slices, ends, runs, runs_wanted, nullptr, found);
}

ENTRY fill_halo(SOURCE, ROWS, PLACES, ROOM) {
    if (FITS) fill(Halo(), SOURCE_OF_ARGUMENTS, COLUMNS_OF_ARGUMENTS, wanted, slices, ends, runs, start, column_start, values, columns);
}

ENTRY measure_rectangle(SOURCE, ROWS, SHAPES, int runs_wanted, Found* found) {
    measure(Rectangle(), SOURCE_OF_ARGUMENTS, COLUMNS_OF_ARGUMENTS, wanted, slices, ends, runs, runs_wanted, nullptr, found);
}

ENTRY fill_rectangle(SOURCE, ROWS, PLACES, ROOM) {
    if (FITS) fill(Rectangle(), SOURCE_OF_ARGUMENTS, COLUMNS_OF_ARGUMENTS, wanted, slices, ends, runs, start, column_start, values, columns);
}

// Which storage positions, from the first after the guard on, hold a row that reads the halo: 4 bytes a candidate entry,
// mostly from L2.
ENTRY find_boundary(SOURCE, In<int> stored, int count, int rows, unsigned char* reads_halo) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count || stored[i] < 0) return;
    const i64 place = SOURCE_OF_ARGUMENTS.place(stored[i]);
    bool found = false;
    for (int k = 0; k < candidates; ++k) found |= __ldg(numbering + place + steps[k]) >= rows;
    reads_halo[SLICE + i] = found;
}

// The places of flags that are set, ascending, as many as there is room for. start: how many are set before each place.
ENTRY list_set(In<unsigned char> flags, In<i64> start, int count, int room, int* places) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && flags[i] && start[i] < room) places[start[i]] = i;
}

// Where a slice's upper part begins, how many column numbers and values it has, and the widest slice: 17 bytes a slice.
ENTRY shapes(In<int> ends, In<unsigned char> runs, int sections, int slices, int* upper, int2* sizes, Found* found) {
    const int s = blockIdx.x * blockDim.x + threadIdx.x, width = s < slices ? ends[(s + 1) * sections - 1] : 0;
    if (s < slices) {
        upper[s] = ends[s * sections];
        sizes[s] = make_int2(runs[s] ? width : width * SLICE, width * SLICE);
    }
    const int widest = __reduce_max_sync(ALL_LANES, width);
    if (lane_number() == 0 && found->widest < widest) atomicMax(&found->widest, widest);
}

// What the matrix passes know of a slice, in the order in which a pass visits the slices.
ENTRY pack_headers(In<i64> order, In<i64> start, In<i64> column_start, In<int> upper, int slices, Header* headers) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= slices) return;
    const int s = order == nullptr ? i : static_cast<int>(order[i]);
    const unsigned width = static_cast<unsigned>((start[s + 1] - start[s]) / SLICE);
    const unsigned run = column_start[s + 1] - column_start[s] == width;
    const unsigned shape = upper[s] | width << 15 | run << 30;   // as `Header` reads it
    headers[i] = {static_cast<unsigned>(start[s] / SLICE), static_cast<unsigned>(column_start[s]), s, shape};
}

// The rows that a pass over a rectangular matrix visits, -1 for padding, and where each one's result belongs: the rows in
// the order of their numbers, or of the vector that is written, whose guards are left out.
ENTRY rows_to_visit(In<int> row, In<int> position, int rows, int in_order, int count, Out<int> stored, Out<int> target) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int number = !in_order ? row[SLICE + i] : i < rows ? i : -1;
    stored[i] = number;
    target[i] = number < 0 ? -1 : position[number];
}

// position and row from the rows sorted by color; shift[c] leads from the place of a row of color c in the sorted list
// to its storage position. 20 bytes a row.
ENTRY storage_order(In<i64> sorted, In<int> color, In<i64> shift, Out<int> position, Out<int> row, int rows) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    const int number = static_cast<int>(sorted[i]);
    const int p = static_cast<int>(i + shift[color[number]]);
    position[number] = p;
    row[p] = number;
}

// color, position and row of a lattice whose points' colors follow from a class along each axis: 12 bytes a row written.
// Tables: the storage position of each color's first row; how many points of each color a plane of each class of z has;
// the same of a line of each class of y and z (class of z slower); the color of each class; and for each place along x, then
// y, then z its class and how many places of each class are before it. `row` was -1.
ENTRY lattice_order(
    In<int> tables, int nx, int ny, int nz, int kinds, int colors, Out<int> color, Out<int> position, Out<int> row
) {
    const i64 i = thread_number();
    if (i >= static_cast<i64>(nx) * ny * nz) return;
    const int line = static_cast<int>(i / nx), x = static_cast<int>(i % nx), y = line % ny, z = line / ny;
    const int* const first = tables;
    const int* const planes = first + colors;
    const int* const lines = planes + colors * kinds;
    const int* const of_class = lines + colors * kinds * kinds;
    const int* const at_x = of_class + kinds * kinds * kinds + x * (kinds + 1);
    const int* const at_y = at_x + (nx - x + y) * (kinds + 1);
    const int* const at_z = at_y + (ny - y + z) * (kinds + 1);
    const int in_y = __ldg(at_y), in_z = __ldg(at_z), here = kinds * (in_y + kinds * in_z);
    const int own = __ldg(of_class + here + __ldg(at_x));
    int p = __ldg(first + own);
    for (int k = 0; k < kinds; ++k) {
        p += __ldg(at_z + 1 + k) * __ldg(planes + own * kinds + k);
        p += __ldg(at_y + 1 + k) * __ldg(lines + (own * kinds + in_z) * kinds + k);
        if (__ldg(of_class + here + k) == own) p += __ldg(at_x + 1 + k);
    }
    color[i] = own;
    position[i] = p;
    row[p] = static_cast<int>(i);
}

// The same of one color: the order of the rows' numbers, between guards.
ENTRY plain_order(int rows, int size, Out<int> position, Out<int> row) {
    const int p = blockIdx.x * blockDim.x + threadIdx.x, i = p - SLICE;
    if (p >= size) return;
    row[p] = i >= 0 && i < rows ? i : -1;
    if (i >= 0 && i < rows) position[i] = p;
}

// The same of some rows in their order, where all positions were set to one behind them, and all rows to -1.
ENTRY some_order(In<int> kept, int count, Out<int> position, Out<int> row) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    row[SLICE + i] = kept[i];
    position[kept[i]] = SLICE + i;
}

// slab[s] = which of `slabs` equal parts of the lattice, counted from the end going back, holds the first row of slice s.
ENTRY lattice_slabs(In<int> row, Out<int> slab, int count, i64 rows, int slabs, int back) {
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= count) return;
    const int part = static_cast<int>(row[(s + 1) * SLICE] * static_cast<i64>(slabs) / rows);
    slab[s] = back ? slabs - 1 - part : part;
}

// The last slab that any of a slice's entries of the walk reads, or its own by place; begins[k] is the least item of the
// walk (slice first + step * item) that has come to slab k. Entries read colors before this one, whose slabs are settled.
// 8.1 bytes an entry once in set-up.
ENTRY reached_slabs(
    In<Header> headers, In<real> values, In<int> columns, In<int> slab, Out<int> begins, int slices, int back,
    int first, int step, int count
) {
    const int item = warp_number(), lane = lane_number();
    if (item >= count) return;
    const int s = first + step * item;
    const Slice slice = slice_of(load_header(headers + s), values, columns, lane);
    const int from = back ? slice.upper : 0, to = back ? slice.width : slice.upper;
    int reached = slab[s];
    for (int k = from; k < to; ++k) {
        const int position = slice.run ? slice.columns[k] + lane : slice.columns[k * SLICE + lane];
        const int other = position / SLICE - 1;
        const bool hole = slice.values[k * SLICE] == real(0);   // of a run: may point anywhere
        if (!hole && other >= 0 && other < slices) reached = max(reached, slab[other]);
    }
    reached = __reduce_max_sync(ALL_LANES, reached);
    // Items come about in their order, so that most find a smaller one there: without looking all of them would wait here.
    if (lane == 0 && begins[reached] > item) atomicMin(begins + reached, item);
}

// slab[s] = the last slab that an item of the walk up to this one has come to.
ENTRY settle_slabs(Out<int> slab, In<int> begins, int slabs, int first, int step, int count) {
    const int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= count) return;
    int k = slabs - 1;
    while (k > 0 && begins[k] > item) --k;
    slab[first + step * item] = k;
}
