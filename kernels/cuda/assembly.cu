// Set-up of a chunk: storage order and slices, from the rows of a stencil.
//
// Every candidate entry of a row is lower, upper or coarse (upper, at a coarse point), or belongs to the halo.
// `measure_*` finds each slice's shape, `fill_*` writes it: one warp a slice both times, one thread a row. Candidates
// come straight from `numbering` in both passes (4 bytes each, mostly from L2): no array of (offsets, rows) exists.

#include "slices.cuh"

constexpr int NONE = -1, LOWER = 0, UPPER = 1, COARSE = 2, KINDS = 3;
constexpr int RUN_BYTES = SLICE * 8 + 4, EXPLICIT_BYTES = SLICE * 12;   // of one entry column

#define STENCIL int nx, int ny, int offsets, const int* __restrict__ numbering, const long long* __restrict__ steps, \
    const double* __restrict__ weights, long long weight_stride, int weight_step

#define ROWS const int* __restrict__ wanted, int slices, int rows, const int* __restrict__ color, \
    const int* __restrict__ position, const unsigned char* __restrict__ coarse

// Weights of offset k start at k * weight_stride; weight_step is 1 for a value per row and 0 for one for all.
struct Stencil {
    int nx, ny, offsets;
    const int* numbering;
    const long long* steps;
    const double* weights;
    long long weight_stride;
    int weight_step;

    // Place of a row's own point in `numbering`.
    __device__ long long center(int row) const {
        const int line = row / nx;
        return row % nx + 1 + (nx + 2LL) * (line % ny + 1 + (ny + 2LL) * (line / ny + 1));
    }
    __device__ double weight(int k, int row) const {
        return weights[k * weight_stride + static_cast<long long>(weight_step) * row];
    }
};

struct Rows {
    int count;
    const int* color;
    const int* position;
    const unsigned char* coarse;   // may be null: no coarse points
};

// Whose entries are wanted: those of a square matrix in its own columns, those in columns of the halo, or those of a
// rectangular matrix in own columns, which have no order.
enum class Part { SQUARE, HALO, RECTANGLE };

// Which part of the slice an entry belongs to; what is not wanted belongs to none.
template <Part PART>
__device__ __forceinline__ int kind_of(const Rows& rows, int row, int own_color, int column) {
    if (column < 0) return NONE;
    if (column >= rows.count) return PART == Part::HALO ? LOWER : NONE;
    if (PART == Part::RECTANGLE) return LOWER;
    if (PART == Part::HALO || column == row) return NONE;
    if (__ldg(rows.color + column) < own_color) return LOWER;
    return rows.coarse != nullptr && rows.coarse[column] ? COARSE : UPPER;
}

// Where an entry's column lies in the vector that it multiplies.
__device__ __forceinline__ int target_of(const Rows& rows, int column) {
    return column < rows.count ? __ldg(rows.position + column) : column - rows.count + SLICE;
}

// Some candidates of a row (-1 for none) from one on: all their loads are on their way before the first is waited for, since one
// needs the other, number by number.
constexpr int TOGETHER = 4;
template <Part PART>
struct Candidates {
    int column[TOGETHER], kind[TOGETHER], target[TOGETHER];

    __device__ __forceinline__ Candidates(
        const Stencil& stencil, const Rows& rows, int row, long long center, int own_color, int first
    ) {
#pragma unroll
        for (int a = 0; a < TOGETHER; ++a)
            column[a] = row < 0 || first + a >= stencil.offsets ? -1 : __ldg(stencil.numbering + center + stencil.steps[first + a]);
#pragma unroll
        for (int a = 0; a < TOGETHER; ++a) kind[a] = kind_of<PART>(rows, row, own_color, column[a]);
#pragma unroll
        for (int a = 0; a < TOGETHER; ++a) target[a] = kind[a] == NONE ? 0 : target_of(rows, column[a]);
    }
};

// A diagonal of type `real`, NaN where it leaves that type's range: it is divided by, and the result must tell.
__device__ __forceinline__ real in_range(double value) {
    constexpr double LEAST = 1.1754943508222875e-38, MOST = 3.4028234663852886e38;   // of float
    const bool inside = sizeof(real) == sizeof(double) || (fabs(value) >= LEAST && fabs(value) <= MOST);
    return inside ? value : nan("");
}

// What is found of all slices together.
struct Found {
    long long columns, values;   // how many there are; of values, `SLICE`s
    int from_end, pad;           // how far from a vector's end the first position with a zero diagonal is; 0 for none
};

