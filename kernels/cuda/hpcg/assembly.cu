// Set-up of HPCG's matrices: slices whose upper entries end with those at coarse points, and the order of mixed launches.

#include "slices.cuh"
#include "range.cuh"
#include "sell/assembly/assembly.cuh"
#include "hpcg/header.cuh"

// The entries of a square matrix with a third section: upper entries at coarse points. `coarse` may be null: there are none.
struct Smoothed {
    static constexpr int SECTIONS = 3, COARSE = 2;
    static constexpr bool HAS_DIAGONAL = true;
    const unsigned char* coarse;

    __device__ __forceinline__ int section(const Columns& columns, int row, int own_color, int column) const {
        const int found = Square().section(columns, row, own_color, column);
        return found == UPPER && coarse != nullptr && coarse[column] ? COARSE : found;
    }
};

extern "C" __global__ void measure_smoothed(
    SOURCE, ROWS, const unsigned char* __restrict__ coarse, SHAPES, int runs_wanted, Found* found, real* diagonal
) {
    measure(
        Smoothed{coarse}, SOURCE_OF_ARGUMENTS, COLUMNS_OF_ARGUMENTS, wanted, slices, ends, runs, runs_wanted, diagonal, found);
}

extern "C" __global__ void fill_smoothed(SOURCE, ROWS, const unsigned char* __restrict__ coarse, PLACES, ROOM) {
    if (FITS) fill(
        Smoothed{coarse}, SOURCE_OF_ARGUMENTS, COLUMNS_OF_ARGUMENTS, wanted, slices, ends, runs, start, column_start, values,
        columns);
}

// What the post-smoother knows of a slice: `Header`s with where the entries at coarse points begin.
extern "C" __global__ void pack_smoothed(
    const Header* __restrict__ headers, const int* __restrict__ coarse, int slices, SmoothedHeader* smoothed
) {
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= slices) return;
    const Header found = load_header(headers + s);
    const unsigned shape = found.upper() | coarse[s] << 10 | found.width() << 20 | found.run() << 30;
    smoothed[s] = {found.start, found.columns, found.slice, shape};
}

// Where each slice of a half sweep belongs in the order of its mixed launches (mixed_colors.py): the key of a sort. Launch
// chains * i + k has slab k of color i, and of its colors TURN slices each in turn, so that all of them come to the end of
// their slab together. colors (count, 2): where the walk begins, and its first item; cuts (count, slabs + 1). 8 bytes a slice.
constexpr int TURN = 32, RANKS = 1 << 20;   // keys have 11 bits for the launch

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
    key[item] = (chains * i + low) * RANKS + static_cast<int>(behind * RANKS / (cut[low + 1] - cut[low]));
    slice[item] = colors[2 * i] + step * at;
}
