// Words that all sources share.
#pragma once

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
