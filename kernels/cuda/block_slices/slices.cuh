// Slices of 32 rows of B x B blocks (see dsolver/kernels/formats/block_slices.py). Comes after slices.cuh.
#pragma once

// How a slice's columns are stored: as they are, as 16-bit offsets from the slice's base, or as one base an entry column
// where lane l has column base + l.
constexpr int WIDE = 0, NEAR = 1, RUN = 2;
constexpr int UNIT = 32;   // 16-bit words of `indices` in which places are counted: 64 bytes

struct __align__(16) BlockSlice {
    unsigned first;    // entry columns of the slices before it
    unsigned place;    // of its columns, in units
    int shape;         // 4 times its entry columns, and how its columns are stored
    int base;          // what offsets are added to
};

// Units of the columns of so many entry columns.
DEVICE i64 units_of(int width, int kind) {
    return kind == RUN ? (width + 15) / 16 : static_cast<i64>(width) * (kind == NEAR ? 1 : 2);
}
