// Restriction and prolongation of the first color (formats/corners.py): weights of 4 corners of a point between, which a
// coarse point lacks, so 3/8 of all rows times 4 weights; the vectors; and no columns.

#include "slices.cuh"
#include "faces/faces.cuh"

#define COARSE int cx, int cy, int cz
#define CORNERS_OF const real* __restrict__ weights, long long count

// Of an axis: how far it is to the coarse point of an even point's lower and upper corner, in coarse points.
__device__ __forceinline__ int corner(int i, int bit, int n, bool wraps) {
    const int at = i / 2 - 1 + bit;
    return at >= 0 && at < n ? at : wraps ? (at < 0 ? n - 1 : 0) : -1;
}

// x += P xc at points of the first color: 6.5 bytes of floats + half of x twice (4) and xc (0.5) a row.
template <bool MANY>
__device__ __forceinline__ void prolong(
    const Board& b, COARSE, CORNERS_OF, const real* xc, real* x, long long coarse_size, long long size, int width
) {
    next_may_start();
    const int q = blockIdx.x * SLICE + lane_number(), j = blockIdx.y * LINES + threadIdx.x / SLICE, k = blockIdx.z;
    const bool there = q < b.half && j < b.ny;
    const int i = 2 * q + (b.color(j, k) != 0), own = b.place(0, q, j, k);
    const bool coarse = i & j & k & 1, by_x = !(i & 1);
    real w[4];
    int at[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        // Of x and y, x and z, or y and z, the first one's bit is fastest.
        const int first = n & 1, second = n >> 1;
        const int bx = first, by = by_x ? second : first, bz = second;
        const int I = i & 1 ? i / 2 : corner(i, bx, cx, b.wraps & 1);
        const int J = j & 1 ? j / 2 : corner(j, by, cy, b.wraps & 2);
        const int K = k & 1 ? k / 2 : corner(k, bz, cz, b.wraps & 4);
        const bool used = there && (n == 0 || !coarse) && I >= 0 && J >= 0 && K >= 0;
        w[n] = used ? __ldcs(weights + n * count + own - b.first[0]) : real(0);
        at[n] = used ? SLICE + I + cx * (J + cy * K) : 0;   // else a zero of the guard
    }
    wait_for_last_launch();
    if (!there) return;
    for (int n = 0; n < (MANY ? width : 1); ++n, xc += coarse_size, x += size) {
        const real old = x[own];
        real sum = 0;
#pragma unroll
        for (int c = 0; c < 4; ++c) sum = fma(w[c], xc[at[c]], sum);
        x[own] = old + sum;
    }
}

#define PASS extern "C" __global__ void __launch_bounds__(THREADS)
#define GIVEN BOARD_OF_ARGUMENTS, cx, cy, cz, weights, count

PASS prolong_add(BOARD, COARSE, CORNERS_OF, const real* xc, real* x) { prolong<false>(GIVEN, xc, x, 0, 0, 1); }

PASS columns_prolong_add(
    BOARD, COARSE, CORNERS_OF, const real* xc, real* x, long long coarse_size, long long size, int width
) {
    prolong<true>(GIVEN, xc, x, coarse_size, size, width);
}

// The place of the fine point a step from coarse point I, or -1 beyond the grid's end.
__device__ __forceinline__ int stepped(int I, int step, int n, bool wraps) {
    const int at = 2 * I + 1 + step;
    return at < n ? at : wraps ? 0 : -1;
}

// rc = R y for a y that is zero on the second color, from the 13 points of the first one within a step of a coarse point: the
// same weights, each of them once; half of y, rc and its place.
template <bool MANY>
__device__ __forceinline__ void restrict_to(
    const Board& b, COARSE, CORNERS_OF, const int* position, const real* y, real* rc, long long size, long long coarse_size,
    int width
) {
    next_may_start();
    const int I = blockIdx.x * SLICE + lane_number(), J = blockIdx.y * LINES + threadIdx.x / SLICE, K = blockIdx.z;
    const bool there = I < cx && J < cy;
    // In lattice order; each has one step of 0, or three.
    constexpr int AROUND = 13, STEPS[AROUND][3] = {
        {0, -1, -1}, {-1, 0, -1}, {1, 0, -1}, {0, 1, -1}, {-1, -1, 0}, {1, -1, 0}, {0, 0, 0}, {-1, 1, 0}, {1, 1, 0},
        {0, -1, 1}, {-1, 0, 1}, {1, 0, 1}, {0, 1, 1},
    };
    real w[AROUND];
    int at[AROUND];
#pragma unroll
    for (int n = 0; n < AROUND; ++n) {
        const int dx = STEPS[n][0], dy = STEPS[n][1], dz = STEPS[n][2];
        const int i = stepped(I, dx, 2 * b.half, b.wraps & 1), j = stepped(J, dy, b.ny, b.wraps & 2);
        const int k = stepped(K, dz, b.nz, b.wraps & 4);
        const bool used = there && i >= 0 && j >= 0 && k >= 0;
        // Below the point between this is its upper corner.
        const int first = dx ? dx < 0 : dy < 0, second = dx && dy ? dy < 0 : dz < 0;
        at[n] = used ? b.place(0, i / 2, j, k) : 0;   // else a zero of the guard
        w[n] = used ? __ldcs(weights + (first + 2 * second) * count + at[n] - b.first[0]) : real(0);
    }
    const int to = there ? __ldg(position + I + cx * (J + cy * K)) : 0;
    wait_for_last_launch();
    if (!there) return;
    for (int n = 0; n < (MANY ? width : 1); ++n, y += size, rc += coarse_size) {
        real values[AROUND], sum = 0;
#pragma unroll
        for (int c = 0; c < AROUND; ++c) values[c] = y[at[c]];
#pragma unroll
        for (int c = 0; c < AROUND; ++c) sum = fma(w[c], values[c], sum);
        rc[to] = sum;
    }
}

PASS restrict_full(BOARD, COARSE, CORNERS_OF, const int* __restrict__ position, const real* y, real* rc) {
    restrict_to<false>(GIVEN, position, y, rc, 0, 0, 1);
}

PASS columns_restrict_full(
    BOARD, COARSE, CORNERS_OF, const int* __restrict__ position, const real* y, real* rc, long long size,
    long long coarse_size, int width
) {
    restrict_to<true>(GIVEN, position, y, rc, size, coarse_size, width);
}

// The weights, from those of all corners of all points with two layers around them: (8, nz + 4, ny + 4, nx + 4).
PASS pick(BOARD, const double* __restrict__ p, real* __restrict__ weights, long long count) {
    constexpr int GHOST = 2;
    const Board b = BOARD_OF_ARGUMENTS;
    const int q = blockIdx.x * SLICE + lane_number(), j = blockIdx.y * LINES + threadIdx.x / SLICE, k = blockIdx.z;
    if (q >= b.half || j >= b.ny) return;
    const int i = 2 * q + (b.color(j, k) != 0);
    const long long line = 2 * b.half + 2 * GHOST, plane = line * (b.ny + 2 * GHOST), all = plane * (b.nz + 2 * GHOST);
    const double* const from = p + i + GHOST + line * (j + GHOST) + plane * (k + GHOST);
    real* const to = weights + b.place(0, q, j, k) - b.first[0];
    const int first = i & 1 ? 2 : 1, second = k & 1 ? 2 : 4;   // the corners' bits along the point's even axes
#pragma unroll
    for (int n = 0; n < 4; ++n)
        if (n == 0 || !(i & j & k & 1))
            to[n * count] = static_cast<real>(__ldg(from + ((n & 1) * first + (n >> 1) * second) * all));
}
