// Products of one slice with WIDTH vectors at once, the columns of an array (WIDTH, items). One warp a slice and one thread a
// row, as in sweeps.cu; a thread adds a sum for each column. Comes after passes.cuh.
//
// Sums are added in the order of slices.cuh, so a column's bits are those of the kernels for one vector.
//
// No vector that is read is `const __restrict__` in such kernels: of those the compiler makes loads that the assembler may
// move in front of `wait_for_last_launch` (slices.cuh).
#pragma once

#ifndef WIDTH
#define WIDTH 8
#endif

// Few enough registers for BLOCKS blocks to share a multiprocessor, and no fewer: with the 40 to 60 that the compiler takes if
// nothing is said, x is requested piece by piece, and 8 residuals take 1.6 times as long.
constexpr int BLOCKS = (WIDTH <= 4 ? 32 : 24) / WIDEST;

#define BATCHED(NAME) ENTRY __launch_bounds__(WIDEST * SLICE, BLOCKS) NAME

// Entry columns whose values and x are requested before the first is used.
constexpr int AT_A_TIME = 4;

struct Sums { real of[WIDTH]; };

template <int COUNT, typename Value>
DEVICE void add_columns(Sums& sums, const Value* values, const int* c, const real* x, i64 size) {
    Value a[COUNT];
    real b[COUNT][WIDTH];
    UNROLLED for (int i = 0; i < COUNT; ++i) a[i] = __ldcs(values + i * SLICE);
    UNROLLED for (int i = 0; i < COUNT; ++i) {
        const real* at = x + c[i];
        UNROLLED for (int w = 0; w < WIDTH; ++w) b[i][w] = at[w * size];
    }
    UNROLLED for (int i = 0; i < COUNT; ++i)
        UNROLLED for (int w = 0; w < WIDTH; ++w) sums.of[w] = fma(static_cast<real>(a[i]), b[i][w], sums.of[w]);
}

// sums + entry columns [first, last) of the slice times x, whose columns have `size` items, in column order.
template <typename Value>
DEVICE void add(Sums& sums, const SliceOf<Value>& slice, int first, int last, const real* x, i64 size, int lane) {
    const Value* values = slice.values + first * SLICE;
    int c[AT_A_TIME];
    if (slice.run) {
        for (int k = first; k < last; k += SLICE) {
            const int count = min(SLICE, last - k);
            const int base = lane < count ? __ldg(slice.columns + k + lane) : 0;
            int i = 0;
            for (; i + AT_A_TIME <= count; i += AT_A_TIME, values += AT_A_TIME * SLICE) {
                UNROLLED for (int n = 0; n < AT_A_TIME; ++n) c[n] = __shfl_sync(ALL_LANES, base, i + n) + lane;
                add_columns<AT_A_TIME>(sums, values, c, x, size);
            }
            for (; i < count; ++i, values += SLICE) {
                c[0] = __shfl_sync(ALL_LANES, base, i) + lane;
                add_columns<1>(sums, values, c, x, size);
            }
        }
    } else {
        const int* from = slice.columns + first * SLICE + lane;
        int k = first;
        for (; k + AT_A_TIME <= last; k += AT_A_TIME, values += AT_A_TIME * SLICE, from += AT_A_TIME * SLICE) {
            UNROLLED for (int n = 0; n < AT_A_TIME; ++n) c[n] = __ldcs(from + n * SLICE);
            add_columns<AT_A_TIME>(sums, values, c, x, size);
        }
        for (; k < last; ++k, values += SLICE, from += SLICE) {
            c[0] = __ldcs(from);
            add_columns<1>(sums, values, c, x, size);
        }
    }
}

DEVICE Sums zeros() {
    Sums sums;
    UNROLLED for (int w = 0; w < WIDTH; ++w) sums.of[w] = real(0);
    return sums;
}

#define EACH_COLUMN UNROLLED for (int w = 0; w < WIDTH; ++w)
