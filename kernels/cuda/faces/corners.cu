// Restriction and prolongation of the first color (formats/checkered/corners.py). Where all axes are coarsened, 3/8 of the rows have 4
// weights and 1/8 of them one; and no columns.

#include "slices.cuh"
#include "faces/faces.cuh"

// How a grid is coarsened: coarse points along each axis, and the axes along which they are every second point, as bits.
#define COARSE int cx, int cy, int cz, int halved
#define CORNERS_OF const real* __restrict__ weights, long long count
#define GIVEN BOARD_OF_ARGUMENTS, cx, cy, cz, halved, weights, count
#define PASS extern "C" __global__ void __launch_bounds__(THREADS)

constexpr int CORNERS = 4;

// The coarse point below (bit 0) or above (bit 1) point i that lies between two of n, or -1 for none.
__device__ __forceinline__ int corner(int i, int bit, int n, bool wraps) {
    const int at = i / 2 - 1 + bit;
    return at >= 0 && at < n ? at : wraps ? (at < 0 ? n - 1 : 0) : -1;
}

// Along which axes a point lies between coarse ones, and which corner along each of them its weight `number` is of: the first
// such axis takes the first bit.
struct Between {
    bool x, y, z;

    __device__ __forceinline__ Between(int i, int j, int k, int halved)
        : x(halved & 1 && !(i & 1)), y(halved & 2 && !(j & 1)), z(halved & 4 && !(k & 1)) {}
    __device__ __forceinline__ int weights() const { return 1 << (x + y + z); }
    __device__ __forceinline__ int bit_x(int number) const { return number & 1; }
    __device__ __forceinline__ int bit_y(int number) const { return number >> x & 1; }
    __device__ __forceinline__ int bit_z(int number) const { return number >> (x + y) & 1; }
};

// x += P xc at the points of the first color.
template <bool MANY>
__device__ __forceinline__ void prolong(
    const Board& b, COARSE, CORNERS_OF, const real* xc, real* x, long long coarse_size, long long size, int width
) {
    next_may_start();
    constexpr int ROWS = 2;   // of a thread, one behind the other along z: one has too few bytes on their way
    const int q = blockIdx.x * SLICE + lane_number(), j = blockIdx.y * LINES + threadIdx.x / SLICE, first = ROWS * blockIdx.z;
    real w[ROWS][CORNERS];
    int at[ROWS][CORNERS], own[ROWS];
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
        const int k = first + row;
        const bool there = q < b.half && j < b.ny && k < b.nz;
        const int i = 2 * q + (b.color(j, k) != 0);
        const Between between(i, j, k, halved);
        own[row] = there ? b.place(0, q, j, k) : -1;
#pragma unroll
        for (int n = 0; n < CORNERS; ++n) {
            const int I = between.x ? corner(i, between.bit_x(n), cx, b.wraps & 1) : halved & 1 ? i / 2 : i;
            const int J = between.y ? corner(j, between.bit_y(n), cy, b.wraps & 2) : halved & 2 ? j / 2 : j;
            const int K = between.z ? corner(k, between.bit_z(n), cz, b.wraps & 4) : halved & 4 ? k / 2 : k;
            const bool used = there && n < between.weights() && I >= 0 && J >= 0 && K >= 0;
            w[row][n] = used ? __ldcs(weights + n * count + own[row] - b.first[0]) : real(0);
            at[row][n] = used ? SLICE + I + cx * (J + cy * K) : 0;   // else a zero of the guard
        }
    }
    wait_for_last_launch();
    for (int n = 0; n < (MANY ? width : 1); ++n, xc += coarse_size, x += size) {
        real old[ROWS], values[ROWS][CORNERS];
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            old[row] = own[row] < 0 ? real(0) : x[own[row]];
#pragma unroll
            for (int c = 0; c < CORNERS; ++c) values[row][c] = xc[at[row][c]];
        }
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            real sum = 0;
#pragma unroll
            for (int c = 0; c < CORNERS; ++c) sum = fma(w[row][c], values[row][c], sum);
            if (own[row] >= 0) x[own[row]] = old[row] + sum;
        }
    }
}

PASS prolong_add(BOARD, COARSE, CORNERS_OF, const real* xc, real* x) { prolong<false>(GIVEN, xc, x, 0, 0, 1); }

PASS columns_prolong_add(
    BOARD, COARSE, CORNERS_OF, const real* xc, real* x, long long coarse_size, long long size, int width
) {
    prolong<true>(GIVEN, xc, x, coarse_size, size, width);
}

// The place of the fine point a step from coarse point I, or -1 beyond the grid's ends.
__device__ __forceinline__ int stepped(int I, int step, int n, bool halved, bool wraps) {
    if (!halved) return I;
    const int at = 2 * I + 1 + step;
    return at < n ? at : wraps ? 0 : -1;
}

