// Restriction and prolongation between levels of eight colors (formats/checkered/parities.py). Where all axes are coarsened, a
// point of seven colors has 18 / 7 weights in the mean; where one is, 3/7 of them have two. R and P read each of them once, and
// no columns.

#include "slices.cuh"
#include "checkered/between.cuh"

constexpr int LINES = 8, THREADS = LINES * SLICE, CLASSES = 8;   // a block's threads: a warp along x, and lines

// Two levels of which one is the other's every second point along the axes `halved`, as bits: points along x, y and z, and where the
// colors of the parity classes begin in vectors; `start`: where the weights of the fine classes begin, in slices.
struct Levels {
    int n[3], c[3], halved, wraps, fine[CLASSES], coarse[CLASSES], start[CLASSES];
};

// Points along an axis of a parity.
DEVICE int of_parity(int n, int odd) { return (n + 1 - odd) / 2; }

// Where point (i, j, k) of a level lies in a vector.
DEVICE int place(const int (&n)[3], const int (&first)[CLASSES], int i, int j, int k) {
    const int number = (i & 1) + 2 * (j & 1) + 4 * (k & 1);
    return first[number] + i / 2 + of_parity(n[0], i & 1) * (j / 2 + of_parity(n[1], j & 1) * (k / 2));
}

// Fine points of the thread's class, one behind the other along z: all points along a class's axes have one parity. Blocks along x are
// those of each class from 1 on in turn; a division for each point would take longer than its bytes.
struct Fine : Between {
    int number, i, j, hx, hy, hz, first, rounded, place;   // place: of the first point of the first plane of the class, in it
    bool there;   // whether the line has the point

    DEVICE Fine(const Levels& l) : number(blockIdx.x % (CLASSES - 1) + 1) {
        const int odd_x = number & 1, odd_y = number >> 1 & 1, odd_z = number >> 2;
        hx = of_parity(l.n[0], odd_x), hy = of_parity(l.n[1], odd_y), hz = of_parity(l.n[2], odd_z);
        const int a = blockIdx.x / (CLASSES - 1) * SLICE + lane_number(), b = blockIdx.y * LINES + threadIdx.x / SLICE;
        there = a < hx && b < hy;
        i = 2 * a + odd_x;
        j = 2 * b + odd_y;
        first = l.fine[number];
        place = a + hx * b;
        rounded = (hx * hy * hz + SLICE - 1) / SLICE * SLICE;
        x = l.halved & 1 && !odd_x;
        y = l.halved & 2 && !odd_y;
        z = l.halved & 4 && !odd_z;
    }
    // Point number d along z: its index, its number in its class, and where its n-th weight is.
    DEVICE int k(int d) const { return 2 * d + (number >> 2); }
    DEVICE int q(int d) const { return place + hx * hy * d; }
    DEVICE i64 weight(const Levels& l, int n, int d) const {
        return static_cast<i64>(l.start[number]) * SLICE + static_cast<i64>(n) * rounded + q(d);
    }
};

#define GIVEN const __grid_constant__ Levels l, In<real> weights
#define PASS(NAME) ENTRY __launch_bounds__(THREADS) NAME

// x += P xc at the points of all colors but the last.
template <bool MANY, int CORNERS>
DEVICE void prolong(const Levels& l, In<real> weights, const real* xc, real* x, i64 coarse_size, i64 size, int width) {
    constexpr int ROWS = 2;   // of a thread: one has too few bytes on their way
    real w[ROWS][CORNERS];
    int at[ROWS][CORNERS], own[ROWS];
    const Fine f(l);
    const bool between = f.x || f.y || f.z;
    UNROLLED for (int row = 0; row < ROWS; ++row) {
        const int d = ROWS * blockIdx.z + row, k = f.k(d);
        const bool there = f.there && d < f.hz;
        own[row] = there ? f.first + f.q(d) : -1;
        UNROLLED for (int n = 0; n < CORNERS; ++n) {
            const int I = f.coarse_x(n, f.i, l.c[0], l.wraps, l.halved);
            const int J = f.coarse_y(n, f.j, l.c[1], l.wraps, l.halved);
            const int K = f.coarse_z(n, k, l.c[2], l.wraps, l.halved);
            const bool used = there && n < f.weights() && I >= 0 && J >= 0 && K >= 0;
            w[row][n] = !used ? real(0) : between ? __ldcs(weights + f.weight(l, n, d)) : real(1);
            at[row][n] = used ? place(l.c, l.coarse, I, J, K) : 0;   // else a zero of the guard
        }
    }
    add_corners<MANY>(w, at, own, xc, x, coarse_size, size, width);
}

template <bool MANY>
DEVICE void prolong_to(const Levels& l, In<real> weights, const real* xc, real* x, i64 coarse_size, i64 size, int width) {
    next_may_start();
    if (l.halved == 1 || l.halved == 2 || l.halved == 4) prolong<MANY, 2>(l, weights, xc, x, coarse_size, size, width);
    else prolong<MANY, 4>(l, weights, xc, x, coarse_size, size, width);
}