// widths (slices, 3) and runs (slices): the shape of each slice. Without runs_wanted, no slice is a run.
// For own columns also: the diagonal, and whether one is zero, in `found`, which was zero.
template <Part PART>
__device__ __forceinline__ void measure(
    const Stencil& stencil, const Rows& rows, const int* wanted, int slices, int* widths, unsigned char* runs,
    int runs_wanted, real* diagonal, Found* found
) {
    const int s = warp_number(), lane = lane_number();
    if (s >= slices) return;
    const int row = wanted[s * SLICE + lane];
    const long long center = row < 0 ? 0 : stencil.center(row);
    const int own_color = PART != Part::SQUARE || row < 0 ? 0 : __ldg(rows.color + row);
    int count[KINDS] = {0, 0, 0}, run_width[KINDS] = {0, 0, 0};
    bool run = true;
    double own = 0.0;
    for (int first = 0; first < stencil.offsets; first += TOGETHER) {
        const Candidates<PART> found(stencil, rows, row, center, own_color, first);
#pragma unroll
        for (int a = 0; a < TOGETHER; ++a) {
            const int kind = found.kind[a], here = found.target[a] - lane;
            if (PART == Part::SQUARE && row >= 0 && found.column[a] == row) own = stencil.weight(first + a, row);
#pragma unroll
            for (int part = 0; part < KINDS; ++part) {
                const unsigned members = __ballot_sync(ALL_LANES, kind == part);
                if (members == 0) continue;
                const int base = __shfl_sync(ALL_LANES, here, __ffs(members) - 1);
                run &= __all_sync(ALL_LANES, kind != part || here == base) != 0;
                run_width[part] += 1;
                count[part] += kind == part;
            }
        }
    }
    int explicit_width = 0;
#pragma unroll
    for (int part = 0; part < KINDS; ++part) {
        count[part] = __reduce_max_sync(ALL_LANES, count[part]);
        explicit_width += count[part];
    }
    run &= runs_wanted != 0;
    run &= (run_width[0] + run_width[1] + run_width[2]) * RUN_BYTES <= explicit_width * EXPLICIT_BYTES;
    if (lane == 0) {
        runs[s] = run;
#pragma unroll
        for (int part = 0; part < KINDS; ++part) widths[s * KINDS + part] = run ? run_width[part] : count[part];
    }
    if (PART == Part::SQUARE && row >= 0) {
        const int p = (s + 1) * SLICE + lane;
        diagonal[p] = in_range(own);
        if (own == 0.0) atomicMax(&found->from_end, (slices + 2) * SLICE - p);
    }
}

// Writes the entries of each slice, holes included (value 0; column 0 in explicit slices): memory need not be zero.
template <Part PART>
__device__ __forceinline__ void fill(
    const Stencil& stencil, const Rows& rows, const int* wanted, int slices, const int* widths,
    const unsigned char* runs, const long long* start, const long long* column_start, real* values, int* columns
) {
    const int s = warp_number(), lane = lane_number();
    if (s >= slices) return;
    const int row = wanted[s * SLICE + lane];
    const long long center = row < 0 ? 0 : stencil.center(row);
    const int own_color = PART != Part::SQUARE || row < 0 ? 0 : __ldg(rows.color + row);
    const bool run = runs[s];
    real* const out = values + start[s] + lane;
    int* const out_columns = columns + column_start[s];
    int next[KINDS], end[KINDS], total = 0;
#pragma unroll
    for (int part = 0; part < KINDS; ++part) {
        next[part] = total;
        total += widths[s * KINDS + part];
        end[part] = total;
    }
    for (int first = 0; first < stencil.offsets; first += TOGETHER) {
        const Candidates<PART> found(stencil, rows, row, center, own_color, first);
        real ahead[TOGETHER];
#pragma unroll
        for (int a = 0; a < TOGETHER; ++a) ahead[a] = found.kind[a] == NONE ? 0.0 : stencil.weight(first + a, row);   // narrowed here, if at all
#pragma unroll
        for (int a = 0; a < TOGETHER; ++a) {
            const int kind = found.kind[a], target = found.target[a];
#pragma unroll
            for (int part = 0; part < KINDS; ++part) {
                const unsigned members = __ballot_sync(ALL_LANES, kind == part);
                if (members == 0) continue;
                const int base = __shfl_sync(ALL_LANES, target - lane, __ffs(members) - 1);
                if (run) {   // all lanes share the entry column; those without an entry have a hole there
                    out[next[part] * SLICE] = kind == part ? ahead[a] : real(0);
                    if (lane == 0) out_columns[next[part]] = base;
                    next[part] += 1;
                } else if (kind == part) {
                    out[next[part] * SLICE] = ahead[a];
                    out_columns[next[part] * SLICE + lane] = target;
                    next[part] += 1;
                }
            }
        }
    }
    if (run) return;
#pragma unroll
    for (int part = 0; part < KINDS; ++part) {
        for (; next[part] < end[part]; ++next[part]) {
            out[next[part] * SLICE] = 0;
            out_columns[next[part] * SLICE + lane] = 0;
        }
    }
}

