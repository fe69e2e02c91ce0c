// Products of slices of blocks of 2 x 2 to 6 x 6 entries.

#include "slices.cuh"
#include "block_slices/slices.cuh"
#include "sparse/finish.cuh"
#include "block_slices/multiply.cuh"

SPMV(2, , false)
SPMV(3, , false)
SPMV(4, , false)
SPMV(6, , false)
