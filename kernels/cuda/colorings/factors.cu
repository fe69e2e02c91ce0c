// Triangular factors of compressed rows, with the bits of dsolver/kernels/cpu/colorings/factors.py.

#include "device.cuh"

constexpr int THREADS = 256;

DEVICE int first_warp() { return (blockIdx.x * THREADS + threadIdx.x) / WARP; }
DEVICE int warps() { return gridDim.x * (THREADS / WARP); }

// Where row i has its diagonal, or -1. All lanes of a warp call this.
DEVICE i64 diagonal_of(const int* columns, i64 begin, i64 end, int i) {
    for (i64 k = begin; k < end; k += WARP) {
        const i64 mine = k + threadIdx.x % WARP;
        const unsigned found = __ballot_sync(ALL_LANES, mine < end && columns[mine] == i);
        if (found) return k + __ffs(found) - 1;
    }
    return -1;
}

// The diagonal, zero where there is none, and the first row in which it is zero.
ENTRY __launch_bounds__(THREADS) diagonals(
    const i64* start, const int* columns, const double* values, int rows, double* diagonal, int* zero
) {
    for (int i = first_warp(); i < rows; i += warps()) {
        const i64 at = diagonal_of(columns, start[i], start[i + 1], i);
        if (threadIdx.x % WARP) continue;
        const double value = at < 0 ? 0.0 : values[at];
        diagonal[i] = value;
        if (value == 0.0) atomicMin(zero, i);
    }
}

// L D^-1, ones on the diagonal, and U, of A = L + D + U in the order of the colors.
ENTRY __launch_bounds__(THREADS) sweep_factors(
    const i64* start, const int* columns, const double* values, int rows, const int* color,
    const double* diagonal, double* out
) {
    for (int i = first_warp(); i < rows; i += warps())
        for (i64 k = start[i] + threadIdx.x % WARP; k < start[i + 1]; k += WARP) {
            const int j = columns[k];
            out[k] = j == i ? 1.0 : color[j] < color[i] ? __ddiv_rn(values[k], diagonal[j]) : values[k];
        }
}

// Factors without fill of the rows `first` .. `end`, which do not read each other, in place (IKJ). Rows and columns are
// numbered in the order of the colors, columns ascend; places of diagonals and pivots of all rows before are there.
ENTRY __launch_bounds__(THREADS) eliminate_row(
    const i64* start, const int* columns, double* values, int first, int end, double shift, int positive,
    double lost, i64* diagonal, double* pivots, int* bad
) {
    const int lane = threadIdx.x % WARP;
    for (int i = first + first_warp(); i < end; i += warps()) {
        const i64 begin = start[i], behind = start[i + 1];
        const i64 own = diagonal_of(columns, begin, behind, i);
        double least = 0.0;
        if (own >= 0) {
            const double shifted = __dmul_rn(values[own], shift);
            least = __dmul_rn(lost, fabs(shifted));
            __syncwarp();
            if (lane == 0) values[own] = shifted;
            __syncwarp();
        }
        for (i64 p = begin; p < behind && columns[p] < i; ++p) {
            const int k = columns[p];
            const double factor = __ddiv_rn(values[p], pivots[k]);
            __syncwarp();
            if (lane == 0) values[p] = factor;
            // Entries of row k behind its diagonal, where row i has one in the same column: no two lanes have the same.
            const i64 upper = diagonal[k] < 0 ? start[k + 1] : diagonal[k] + 1;
            for (i64 q = upper + lane; q < start[k + 1]; q += WARP) {
                const int column = columns[q];
                const i64 low = search(p + 1, behind, [&](i64 middle) { return columns[middle] < column; });
                if (low < behind && columns[low] == column)
                    values[low] = __dadd_rn(values[low], -__dmul_rn(factor, values[q]));
            }
            __syncwarp();
        }
        if (lane) continue;
        const double pivot = own < 0 ? 0.0 : values[own];
        diagonal[i] = own;
        pivots[i] = pivot;
        if (!isfinite(pivot) || fabs(pivot) <= least || (positive && pivot < 0.0)) atomicMin(bad, i);
    }
}
