// Products of slices of single entries.

#include "slices.cuh"
#include "block_slices/slices.cuh"
#include "sparse/finish.cuh"
#include "block_slices/multiply.cuh"

SPMV(1, , false)
SPMV(1, _wide, true)

// Products of single entries in their own order, of which most slices have SHORT or less, near each other, as those of P: a warp
// has PAIR slices and requests what both have at once. y = x + P xc of a lattice's finest level takes 0.81 of the time.
constexpr int SHORT = 4, PAIR = 2;

template <int KIND>
DEVICE void multiply_short(
    const BlockSlice* slices, const unsigned short* indices, const real* values, const Finish finish, int count, int rows
) {
    next_may_start();
    const int first = PAIR * warp_number(), lane = lane_number();
    if (first >= count) return;
    uint4 packed[PAIR];
    bool short_and_near = true;
    UNROLLED for (int q = 0; q < PAIR; ++q) {
        packed[q] = first + q < count ? packed_slice(slices + first + q) : make_uint4(0, 0, NEAR, 0);
        short_and_near &= (packed[q].z >> 2) <= SHORT && (packed[q].z & 3u) == NEAR;
    }
    wait_for_last_launch();
    const auto x = finish.read<KIND>();
    real sum[PAIR] = {};
    if (short_and_near) {
        int c[PAIR][SHORT];
        real a[PAIR][SHORT], b[PAIR][SHORT];
        UNROLLED for (int q = 0; q < PAIR; ++q) {
            const unsigned short* at = indices + static_cast<i64>(packed[q].y) * UNIT + lane;
            UNROLLED for (int k = 0; k < SHORT; ++k)
                c[q][k] = k < packed[q].z >> 2 ? static_cast<int>(packed[q].w) + __ldcs(at + k * SLICE) : -1;
        }
        UNROLLED for (int q = 0; q < PAIR; ++q) {
            const real* from = values + static_cast<i64>(packed[q].x) * SLICE + lane;
            UNROLLED for (int k = 0; k < SHORT; ++k)
                a[q][k] = k < packed[q].z >> 2 ? __ldcs(from + k * SLICE) : real(0);
        }
        UNROLLED for (int q = 0; q < PAIR; ++q)
            UNROLLED for (int k = 0; k < SHORT; ++k) b[q][k] = c[q][k] < 0 ? real(0) : x[c[q][k]];
        UNROLLED for (int q = 0; q < PAIR; ++q)
            UNROLLED for (int k = 0; k < SHORT; ++k) sum[q] = fma(a[q][k], b[q][k], sum[q]);
    } else {
        for (int q = 0; q < PAIR; ++q) add_slice<1, false>(sum + q, packed[q], indices, values, x);
    }
    UNROLLED for (int q = 0; q < PAIR; ++q) {
        const int own = (first + q) * SLICE + lane;
        if (own < rows) finish.write<KIND>(own, sum[q]);
    }
}

KERNEL(sum_1_short)(SLICES, FINISH, int count, int rows) {
    multiply_short<SUM>(slices, indices, values, FINISHED, count, rows);
}