// rc = R y for a y that is zero on the second color: from the points of the first one within a step of a coarse point along
// the axes X, Y, Z, in lattice order. The same weights, each of them once; half of y, rc and its place.
template <bool MANY, int X, int Y, int Z>
__device__ __forceinline__ void restrict_along(
    const Board& b, COARSE, CORNERS_OF, const int* position, const real* y, real* rc, long long size, long long coarse_size,
    int width
) {
    const int I = blockIdx.x * SLICE + lane_number(), J = blockIdx.y * LINES + threadIdx.x / SLICE, K = blockIdx.z;
    const bool there = I < cx && J < cy;
    constexpr int WIDE = 1 + 2 * X, HIGH = 1 + 2 * Y, AROUND = WIDE * HIGH * (1 + 2 * Z);
    real w[AROUND];
    int at[AROUND];
#pragma unroll
    for (int n = 0; n < AROUND; ++n) {
        const int dx = n % WIDE - X, dy = n / WIDE % HIGH - Y, dz = n / (WIDE * HIGH) - Z;
        w[n] = real(0);
        at[n] = 0;   // a zero of the guard
        if (X && Y && Z && (dx + dy + dz) & 1) continue;   // of the second color
        const int i = stepped(I, dx, 2 * b.half, X, b.wraps & 1), j = stepped(J, dy, b.ny, Y, b.wraps & 2);
        const int k = stepped(K, dz, b.nz, Z, b.wraps & 4);
        if (!there || i < 0 || j < 0 || k < 0 || (b.color(j, k) ^ (i & 1)) != 0) continue;
        // Below the point between, this is its upper corner.
        const int number = (dx && dx < 0) + ((dy && dy < 0) << (dx != 0)) + ((dz && dz < 0) << ((dx != 0) + (dy != 0)));
        at[n] = b.place(0, i / 2, j, k);
        w[n] = __ldcs(weights + number * count + at[n] - b.first[0]);
    }
    const int to = there ? __ldg(position + I + cx * (J + cy * K)) : 0;
    wait_for_last_launch();
    if (!there) return;
    for (int n = 0; n < (MANY ? width : 1); ++n, y += size, rc += coarse_size) {
        real values[AROUND], sum = 0;
#pragma unroll
        for (int c = 0; c < AROUND; ++c) {
            const bool read = !(X && Y && Z) || !((c % WIDE + c / WIDE % HIGH + c / (WIDE * HIGH) + 1) & 1);
            values[c] = read ? y[at[c]] : real(0);
        }
#pragma unroll
        for (int c = 0; c < AROUND; ++c) sum = fma(w[c], values[c], sum);
        rc[to] = sum;
    }
}

template <bool MANY>
__device__ __forceinline__ void restrict_to(
    const Board& b, COARSE, CORNERS_OF, const int* position, const real* y, real* rc, long long size, long long coarse_size,
    int width
) {
    next_may_start();
#define ALONG(X, Y, Z) \
    restrict_along<MANY, X, Y, Z>(b, cx, cy, cz, halved, weights, count, position, y, rc, size, coarse_size, width)
    switch (halved) {
        case 1: return ALONG(1, 0, 0);
        case 2: return ALONG(0, 1, 0);
        case 3: return ALONG(1, 1, 0);
        case 4: return ALONG(0, 0, 1);
        case 5: return ALONG(1, 0, 1);
        case 6: return ALONG(0, 1, 1);
        default: return ALONG(1, 1, 1);
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
PASS pick(BOARD, int halved, const double* __restrict__ p, real* __restrict__ weights, long long count) {
    constexpr int GHOST = 2;
    const Board b = BOARD_OF_ARGUMENTS;
    const int q = blockIdx.x * SLICE + lane_number(), j = blockIdx.y * LINES + threadIdx.x / SLICE, k = blockIdx.z;
    if (q >= b.half || j >= b.ny) return;
    const int i = 2 * q + (b.color(j, k) != 0);
    const Between between(i, j, k, halved);
    const long long line = 2 * b.half + 2 * GHOST, plane = line * (b.ny + 2 * GHOST), all = plane * (b.nz + 2 * GHOST);
    const double* const from = p + i + GHOST + line * (j + GHOST) + plane * (k + GHOST);
    real* const to = weights + b.place(0, q, j, k) - b.first[0];
    for (int n = 0; n < between.weights(); ++n) {
        const int number = (between.x ? between.bit_x(n) : 0) + (between.y ? 2 * between.bit_y(n) : 0) + (between.z ? 4 * between.bit_z(n) : 0);
        to[n * count] = static_cast<real>(__ldg(from + number * all));
    }
}
