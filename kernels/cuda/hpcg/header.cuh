// The header of a slice whose upper entries end with those at coarse points (formats/hpcg.py). Comes after slices.cuh.
#pragma once

// As `Header`, for the kernels that read these entries by themselves: 16 bytes, too, for rows of at most 1023 entries.
struct __align__(16) SmoothedHeader {
    unsigned start, columns;
    int slice;
    unsigned shape;   // first upper column, first coarse one, width (10 bits each), and whether it is a run

    DEVICE int upper() const { return static_cast<int>(shape & 1023u); }
    DEVICE int coarse() const { return static_cast<int>(shape >> 10 & 1023u); }
    DEVICE int width() const { return static_cast<int>(shape >> 20 & 1023u); }
    DEVICE bool run() const { return (shape >> 30) != 0u; }
};

#define SMOOTHED_MATRIX In<SmoothedHeader> headers, In<real> values, In<int> columns