PASS(prolong_add)(GIVEN, const real* xc, real* x) { prolong_to<false>(l, weights, xc, x, 0, 0, 1); }

PASS(columns_prolong_add)(GIVEN, const real* xc, real* x, i64 coarse_size, i64 size, int width) {
    prolong_to<true>(l, weights, xc, x, coarse_size, size, width);
}

// The points around a coarse one of which those of the last color are skipped.
template <int X, int Y, int Z>
struct AllButLast : Around<X, Y, Z> {
    static DEVICE constexpr bool skipped(int n) {
        using A = Around<X, Y, Z>;
        return X && Y && Z && A::dx(n) && A::dy(n) && A::dz(n);
    }
};

// rc = R y for a y that is zero on the last color: from the points within a step of a coarse point along the axes X, Y, Z. Threads
// take coarse points one after the other along x where that is halved, else those of a parity; blocks along x are of both in turn then.
template <bool MANY, int X, int Y, int Z>
DEVICE void restrict_along(
    const Levels& l, In<real> weights, const real* y, real* rc, i64 size, i64 coarse_size, int width
) {
    next_may_start();
    const int odd = X ? 0 : blockIdx.x & 1, from = (X ? blockIdx.x : blockIdx.x / 2) * SLICE + lane_number();
    const int I = X ? from : 2 * from + odd, J = blockIdx.y * LINES + threadIdx.x / SLICE, K = blockIdx.z;
    const bool there = I < l.c[0] && J < l.c[1];
    using A = AllButLast<X, Y, Z>;
    real w[A::COUNT];
    int at[A::COUNT];
    UNROLLED for (int n = 0; n < A::COUNT; ++n) {
        const int dx = A::dx(n), dy = A::dy(n), dz = A::dz(n);
        w[n] = real(0);
        at[n] = 0;   // a zero of the guard
        if (A::skipped(n)) continue;
        const int i = stepped(I, dx, l.n[0], X, l.wraps & 1), j = stepped(J, dy, l.n[1], Y, l.wraps & 2);
        const int k = stepped(K, dz, l.n[2], Z, l.wraps & 4);
        const int number = (i & 1) + 2 * (j & 1) + 4 * (k & 1);
        if (!there || i < 0 || j < 0 || k < 0 || number == 0) continue;
        const int hx = of_parity(l.n[0], i & 1), hy = of_parity(l.n[1], j & 1), hz = of_parity(l.n[2], k & 1);
        const int q = i / 2 + hx * (j / 2 + hy * (k / 2));
        at[n] = l.fine[number] + q;
        const int which = weight_from(dx, dy, dz);
        const int rounded = (hx * hy * hz + SLICE - 1) / SLICE * SLICE;
        w[n] = dx || dy || dz
            ? __ldcs(weights + static_cast<i64>(l.start[number]) * SLICE + static_cast<i64>(which) * rounded + q)
            : real(1);
    }
    const int to = there ? place(l.c, l.coarse, I, J, K) : 0;
    wait_for_last_launch();
    if (!there) return;
    for (int n = 0; n < (MANY ? width : 1); ++n, y += size, rc += coarse_size) {
        real values[A::COUNT];
        load<A>(values, at, y);
        rc[to] = sum_of(w, values);
    }
}

// One kernel for each set of axes that are halved, as bits: each needs as many registers as it has points around.
#define RESTRICT(halved, X, Y, Z)                                                                                           \
    PASS(restrict_full_##halved)(GIVEN, const real* y, real* rc) { restrict_along<false, X, Y, Z>(l, weights, y, rc, 0, 0, 1); } \
    PASS(columns_restrict_full_##halved)(                                                                                    \
        GIVEN, const real* y, real* rc, i64 size, i64 coarse_size, int width                                                 \
    ) {                                                                                                                     \
        restrict_along<true, X, Y, Z>(l, weights, y, rc, size, coarse_size, width);                                         \
    }

RESTRICT(1, 1, 0, 0)
RESTRICT(2, 0, 1, 0)
RESTRICT(3, 1, 1, 0)
RESTRICT(4, 0, 0, 1)
RESTRICT(5, 1, 0, 1)
RESTRICT(6, 0, 1, 1)
RESTRICT(7, 1, 1, 1)

// The weights, from those of all corners of all points with two layers around them: (8, nz + 4, ny + 4, nx + 4).
PASS(pick)(const __grid_constant__ Levels l, const double* p, real* weights) {
    constexpr int GHOST = 2;
    const Fine f(l);
    const int d = blockIdx.z;
    wait_for_last_launch();
    if (!f.there || d >= f.hz || !(f.x || f.y || f.z)) return;
    const i64 line = l.n[0] + 2 * GHOST, plane = line * (l.n[1] + 2 * GHOST), all = plane * (l.n[2] + 2 * GHOST);
    const double* const from = p + f.i + GHOST + line * (f.j + GHOST) + plane * (f.k(d) + GHOST);
    for (int n = 0; n < f.weights(); ++n)
        weights[f.weight(l, n, d)] = static_cast<real>(from[f.of_all(n) * all]);
}
