// Products of slices of rows of single entries with WIDTH vectors at once: a warp a slice, a thread a row. An entry's value
// and column, 8 to 12 bytes, are read once for all of them. Sums are those of spmv.cu, column by column.

#include "slices.cuh"
#include "block_slices/slices.cuh"
#include "sparse/finish.cuh"
#include "sparse/columns.cuh"

constexpr int WARPS = 4;   // of a block
constexpr int FLIGHT = WIDTH > 4 ? 2 : 4;   // entries that a thread requests at a time, each with WIDTH items

// Entry columns 0 .. width - 1 in order, of matrices in the same places: one, or both parts of a complex one; column(k) is of
// this lane.
template <int KIND, int PARTS, typename Vectors, typename Column>
DEVICE void add_columns(
    real (&sums)[PARTS][WIDTH], const real* const (&values)[PARTS], int width, const Vectors& finish, const Column& column
) {
    int k = 0;
    for (; k + FLIGHT <= width; k += FLIGHT) {
        int c[FLIGHT];
        real a[PARTS][FLIGHT], b[FLIGHT][WIDTH];
        UNROLLED for (int f = 0; f < FLIGHT; ++f) c[f] = column(k + f);
        UNROLLED for (int f = 0; f < FLIGHT; ++f) EACH_PART a[p][f] = __ldcs(values[p] + (k + f) * SLICE);
        UNROLLED for (int f = 0; f < FLIGHT; ++f) finish.template load<KIND>(b[f], c[f]);
        UNROLLED for (int f = 0; f < FLIGHT; ++f) EACH_PART EACH_COLUMN sums[p][n] = fma(a[p][f], b[f][n], sums[p][n]);
    }
    for (; k < width; ++k) {
        const int c = column(k);
        real a[PARTS], b[WIDTH];
        EACH_PART a[p] = __ldcs(values[p] + k * SLICE);
        finish.template load<KIND>(b, c);
        EACH_PART EACH_COLUMN sums[p][n] = fma(a[p], b[n], sums[p][n]);
    }
}

// The row of this lane, -1 for none, and its sums of each matrix in each column; values are of the first matrix' slices.
template <int KIND, int PARTS, typename Vectors>
DEVICE int add_slice(
    real (&sums)[PARTS][WIDTH], const BlockSlice* slices, const unsigned short* indices, const real* const (&values)[PARTS],
    const int* row, const Vectors& finish, int s, int rows
) {
    const int lane = lane_number();
    const uint4 packed = __ldg(reinterpret_cast<const uint4*>(slices + s));
    const int width = static_cast<int>(packed.z) >> 2, kind = packed.z & 3u, base = static_cast<int>(packed.w);
    const int own = row ? __ldg(row + s * SLICE + lane) : s * SLICE + lane;
    const real* from[PARTS];
    EACH_PART from[p] = values[p] + static_cast<i64>(packed.x) * SLICE + lane;
    const unsigned short* at = indices + static_cast<i64>(packed.y) * UNIT;
    wait_for_last_launch();
    if (kind == RUN) {
        const int* bases = reinterpret_cast<const int*>(at);
        for (int begin = 0; begin < width; begin += SLICE) {
            const int end = min(width - begin, SLICE);
            const int mine = lane < end ? __ldg(bases + begin + lane) : 0;
            add_columns<KIND>(
                sums, from, end, finish, [&](int k) { return __shfl_sync(ALL_LANES, mine, k) + lane; });
            EACH_PART from[p] += SLICE * SLICE;
        }
    } else if (kind == NEAR) {
        at += lane;
        add_columns<KIND>(
            sums, from, width, finish, [&](int k) { return base + static_cast<int>(__ldcs(at + k * SLICE)); });
    } else {
        const int* columns = reinterpret_cast<const int*>(at) + lane;
        add_columns<KIND>(sums, from, width, finish, [&](int k) { return __ldcs(columns + k * SLICE); });
    }
    return own < rows ? own : -1;
}

// WITH_DOT: x . y of each column and slice in `partials` (WIDTH, slices).
template <int KIND, bool WITH_DOT>
DEVICE void multiply(
    const BlockSlice* slices, const unsigned short* indices, const real* values, const int* row, const Finishes finish,
    double* partials, int count, int rows
) {
    next_may_start();
    const int s = warp_number();
    if (s >= count) return;
    const real* const parts[1] = {values};
    real found[1][WIDTH] = {};
    const int own = add_slice<KIND>(found, slices, indices, parts, row, finish, s, rows);
    real (&sums)[WIDTH] = found[0];
    if (own >= 0) { EACH_COLUMN sums[n] = finish.of(n).write<KIND>(own, sums[n]); }
    if constexpr (WITH_DOT) {
        EACH_COLUMN {
            const double part =
                warp_sum(own >= 0 ? fma(finish.of(n).beside<KIND>(own), static_cast<double>(sums[n]), 0.0) : 0.0);
            if (lane_number() == 0) partials[static_cast<i64>(n) * count + s] = part;
        }
    }
}

// Of a complex matrix, whose imaginary parts lie in the places of the real ones: 16 to 20 bytes an entry, of floats 8 to 12.
template <int KIND>
DEVICE void multiply_complex(
    const BlockSlice* slices, const unsigned short* indices, const real* values, const int* row, const real* imaginary,
    const ComplexFinishes finish, int count, int rows
) {
    next_may_start();
    const int s = warp_number();
    if (s >= count) return;
    const real* const parts[2] = {values, imaginary};
    real sums[2][WIDTH] = {};
    const int own = add_slice<KIND>(sums, slices, indices, parts, row, finish, s, rows);
    if (own >= 0) finish.write<KIND>(own, sums);
}

#define SLICES In<BlockSlice> slices, In<unsigned short> indices, In<real> values, In<int> row
#define KERNEL(NAME) ENTRY __launch_bounds__(WARPS * SLICE) NAME

#define FINISHED_BY(NAME, KIND)                                                                                       \
    KERNEL(NAME)(SLICES, COLUMNS, int count, int rows) {                                                              \
        multiply<KIND, false>(slices, indices, values, row, ALL_COLUMNS, nullptr, count, rows);                       \
    }

#define WITH_DOT(NAME, KIND)                                                                                          \
    KERNEL(NAME)(SLICES, COLUMNS, double* partials, int count, int rows) {                                            \
        multiply<KIND, true>(slices, indices, values, row, ALL_COLUMNS, partials, count, rows);                       \
    }

FINISHED_BY(spmv, PRODUCT)
FINISHED_BY(sum, SUM)
FINISHED_BY(residual, RESIDUAL)
FINISHED_BY(sweep, SWEEP)
FINISHED_BY(first, FIRST)
WITH_DOT(spmv_dot, PRODUCT)
WITH_DOT(sweep_dot, SWEEP)

#if WIDTH % 2 == 0
#define COMPLEX(NAME, KIND)                                                                                           \
    KERNEL(NAME)(SLICES, In<real> imaginary, const real* wi, COLUMNS, int count, int rows) {                          \
        const ComplexFinishes finish{ALL_COLUMNS, wi};                                                                \
        multiply_complex<KIND>(slices, indices, values, row, imaginary, finish, count, rows);                         \
    }

COMPLEX(complex_spmv, PRODUCT)
COMPLEX(complex_residual, RESIDUAL)
COMPLEX(complex_sweep, SWEEP)
COMPLEX(complex_first, FIRST)
#endif
