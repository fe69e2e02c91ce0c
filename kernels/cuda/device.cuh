// Words that all sources share.
#pragma once

#define ENTRY extern "C" __global__ void  // of a kernel; loader.py knows the word
#define DEVICE __device__ __forceinline__
#define UNROLLED _Pragma("unroll")

// Read alone, and written by nothing while the kernel runs: its loads may pass the wait for the launch before (slices.cuh).
template <typename T>
using In = const T* __restrict__;

// Written, or read and written; no other argument overlaps it.
template <typename T>
using Out = T* __restrict__;
