// What the passes over a stored matrix have in common, for one vector (sweeps.cu, cycle.cu) and for several (batched.cu).
// Comes after slices.cuh.
#ifndef DSOLVER_PASSES_CUH
#define DSOLVER_PASSES_CUH

#define MATRIX \
    const Entries* __restrict__ entries, const real* __restrict__ values, const int* __restrict__ columns

// The same with values that are stored as float because that lost nothing (`Backend.compacted`).
#define COMPACT \
    const Entries* __restrict__ entries, const float* __restrict__ values, const int* __restrict__ columns

#define RANGE int first, int step, int count

// The slice of this warp in a part of a color, or return: all lanes of a warp leave together. `Index` is the type of p, the
// position of this lane's row: that of one vector, or of columns that may be longer together.
#define OWN_SLICE(Index)                                                   \
    next_may_start();                                                      \
    const int number = warp_number();                                      \
    if (number >= count) return;                                           \
    const int lane = lane_number();                                        \
    const int s = first + step * number;                                   \
    const Index p = (s + 1) * SLICE + lane;                                \
    const Slice slice = slice_of(load_entries(entries + s), values, columns, lane);

// The same where `entries` of floats need not be in storage order (mixed.py).
#define OWN_ITEM(Index)                                                    \
    next_may_start();                                                      \
    const int number = warp_number();                                      \
    if (number >= count) return;                                           \
    const int lane = lane_number();                                        \
    const int item = first + step * number;                                \
    const Entries found = load_entries(entries + item);                    \
    const Index p = ((STAGING ? found.slice : item) + 1) * SLICE + lane;   \
    const Slice slice = slice_of(found, values, columns, lane);

// The slice of this warp in the order of `entries`, likewise.
#define LISTED_SLICE(Index)                                                \
    next_may_start();                                                      \
    const int number = warp_number();                                      \
    if (number >= count) return;                                           \
    const int lane = lane_number();                                        \
    const Entries found = load_entries(entries + number);                  \
    const Index p = (found.slice + 1) * SLICE + lane;                      \
    const auto slice = slice_of(found, values, columns, lane);

// The sum over the block's threads, in thread 0, by a fixed tree.
__device__ __forceinline__ double sum_of_block(double value) {
    __shared__ double of_warp[SLICE];
    value = warp_sum(value);
    if (lane_number() == 0) of_warp[threadIdx.x / SLICE] = value;
    __syncthreads();
    double sum = 0.0;
    if (threadIdx.x == 0) for (int w = 0; w < blockDim.x / SLICE; ++w) sum += of_warp[w];
    __syncthreads();
    return sum;
}

#endif
