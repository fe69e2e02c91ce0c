// Words that all sources share.
#pragma once

using i64 = long long;
using u64 = unsigned long long;

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;   // of a warp

#define ENTRY extern "C" __global__ void  // of a kernel; loader.py knows the word
// EACH(G, 4, 8) in front of an ENTRY, whose end is a line of its own: kernels whose names and texts have 4 and 8 for G, and
// in names for ##G. loader.py writes them.
#define DEVICE __device__ __forceinline__
#define UNROLLED _Pragma("unroll")

// Read alone, and written by nothing while the kernel runs: its loads may pass the wait for the launch before (slices.cuh).
template <typename T>
using In = const T* __restrict__;

// Written, or read and written; no other argument overlaps it.
template <typename T>
using Out = T* __restrict__;

// The number of this thread among all of the launch.
DEVICE i64 thread_number() { return static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; }

// The first place of low .. high - 1 that is not `before` what is sought, as those in front are; high where all of them are.
template <typename Place, typename Before>
DEVICE Place search(Place low, Place high, Before before) {
    while (low < high) {
        const Place middle = (low + high) / 2;
        if (before(middle)) low = middle + 1;
        else high = middle;
    }
    return low;
}
