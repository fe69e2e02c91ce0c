// Restriction and prolongation of the first color (formats/checkered/corners.py). Where all axes are coarsened, 3/8 of the rows have 4
// weights and 1/8 of them one; and no columns.

#include "slices.cuh"
#include "faces/faces.cuh"
#include "checkered/between.cuh"

// How a grid is coarsened: coarse points along each axis, and the axes along which they are every second point, as bits.
#define COARSE int cx, int cy, int cz, int halved
#define CORNERS_OF In<real> weights, i64 count
#define GIVEN BOARD_OF_ARGUMENTS, cx, cy, cz, halved, weights, count
#define PASS(NAME) ENTRY __launch_bounds__(THREADS) NAME

constexpr int CORNERS = 4;

// x += P xc at the points of the first color.
template <bool MANY>
DEVICE void prolong(const Board& b, COARSE, CORNERS_OF, const real* xc, real* x, i64 coarse_size, i64 size, int width) {
    next_may_start();
    constexpr int ROWS = 2;   // of a thread, one behind the other along z: one has too few bytes on their way
    const int q = blockIdx.x * SLICE + lane_number(), j = blockIdx.y * LINES + threadIdx.x / SLICE, first = ROWS * blockIdx.z;
    real w[ROWS][CORNERS];
    int at[ROWS][CORNERS], own[ROWS];
    UNROLLED for (int row = 0; row < ROWS; ++row) {
        const int k = first + row;
        const bool there = q < b.half && j < b.ny && k < b.nz;
        const int i = 2 * q + (b.color(j, k) != 0);
        const Between between(i, j, k, halved);
        own[row] = there ? b.place(0, q, j, k) : -1;
        UNROLLED for (int n = 0; n < CORNERS; ++n) {
            const int I = between.coarse_x(n, i, cx, b.wraps, halved);
            const int J = between.coarse_y(n, j, cy, b.wraps, halved);
            const int K = between.coarse_z(n, k, cz, b.wraps, halved);
            const bool used = there && n < between.weights() && I >= 0 && J >= 0 && K >= 0;
            w[row][n] = used ? __ldcs(weights + n * count + own[row] - b.first[0]) : real(0);
            at[row][n] = used ? SLICE + I + cx * (J + cy * K) : 0;   // else a zero of the guard
        }
    }
    add_corners<MANY>(w, at, own, xc, x, coarse_size, size, width);
}

PASS(prolong_add)(BOARD, COARSE, CORNERS_OF, const real* xc, real* x) { prolong<false>(GIVEN, xc, x, 0, 0, 1); }

PASS(columns_prolong_add)(BOARD, COARSE, CORNERS_OF, const real* xc, real* x, i64 coarse_size, i64 size, int width) {
    prolong<true>(GIVEN, xc, x, coarse_size, size, width);
}

// The points around a coarse one of which those of the second color are skipped.
template <int X, int Y, int Z>
struct FirstColor : Around<X, Y, Z> {
    static DEVICE constexpr bool skipped(int n) {
        using A = Around<X, Y, Z>;
        return X && Y && Z && (A::dx(n) + A::dy(n) + A::dz(n)) & 1;
    }
};

// rc = R y for a y that is zero on the second color: from the points of the first one within a step of a coarse point along
// the axes X, Y, Z, in lattice order. The same weights, each of them once; half of y, rc and its place.
template <bool MANY, int X, int Y, int Z>
DEVICE void restrict_along(
    const Board& b, COARSE, CORNERS_OF, const int* position, const real* y, real* rc, i64 size,
    i64 coarse_size, int width
) {
    const int I = blockIdx.x * SLICE + lane_number(), J = blockIdx.y * LINES + threadIdx.x / SLICE, K = blockIdx.z;
    const bool there = I < cx && J < cy;
    using A = FirstColor<X, Y, Z>;
    real w[A::COUNT];
    int at[A::COUNT];
    UNROLLED for (int n = 0; n < A::COUNT; ++n) {
        const int dx = A::dx(n), dy = A::dy(n), dz = A::dz(n);
        w[n] = real(0);
        at[n] = 0;   // a zero of the guard
        if (A::skipped(n)) continue;
        const int i = stepped(I, dx, 2 * b.half, X, b.wraps & 1), j = stepped(J, dy, b.ny, Y, b.wraps & 2);
        const int k = stepped(K, dz, b.nz, Z, b.wraps & 4);
        if (!there || i < 0 || j < 0 || k < 0 || (b.color(j, k) ^ (i & 1)) != 0) continue;
        at[n] = b.place(0, i / 2, j, k);
        w[n] = __ldcs(weights + weight_from(dx, dy, dz) * count + at[n] - b.first[0]);
    }
    const int to = there ? __ldg(position + I + cx * (J + cy * K)) : 0;
    wait_for_last_launch();
    if (!there) return;
    for (int n = 0; n < (MANY ? width : 1); ++n, y += size, rc += coarse_size) {
        real values[A::COUNT];
        load<A>(values, at, y);
        rc[to] = sum_of(w, values);
    }
}

template <bool MANY>
DEVICE void restrict_to(
    const Board& b, COARSE, CORNERS_OF, const int* position, const real* y, real* rc, i64 size,
    i64 coarse_size, int width
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

PASS(restrict_full)(BOARD, COARSE, CORNERS_OF, In<int> position, const real* y, real* rc) {
    restrict_to<false>(GIVEN, position, y, rc, 0, 0, 1);
}

PASS(columns_restrict_full)(
    BOARD, COARSE, CORNERS_OF, In<int> position, const real* y, real* rc, i64 size, i64 coarse_size, int width
) {
    restrict_to<true>(GIVEN, position, y, rc, size, coarse_size, width);
}

// The weights, from those of all corners of all points with two layers around them: (8, nz + 4, ny + 4, nx + 4).
PASS(pick)(BOARD, int halved, In<double> p, Out<real> weights, i64 count) {
    constexpr int GHOST = 2;
    const Board b = BOARD_OF_ARGUMENTS;
    const int q = blockIdx.x * SLICE + lane_number(), j = blockIdx.y * LINES + threadIdx.x / SLICE, k = blockIdx.z;
    if (q >= b.half || j >= b.ny) return;
    const int i = 2 * q + (b.color(j, k) != 0);
    const Between between(i, j, k, halved);
    const i64 line = 2 * b.half + 2 * GHOST, plane = line * (b.ny + 2 * GHOST), all = plane * (b.nz + 2 * GHOST);
    const double* const from = p + i + GHOST + line * (j + GHOST) + plane * (k + GHOST);
    real* const to = weights + b.place(0, q, j, k) - b.first[0];
    for (int n = 0; n < between.weights(); ++n) to[n * count] = static_cast<real>(__ldg(from + between.of_all(n) * all));
}
