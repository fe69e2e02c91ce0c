// The pass down: a sweep, the residual, and its restriction to the coarse grid.

#include "slices.cuh"
#include "stencil/stencil.cuh"
#include "stencil/star.cuh"

// One coarse point's share of plane k of the red residual; `upper`: it is the upper corner of points between along z.
template <bool BESIDE>
DEVICE real restricted(const Tile<BESIDE>& tile, const Corners& c, const real* table, bool plain, int k, int upper) {
    const Stencil& a = tile.a;
    const int t = tile.t0, p = tile.p, i = 2 * tile.q + 1, j = tile.j0 + 1;
    if (k & 1) {   // the coarse point's own plane
        const real own = tile.at(k, 0, t + 1, p), ll = tile.at(k, 0, t, p), rl = tile.at(k, 0, t, p + 1);
        const real lr = tile.at(k, 0, t + 2, p), rr = tile.at(k, 0, t + 2, p + 1);
        if (plain) return fma(c.inside[2], (ll + rl) + (lr + rr), own);
        real sum = fma(corner_weight(a, table, 2, 3, i - 1, j - 1, k), ll, own);
        sum = fma(corner_weight(a, table, 2, 2, i + 1, j - 1, k), rl, sum);
        sum = fma(corner_weight(a, table, 2, 1, i - 1, j + 1, k), lr, sum);
        return fma(corner_weight(a, table, 2, 0, i + 1, j + 1, k), rr, sum);
    }
    const real left = tile.at(k, 0, t + 1, p), right = tile.at(k, 0, t + 1, p + 1);
    const real front = tile.at(k, 0, t, p), back = tile.at(k, 0, t + 2, p);
    if (plain) return fma(c.inside[1], left + right, c.inside[0] * (front + back));
    const int z = inside(k, a.nz, a.wraps & 4);   // values outside are zero: any weight will do
    real sum = corner_weight(a, table, 1, 1 + 2 * upper, i - 1, j, z) * left;
    sum = fma(corner_weight(a, table, 1, 2 * upper, i + 1, j, z), right, sum);
    sum = fma(corner_weight(a, table, 0, 1 + 2 * upper, i, j - 1, z), front, sum);
    return fma(corner_weight(a, table, 0, 2 * upper, i, j + 1, z), back, sum);
}

// rc = R (r - A x) with x = (D + L)^-1 r: 8 bytes a row, and 8 + 4 a coarse row.
template <bool BESIDE>
DEVICE void down(
    const Stencil& a, const Corners& c, const real* table, const Vector& vector, const int* position, real* rc, int planes
) {
    extern __shared__ __align__(16) char memory[];
    constexpr int PAIRS = LANES - 3, ROWS = (LINES - 5) / 2 * 2;
    const Tile<BESIDE> tile(a, vector, reinterpret_cast<real*>(memory), 1, PAIRS, 2, ROWS);
    const Part<BESIDE>& r = tile.r;
    // The chunk's coarse points: where they begin, and where they end.
    const int I0 = r.first(0) / 2, J0 = r.first(1) / 2, K0 = r.first(2) / 2;
    const int I1 = r.last(0) / 2, J1 = r.last(1) / 2, K1 = r.last(2) / 2;
    const int first = 2 * K0 + blockIdx.z * planes, last = min(first + planes, 2 * K1);   // both even
    const int I = tile.q, J = tile.j0 / 2;
    const bool owns = tile.p >= 1 && tile.p <= PAIRS && tile.t0 >= 2 && tile.t0 < 2 + ROWS && I < I1 && J < J1;
    const bool plain_xy = ((a.wraps & 1) || (I >= 1 && 2 * I + 2 < a.nx - 2)) &&
                          ((a.wraps & 2) || (J >= 1 && 2 * J + 2 < a.ny - 2));
    Pair next[PER_THREAD];
    real open = 0;
    // Red values times the inverse diagonal, which is x there; black ones as they are.
    const auto place = [&](int k) {
        const int z = inside(k, a.nz, a.wraps & 4);
        UNROLLED for (int l = 0; l < PER_THREAD; ++l) {
            const int which = tile.red(l, k);
            const real value = which ? next[l].at[1] : next[l].at[0];
            const bool there = tile.holds(l, which, z);
            tile.at(k, 0, tile.t0 + l, tile.p) = there ? value * inverse_at(a, tile.x + which, tile.y[l], z) : real(0);
            tile.at(k, 1, tile.t0 + l, tile.p) = which ? next[l].at[0] : next[l].at[1];
        }
    };
    for (int k = first - 2; k <= first; ++k) {
        tile.load_plane(k, next);
        place(k);
    }
    __syncthreads();
    for (int t = first - 1; t <= last + 3; ++t) {
        const bool more = t + 2 <= last + 2;
        if (more) tile.load_plane(t + 2, next);
        if (t <= last + 1) tile.sweep_black(t);
        const int k = t - 2;
        if (k >= first && k <= last) {   // the residual at red points; at black ones it is zero
            const int z = inside(k, a.nz, a.wraps & 4);
            UNROLLED for (int l = 0; l < PER_THREAD; ++l) {
                const int which = tile.red(l, k);
                tile.at(k, 0, tile.t0 + l, tile.p) = tile.holds(l, which, z) ? -tile.around(l, k, which, 1) : real(0);
            }
        }
        const int done = t - 3;
        if (done >= first && owns) {
            const int K = done >> 1;   // of an odd plane the coarse plane itself, of an even one that above
            if (done & 1) {
                const bool plain = plain_xy && ((a.wraps & 4) || 2 * K + 1 < a.nz - 1);
                open += restricted(tile, c, table, plain, done, 0);
            } else {
                const bool plain = plain_xy && ((a.wraps & 4) || (done > 0 && done < a.nz - 2));
                const real above = restricted(tile, c, table, plain, done, 1);
                if (done > first) {
                    const real below = plain ? above : restricted(tile, c, table, plain, done, 0);
                    const i64 line = static_cast<i64>(K - 1 - K0) * (J1 - J0) + J - J0;
                    rc[__ldg(position + line * (I1 - I0) + I - I0)] = open + below;
                }
                open = above;
            }
        }
        if (more) place(t + 2);
        __syncthreads();
    }
}

ENTRY __launch_bounds__(THREADS, 2) star_down(
    const __grid_constant__ Stencil a, const __grid_constant__ Corners c, const real* table, const real* r,
    const int* position, real* rc, int planes
) {
    FOLLOW_LAST()
    down<false>(a, c, table, {{}, {}, {a.nx, a.ny, a.nz}, a.wraps, {}, 0, r, nullptr}, position, rc, planes);
}

// The same beside neighbors.
ENTRY __launch_bounds__(THREADS, 2) star_down_beside(
    const __grid_constant__ Stencil a, const __grid_constant__ Corners c, const real* table,
    const __grid_constant__ Vector r, const int* position, real* rc, int planes
) {
    FOLLOW_LAST()
    down<true>(a, c, table, r, position, rc, planes);
}
