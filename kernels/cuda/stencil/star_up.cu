// The pass up: the correction of the coarse grid, and a sweep.

#include "slices.cuh"
#include "stencil/stencil.cuh"
#include "stencil/star.cuh"

// The interpolation of xc at a red point: of a coarse point itself, or of four around it. Beyond what there is are zeros.
DEVICE real interpolated(const Stencil& a, const Corners& c, const real* table, const real* xc, int i, int j, int k) {
    const auto value = [&](int I, int J, int K) {
        const int x = inside(I - c.lo[0], c.n[0], c.closed & 1), y = inside(J - c.lo[1], c.n[1], c.closed & 2);
        const int z = inside(K - c.lo[2], c.n[2], c.closed & 4);
        return x < 0 || y < 0 || z < 0 ? real(0) : __ldg(xc + (static_cast<i64>(z) * c.n[1] + y) * c.n[0] + x);
    };
    const int I = i >> 1, J = j >> 1, K = k >> 1;   // of an even point, the upper corner
    if (i & j & k & 1) return value(I, J, K);
    const int axis = i & 1 ? 0 : j & 1 ? 1 : 2;
    real corner[4];
    UNROLLED for (int n = 0; n < 4; ++n) {
        const int low = 1 - (n & 1), high = 1 - (n >> 1);   // how far below the upper corner
        corner[n] = axis == 0 ? value(I, J - low, K - high) : axis == 1 ? value(I - low, J, K - high)
                                                                         : value(I - low, J - high, K);
    }
    const bool plain = kind(i, a.nx, a.wraps & 1) == 1 && kind(j, a.ny, a.wraps & 2) == 1 &&
                       kind(k, a.nz, a.wraps & 4) == 1;
    if (plain) return c.inside[axis] * ((corner[0] + corner[1]) + (corner[2] + corner[3]));
    real sum = 0;
    UNROLLED for (int n = 0; n < 4; ++n) sum = fma(corner_weight(a, table, axis, n, i, j, k), corner[n], sum);
    return sum;
}

// A backward sweep from x = (D + L)^-1 r + P xc: 16 bytes a row, and 8 a coarse row.
template <bool BESIDE>
DEVICE void up(
    const Stencil& a, const Corners& c, const real* table, const Vector& vector, const real* xc, real* x, int planes
) {
    extern __shared__ __align__(16) char memory[];
    constexpr int PAIRS = LANES - 2, ROWS = LINES - 4, KEPT = 5;
    const Tile<BESIDE> tile(a, vector, reinterpret_cast<real*>(memory), 1, PAIRS, 2, ROWS);
    const Part<BESIDE>& r = tile.r;
    const int first = r.first(2) + blockIdx.z * planes, last = min(first + planes, r.last(2));
    const bool owns = tile.p >= 1 && tile.p <= PAIRS && 2 * tile.q < r.last(0) && tile.t0 >= 2 && tile.t0 < 2 + ROWS;
    Pair next[PER_THREAD];
    real red[PER_THREAD][KEPT];   // r at the red points of planes t - 2 .. t + 2
    const auto place = [&](int k) {
        const int z = inside(k, a.nz, a.wraps & 4);
        UNROLLED for (int l = 0; l < PER_THREAD; ++l) {
            const int which = tile.red(l, k);
            const real own = which ? next[l].at[1] : next[l].at[0];
            real start = 0;
            if (tile.holds(l, which, z)) {
                const int i = 2 * tile.q + which, j = tile.j0 + l;   // across an axis that wraps, outside
                const real inverse = inverse_at(a, tile.x + which, tile.y[l], z);
                start = fma(own, inverse, interpolated(a, c, table, xc, i, j, k));
            }
            tile.at(k, 0, tile.t0 + l, tile.p) = start;
            tile.at(k, 1, tile.t0 + l, tile.p) = which ? next[l].at[0] : next[l].at[1];
            UNROLLED for (int n = 0; n + 1 < KEPT; ++n) red[l][n] = red[l][n + 1];
            red[l][KEPT - 1] = own;
        }
    };
    for (int k = first - 2; k <= first; ++k) {
        tile.load_plane(k, next);
        place(k);
    }
    __syncthreads();
    for (int t = first - 1; t <= last + 1; ++t) {
        tile.load_plane(t + 2, next);
        if (t <= last) tile.sweep_black(t);
        const int k = t - 2;   // r of its red points is the second of those kept: the newest is of plane t + 1
        if (k >= first) {
            UNROLLED for (int l = 0; l < PER_THREAD; ++l) {
                if (!owns || tile.j0 + l >= r.last(1)) continue;
                const int which = tile.red(l, k), i = 2 * tile.q;
                const real black = tile.at(k, 1, tile.t0 + l, tile.p);
                real solved = 0;
                if (i + which < a.nx)
                    solved = (red[l][1] - tile.around(l, k, which, 1)) * inverse_at(a, i + which, tile.j0 + l, k);
                const int line = tile.j0 + l - r.first(1);
                real* to = x + (static_cast<i64>(k - r.first(2)) * r.size(1) + line) * r.size(0) + i - r.first(0);
                const Values<2> both = {which ? black : solved, which ? solved : black};
                if (r.size(0) % 2 == 0) {
                    *reinterpret_cast<Values<2>*>(to) = both;
                } else {
                    to[0] = both.at[0];
                    if (i + 1 < a.nx) to[1] = both.at[1];
                }
            }
        }
        place(t + 2);
        __syncthreads();
    }
}

ENTRY __launch_bounds__(THREADS, 2) star_up(
    const __grid_constant__ Stencil a, const __grid_constant__ Corners c, const real* table, const real* r,
    const real* xc, real* x, int planes
) {
    FOLLOW_LAST()
    up<false>(a, c, table, {{}, {}, {a.nx, a.ny, a.nz}, a.wraps, {}, 0, r, nullptr}, xc, x, planes);
}

// The same beside neighbors.
ENTRY __launch_bounds__(THREADS, 2) star_up_beside(
    const __grid_constant__ Stencil a, const __grid_constant__ Corners c, const real* table,
    const __grid_constant__ Vector r, const real* xc, real* x, int planes
) {
    FOLLOW_LAST()
    up<true>(a, c, table, r, xc, x, planes);
}