#define STENCIL_OF_ARGUMENTS {nx, ny, offsets, numbering, steps, weights, weight_stride, weight_step}
#define ROWS_OF_ARGUMENTS {rows, color, position, coarse}

extern "C" __global__ void measure_local(
    STENCIL, ROWS, int* widths, unsigned char* runs, int runs_wanted, Found* found, real* diagonal
) {
    measure<Part::SQUARE>(
        STENCIL_OF_ARGUMENTS, ROWS_OF_ARGUMENTS, wanted, slices, widths, runs, runs_wanted, diagonal, found);
}

extern "C" __global__ void measure_halo(
    STENCIL, ROWS, int* widths, unsigned char* runs, int runs_wanted, Found* found
) {
    measure<Part::HALO>(STENCIL_OF_ARGUMENTS, ROWS_OF_ARGUMENTS, wanted, slices, widths, runs, runs_wanted, nullptr, found);
}

extern "C" __global__ void measure_rectangle(
    STENCIL, ROWS, int* widths, unsigned char* runs, int runs_wanted, Found* found
) {
    measure<Part::RECTANGLE>(
        STENCIL_OF_ARGUMENTS, ROWS_OF_ARGUMENTS, wanted, slices, widths, runs, runs_wanted, nullptr, found);
}

// Which storage positions, from the first after the guard on, hold a row that reads the halo: 4 bytes a candidate entry,
// mostly from L2.
extern "C" __global__ void find_boundary(
    STENCIL, const int* __restrict__ stored, int count, int rows, unsigned char* reads_halo
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count || stored[i] < 0) return;
    const Stencil stencil = STENCIL_OF_ARGUMENTS;
    const long long center = stencil.center(stored[i]);
    bool found = false;
    for (int k = 0; k < offsets; ++k) found |= __ldg(numbering + center + steps[k]) >= rows;
    reads_halo[SLICE + i] = found;
}

extern "C" __global__ void fill_local(
    STENCIL, ROWS, const int* widths, const unsigned char* runs, const long long* start, const long long* column_start,
    real* values, int* columns
) {
    fill<Part::SQUARE>(
        STENCIL_OF_ARGUMENTS, ROWS_OF_ARGUMENTS, wanted, slices, widths, runs, start, column_start, values, columns);
}

extern "C" __global__ void fill_halo(
    STENCIL, ROWS, const int* widths, const unsigned char* runs, const long long* start, const long long* column_start,
    real* values, int* columns
) {
    fill<Part::HALO>(
        STENCIL_OF_ARGUMENTS, ROWS_OF_ARGUMENTS, wanted, slices, widths, runs, start, column_start, values, columns);
}

extern "C" __global__ void fill_rectangle(
    STENCIL, ROWS, const int* widths, const unsigned char* runs, const long long* start, const long long* column_start,
    real* values, int* columns
) {
    fill<Part::RECTANGLE>(
        STENCIL_OF_ARGUMENTS, ROWS_OF_ARGUMENTS, wanted, slices, widths, runs, start, column_start, values, columns);
}

// How many entry columns and column numbers slices have.
struct Counts {
    long long width, columns;
};

constexpr int SCANNED = 1024;   // threads of a block at most

// The counts of all items of a block up to each one, itself included.
__device__ __forceinline__ Counts counted_to(Counts own) {
    __shared__ Counts sums[SCANNED];
    const int me = threadIdx.x, count = blockDim.x;
    sums[me] = own;
    __syncthreads();
    for (int distance = 1; distance < count; distance *= 2) {
        const Counts before = me < distance ? Counts{0, 0} : sums[me - distance];
        __syncthreads();
        sums[me].width += before.width;
        sums[me].columns += before.columns;
        __syncthreads();
    }
    const Counts found = sums[me];
    __syncthreads();
    return found;
}

