// Items of vectors, shared by the threads of a grid. Every kernel names the bytes that it moves for an item, for a `real` of 8 bytes.
// Scalars and the arithmetic with them are double whatever `real` is: these kernels wait for memory, not for arithmetic.
//
// Dot products repeat to the last bit: the grid follows from the length alone, every thread adds its items in order,
// a block adds its threads in a fixed tree, and the block that finishes last adds the blocks' partial sums in a fixed
// tree (sums.cuh).
#pragma once

#include "slices.cuh"
#include "sums.cuh"
#include "vectors/tree.cuh"

// The launch before this one is awaited here instead of by the stream (slices.cuh): 2 us of 5 where items are few.
#define FOLLOW_LAST() next_may_start(); wait_for_last_launch();

constexpr int THREADS = 256;
constexpr int UNROLL = 4;   // loads in flight for each thread and array

// The sum over the block's threads, in thread 0.
__device__ double block_sum(double value) {
    __shared__ double of_warp[THREADS / SLICE];
    value = warp_sum(value);
    if (threadIdx.x % SLICE == 0) of_warp[threadIdx.x / SLICE] = value;
    __syncthreads();
    if (threadIdx.x < SLICE) value = warp_sum(threadIdx.x < THREADS / SLICE ? of_warp[threadIdx.x] : 0.0);
    __syncthreads();
    return value;
}

// Calls use(i) for the items of this thread, UNROLL of them at a time.
template <typename Load, typename Use>
DEVICE void for_items(i64 size, Load load, Use use) {
    const i64 stride = static_cast<i64>(gridDim.x) * blockDim.x;
    i64 i = thread_number();
    for (; i + (UNROLL - 1) * stride < size; i += UNROLL * stride) {
        decltype(load(i)) loaded[UNROLL];
        UNROLLED for (int u = 0; u < UNROLL; ++u) loaded[u] = load(i + u * stride);
        UNROLLED for (int u = 0; u < UNROLL; ++u) use(i + u * stride, loaded[u]);
    }
    for (; i < size; i += stride) use(i, load(i));
}

struct Two { double x, y; };   // real is widened as it is read
struct Four { double p, ap, x, r; };
