// What passes over a stored matrix have in common, for one vector and for several. Comes after slices.cuh.
#pragma once

#define MATRIX In<Header> headers, In<real> values, In<int> columns

// The same with values that are stored as float because that lost nothing (`Backend.compacted`).
#define COMPACT In<Header> headers, In<float> values, In<int> columns

#define RANGE int first, int step, int count

// Blocks of at most WIDEST warps and so few registers that BLOCKS of them share a multiprocessor: these passes wait for
// memory, and more warps wait better. Of floats what is staged decides that.
#define KERNEL(NAME, BLOCKS) ENTRY __launch_bounds__(WIDEST * SLICE, STAGING ? STAGING_BLOCKS : BLOCKS) NAME

// The slice of this warp in a part of a color, or return: all lanes of a warp leave together. `Index` is the type of p, the
// position of this lane's row: that of one vector, or of columns that may be longer together.
#define OWN_SLICE(Index)                                                   \
    next_may_start();                                                      \
    const int number = warp_number();                                      \
    if (number >= count) return;                                           \
    const int lane = lane_number();                                        \
    const int s = first + step * number;                                   \
    const Index p = (s + 1) * SLICE + lane;                                \
    const auto found = load_header(headers + s);                           \
    const Slice slice = slice_of(found, values, columns, lane);

// The slice of this warp in the order of `headers`.
#define LISTED_SLICE(Index)                                                \
    next_may_start();                                                      \
    const int number = warp_number();                                      \
    if (number >= count) return;                                           \
    const int lane = lane_number();                                        \
    const auto found = load_header(headers + number);                      \
    const Index p = (found.slice + 1) * SLICE + lane;                      \
    const auto slice = slice_of(found, values, columns, lane);

// The boundary row p of this thread, or -1. All wait for such a launch: a thread for each row, so that nothing waits twice.
#define OWN_ROW()                                                \
    next_may_start();                                            \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;         \
    const int p = i < count ? __ldg(boundary + i) : -1;
