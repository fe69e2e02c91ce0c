// Arrays that kernels are given.
#ifndef DSOLVER_ARGUMENTS_CUH
#define DSOLVER_ARGUMENTS_CUH

// Read alone, and written by nothing while the kernel runs: its loads may pass the wait for the launch before (slices.cuh).
template <typename T>
using In = const T* __restrict__;

// Written, or read and written; no other argument overlaps it.
template <typename T>
using Out = T* __restrict__;

#endif
