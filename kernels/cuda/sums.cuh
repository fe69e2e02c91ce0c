// Sums over a grid that repeat to the last bit: each block leaves its part, and the block that comes last adds the parts.
// Comes after slices.cuh.
#pragma once

// The sum over the block's threads, in thread 0, by a fixed tree.
DEVICE double sum_of_block(double value) {
    __shared__ double of_warp[SLICE];
    value = warp_sum(value);
    if (lane_number() == 0) of_warp[threadIdx.x / SLICE] = value;
    __syncthreads();
    double sum = 0.0;
    if (threadIdx.x == 0) for (int w = 0; w < blockDim.x / SLICE; ++w) sum += of_warp[w];
    __syncthreads();
    return sum;
}

// Whether this block is the last one of the grid that comes here. It sees what thread 0 of each other block has written
// before. `ticket` was zero and is zero again afterwards.
DEVICE bool comes_last(unsigned* ticket) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
        if (last) *ticket = 0u;
    }
    __syncthreads();
    if (last) __threadfence();
    return last;
}

// The sum of the blocks' parts, in thread 0; `of_block` adds the threads of a block there, in a fixed tree.
template <double (*of_block)(double)>
DEVICE double sum_of_parts(const double* partials) {
    double total = 0.0;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) total += __ldcg(partials + i);
    return of_block(total);
}

// out = the sum of `value` over all threads of the grid. `partials` has room for the grid. `out` may be one of the scalars
// that the kernel read before: it is written after every block has come this far.
template <double (*of_block)(double)>
DEVICE void grid_sum(double value, double* partials, unsigned* ticket, double* out) {
    value = of_block(value);
    if (threadIdx.x == 0) partials[blockIdx.x] = value;
    if (!comes_last(ticket)) return;
    const double total = sum_of_parts<of_block>(partials);
    if (threadIdx.x == 0) *out = total;
}