__device__ __forceinline__ Counts counts_of(const int* widths, const unsigned char* runs, int s) {
    const int width = widths[s * KINDS + LOWER] + widths[s * KINDS + UPPER] + widths[s * KINDS + COARSE];
    return {width, runs[s] ? width : width * SLICE};
}

// Where a slice's parts begin, and the counts of each block of slices: 24 bytes a slice.
extern "C" __global__ void shapes(
    const int* __restrict__ widths, const unsigned char* __restrict__ runs, int slices, int* upper, int* coarse,
    Counts* blocks
) {
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    Counts own = {0, 0};
    if (s < slices) {
        upper[s] = widths[s * KINDS + LOWER];
        coarse[s] = upper[s] + widths[s * KINDS + UPPER];
        own = counts_of(widths, runs, s);
    }
    own = counted_to(own);
    if (threadIdx.x == blockDim.x - 1) blocks[blockIdx.x] = own;
}

// Where the values and columns of each slice begin: 29 bytes a slice, and every block adds up those before it, which are
// a thousandth of the slices.
extern "C" __global__ void begins(
    const int* __restrict__ widths, const unsigned char* __restrict__ runs, const Counts* __restrict__ blocks,
    int slices, long long* __restrict__ start, long long* __restrict__ column_start, Found* found
) {
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ Counts before;
    Counts part = {0, 0};
    for (unsigned b = threadIdx.x; b < blockIdx.x; b += blockDim.x) {
        part.width += blocks[b].width;
        part.columns += blocks[b].columns;
    }
    part = counted_to(part);
    if (threadIdx.x == blockDim.x - 1) before = part;
    __syncthreads();
    const Counts own = s < slices ? counts_of(widths, runs, s) : Counts{0, 0};
    const Counts to = counted_to(own);
    if (s >= slices) return;
    const long long width = before.width + to.width, columns = before.columns + to.columns;
    start[s] = (width - own.width) * SLICE;
    column_start[s] = columns - own.columns;
    if (s == slices - 1) {
        start[slices] = width * SLICE;
        column_start[slices] = columns;
        found->values = width;
        found->columns = columns;
    }
}

// What the matrix passes know of a slice, in the order in which a pass visits the slices.
extern "C" __global__ void pack_entries(
    const long long* __restrict__ order, const long long* __restrict__ start, const long long* __restrict__ column_start,
    const int* __restrict__ upper, const int* __restrict__ coarse, int slices, Entries* entries
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= slices) return;
    const int s = order == nullptr ? i : static_cast<int>(order[i]);
    const unsigned width = static_cast<unsigned>((start[s + 1] - start[s]) / SLICE);
    const unsigned run = column_start[s + 1] - column_start[s] == width;
    const unsigned shape = upper[s] | coarse[s] << 10 | width << 20 | run << 30;
    entries[i] = {static_cast<unsigned>(start[s] / SLICE), static_cast<unsigned>(column_start[s]), s, shape};
}

// The rows that a pass over a rectangular matrix visits, -1 for padding, and where each one's result belongs: the rows in
// the order of their numbers, or of the vector that is written, whose guards are left out.
extern "C" __global__ void rows_to_visit(
    const int* __restrict__ row, const int* __restrict__ position, int rows, int in_order, int count,
    int* __restrict__ stored, int* __restrict__ target
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int number = !in_order ? row[SLICE + i] : i < rows ? i : -1;
    stored[i] = number;
    target[i] = number < 0 ? -1 : position[number];
}

// Each thread takes the n-th slice of every color. most (colors + 1, 2), which was zero: the most entry columns that a slice
// of a color has before its upper part begins, and from there on; and the most that one thread finds in one of these halves
// and in both. begins (colors + 1): storage slices, the guard being slice 0. 20 bytes a slice.
extern "C" __global__ void slice_widths(
    const long long* __restrict__ begins, const long long* __restrict__ start, const int* __restrict__ upper, int colors,
    int* __restrict__ most
) {
    const long long n = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    int lower = 0, rest = 0;
    for (int c = 0; c <= colors; ++c) {
        int found[2] = {max(lower, rest), lower + rest};   // behind the last color
        if (c < colors) {
            const long long s = begins[c] - 1 + n;
            const bool there = s < begins[c + 1] - 1;
            found[0] = there ? upper[s] : 0;
            found[1] = there ? static_cast<int>((start[s + 1] - start[s]) / SLICE) - found[0] : 0;
            lower += found[0];
            rest += found[1];
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int largest = __reduce_max_sync(ALL_LANES, found[half]);
            // Most find as much there already: without looking all of them would wait here.
            if (lane_number() == 0 && most[2 * c + half] < largest) atomicMax(most + 2 * c + half, largest);
        }
    }
}

