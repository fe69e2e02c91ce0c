// Set-up of HPCG's matrices: slices whose upper entries end with those at coarse points.

#include "slices.cuh"
#include "range.cuh"
#include "sell/assembly/assembly.cuh"
#include "hpcg/header.cuh"

// The entries of a square matrix with a third section: upper entries at coarse points. `coarse` may be null: there are none.
struct Smoothed {
    static constexpr int SECTIONS = 3, COARSE = 2;
    static constexpr bool HAS_DIAGONAL = true;
    const unsigned char* coarse;

    DEVICE int section(const Columns& columns, int row, int own_color, int column) const {
        const int found = Square().section(columns, row, own_color, column);
        return found == UPPER && coarse != nullptr && coarse[column] ? COARSE : found;
    }
};

ENTRY measure_smoothed(SOURCE, ROWS, In<unsigned char> coarse, SHAPES, int runs_wanted, Found* found, real* diagonal) {
    measure(
        Smoothed{coarse}, SOURCE_OF_ARGUMENTS, COLUMNS_OF_ARGUMENTS, wanted, slices, ends, runs, runs_wanted, diagonal, found);
}

ENTRY fill_smoothed(SOURCE, ROWS, In<unsigned char> coarse, PLACES, ROOM) {
    if (FITS) fill(
        Smoothed{coarse}, SOURCE_OF_ARGUMENTS, COLUMNS_OF_ARGUMENTS, wanted, slices, ends, runs, start, column_start, values,
        columns);
}

// What the post-smoother knows of a slice: `Header`s with where the entries at coarse points begin.
ENTRY pack_smoothed(In<Header> headers, In<int> coarse, int slices, SmoothedHeader* smoothed) {
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= slices) return;
    const Header found = load_header(headers + s);
    const unsigned shape = found.upper() | coarse[s] << 10 | found.width() << 20 | found.run() << 30;
    smoothed[s] = {found.start, found.columns, found.slice, shape};
}

// filled, which was zero: whether a slice of each color has upper entries. begins (colors + 1): storage slices, the guard
// being slice 0.
ENTRY mark_filled(In<Header> headers, In<i64> begins, int colors, int slices, Out<int> filled) {
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= slices) return;
    const Header found = load_header(headers + s);
    if (found.upper() == found.width()) return;
    int low = 0, high = colors;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (begins[middle] <= s + 1 ? low : high) = middle;
    }
    filled[low] = 1;
}