// position and row from the rows sorted by color; shift[c] leads from the place of a row of color c in the sorted list
// to its storage position. 20 bytes a row.
extern "C" __global__ void storage_order(
    const long long* __restrict__ sorted, const int* __restrict__ color, const long long* __restrict__ shift,
    int* __restrict__ position, int* __restrict__ row, int rows
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    const int number = static_cast<int>(sorted[i]);
    const int p = static_cast<int>(i + shift[color[number]]);
    position[number] = p;
    row[p] = number;
}

// color, position and row of a lattice whose points' colors follow from a class along each axis: 12 bytes a row written.
// Tables: the storage position of each color's first row; how many points of each color a plane of each class of z has;
// likewise a line of each class of y and z (class of z slower); the color of each class; and for each place along x, then
// y, then z its class and how many places of each class are before it. `row` was -1.
extern "C" __global__ void lattice_order(
    const int* __restrict__ tables, int nx, int ny, int nz, int kinds, int colors, int* __restrict__ color,
    int* __restrict__ position, int* __restrict__ row
) {
    const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    if (i >= static_cast<long long>(nx) * ny * nz) return;
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
extern "C" __global__ void plain_order(int rows, int size, int* __restrict__ position, int* __restrict__ row) {
    const int p = blockIdx.x * blockDim.x + threadIdx.x, i = p - SLICE;
    if (p >= size) return;
    row[p] = i >= 0 && i < rows ? i : -1;
    if (i >= 0 && i < rows) position[i] = p;
}

// slab[s] = which of `slabs` equal parts of the lattice, counted from the end going back, holds the first row of slice s.
extern "C" __global__ void lattice_slabs(
    const int* __restrict__ row, int* __restrict__ slab, int count, long long rows, int slabs, int back
) {
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= count) return;
    const int part = static_cast<int>(row[(s + 1) * SLICE] * static_cast<long long>(slabs) / rows);
    slab[s] = back ? slabs - 1 - part : part;
}

// The last slab that any of a slice's entries of the walk reads, or its own by place; begins[k] is the least item of the
// walk (slice first + step * item) that has come to slab k. Entries read colors before this one, whose slabs are settled.
// 8.1 bytes an entry once in set-up.
extern "C" __global__ void reached_slabs(
    const Entries* __restrict__ entries, const real* __restrict__ values, const int* __restrict__ columns,
    const int* __restrict__ slab, int* __restrict__ begins, int slices, int back, int first, int step, int count
) {
    const int item = warp_number(), lane = lane_number();
    if (item >= count) return;
    const int s = first + step * item;
    const Slice slice = slice_of(load_entries(entries + s), values, columns, lane);
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
extern "C" __global__ void settle_slabs(
    int* __restrict__ slab, const int* __restrict__ begins, int slabs, int first, int step, int count
) {
    const int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= count) return;
    int k = slabs - 1;
    while (k > 0 && begins[k] > item) --k;
    slab[first + step * item] = k;
}

// Where each slice of a half sweep belongs in the order of its mixed launches (mixed.py), as the key of a sort. Launch
// chains * i + k has slab k of color i, and of its colors TURN slices each in turn, so that all of them come to the end of
// their slab together. colors (count, 2): where the walk begins, and its first item; cuts (count, slabs + 1). 8 bytes a slice.
constexpr int TURN = 32, PLACES = 1 << 20;   // keys have 11 bits for the launch

extern "C" __global__ void mixed_order(
    const int* __restrict__ colors, const int* __restrict__ cuts, int count, int slabs, int chains, int step, int items,
    int* __restrict__ key, int* __restrict__ slice
) {
    const int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= items) return;
    int i = count - 1;
    while (colors[2 * i + 1] > item) --i;
    const int at = item - colors[2 * i + 1];
    const int* const cut = cuts + i * (slabs + 1);
    int low = 0, high = slabs;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (cut[middle] <= at ? low : high) = middle;
    }
    const long long behind = (at - cut[low]) / TURN * TURN;
    key[item] = (chains * i + low) * PLACES + static_cast<int>(behind * PLACES / (cut[low + 1] - cut[low]));
    slice[item] = colors[2 * i] + step * at;
}
