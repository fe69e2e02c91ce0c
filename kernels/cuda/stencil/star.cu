// A level of a V-cycle with a 7-point constant stencil, in one pass down and one pass up.
//
// Half sweeps over two colors and the products between levels reach three points far, so that a tile of r with a frame holds
// all that they need: r is read once going down (8 bytes a row) and once going up, where x is written (16), and what the two
// pass between them is the coarse grid's alone. Nothing else is stored: x after the first sweep follows from r.
//
// Red points, of the color that is swept first going forward, have no red neighbors; the coarse points are among them. A
// block owns a tile of LANES pairs of points along x (one red, one black) and LINES lines along y, and walks along z with six
// planes in shared memory, red and black values apart. In one step it requests plane t + 2, sweeps the black points of plane
// t, then the red ones of plane t - 2, and finishes plane t - 3: steps depend on earlier ones only, so that one barrier a
// plane is enough.
//
// A chunk with neighbors reads their values in the layers around it from halo vectors, and works out there what they work out
// as well, bit for bit: so no sweep has to tell another chunk anything. Places are those of the whole grid.

#include "slices.cuh"
#include "stencil/stencil.cuh"

#define FOLLOW_LAST() next_may_start(); wait_for_last_launch();

constexpr int LANES = 32, LINES = 32, PER_THREAD = 2, PLANES = 6;
constexpr int THREADS = LANES * LINES / PER_THREAD;

// The interpolation at points between coarse ones along two axes, by their corners (0 or 1 along each of the two axes).
struct Corners {
    real inside[3];      // away from the faces: one weight for all corners, by the axis that is not between
    int lo[3], n[3];     // the first coarse point that there is a value of, and how many there are along x, y, z
    int closed;          // bits 0, 1, 2: they are all along an axis that wraps
};
constexpr int OF_CLASS = 12;   // weights of a class of `table`: three axes of four corners

struct Pair { real at[2]; };

// A vector on a grid: a chunk's values and those of its neighbors in the layers around it.
struct Vector {
    int lo[3], n[3];       // the chunk's first point and its points along x, y, z: `Around` in kernels/lattice/star.py
    int grid[3], wraps;    // all points
    int first[27];         // where the neighbors' values begin in the halo vector, by direction, x fastest
    long long apart;       // how far items of the halo vector are apart
    const real* values;
    const real* halo;
};
constexpr int LOW = 2, HIGH = 3;   // layers below and above

// The value at a point of the grid that is of the chunk or of the layers; what is beyond them is not needed.
__device__ __forceinline__ real value_at(const Vector& v, int i, int j, int k) {
    int at[3] = {i, j, k}, extent[3], direction = 0;
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
        const int points = v.n[axis], whole = v.grid[axis];
        at[axis] -= v.lo[axis];
        if ((v.wraps >> axis & 1) && points < whole)
            at[axis] += at[axis] < -LOW ? whole : at[axis] >= whole - LOW ? -whole : 0;
        if (at[axis] < -LOW || at[axis] >= points + HIGH) return 0;
        const int side = at[axis] < 0 ? 0 : at[axis] < points ? 1 : 2;
        direction = 3 * direction + side;
        extent[axis] = side == 0 ? LOW : side == 1 ? points : HIGH;
        at[axis] += side == 0 ? LOW : side == 1 ? 0 : -points;
    }
    const long long place = (static_cast<long long>(at[2]) * extent[1] + at[1]) * extent[0] + at[0];
    return direction == 13 ? v.values[place] : v.halo[v.apart * (v.first[direction] + place)];
}

// Two points that follow each other along x. Seldom: a call keeps its registers and its instructions out of the way.
__device__ __noinline__ Pair pair_beside(const Vector& v, int i, int j, int k) {
    return {value_at(v, i, j, k), i + 1 < v.grid[0] ? value_at(v, i + 1, j, k) : real(0)};
}

// A vector as kernels see it that run on a whole grid or BESIDE neighbors. Points are told by their places in the grid.
template <bool BESIDE> struct Part {
    const Vector& v;

    __device__ __forceinline__ int first(int axis) const { return BESIDE ? v.lo[axis] : 0; }
    __device__ __forceinline__ int size(int axis) const { return BESIDE ? v.n[axis] : v.grid[axis]; }
    __device__ __forceinline__ int last(int axis) const { return first(axis) + size(axis); }

    // Whether some of the places from `begin` to `end` are those of a neighbor.
    __device__ __forceinline__ bool leaves(int axis, int begin, int end) const {
        if (!BESIDE || size(axis) == v.grid[axis]) return false;
        const bool around = v.wraps >> axis & 1;
        return (begin < first(axis) && (around || first(axis) > 0)) ||
               (end > last(axis) && (around || last(axis) < v.grid[axis]));
    }

    // A point of the chunk.
    __device__ __forceinline__ const real* own(int i, int j, int k) const {
        return v.values + (static_cast<long long>(k - first(2)) * size(1) + j - first(1)) * size(0) + i - first(0);
    }
};

// The block's tile and this thread's pairs.
template <bool BESIDE> struct Tile {
    const Stencil& a;
    const Part<BESIDE> r;
    real* const ring;
    int p, t0;                 // of the tile: pair, first line
    int q, j0;                 // of the box
    int x;                     // first point of the pair, across a periodic axis if outside, or -1
    int y[PER_THREAD];         // its lines, or -1
    bool leaves;               // whether lines or pairs of the tile are a neighbor's

    __device__ __forceinline__ Tile(
        const Stencil& stencil, const Vector& vector, real* memory, int left, int pairs, int below, int lines
    )
        : a(stencil), r{vector}, ring(memory) {
        p = threadIdx.x % LANES;
        t0 = threadIdx.x / LANES * PER_THREAD;
        q = static_cast<int>(blockIdx.x) * pairs + p - left + r.first(0) / 2;
        j0 = static_cast<int>(blockIdx.y) * lines + t0 - below + r.first(1);
        leaves = r.leaves(0, 2 * (q - p), 2 * (q - p + LANES)) || r.leaves(1, j0 - t0, j0 - t0 + LINES);
        x = inside(2 * q, a.nx, a.wraps & 1);
#pragma unroll
        for (int l = 0; l < PER_THREAD; ++l) y[l] = inside(j0 + l, a.ny, a.wraps & 2);
    }

    // Values of a color (0 red, 1 black) of plane k in the tile's line t and pair p.
    __device__ __forceinline__ real& at(int k, int color, int t, int pair) const {
        const int slot = (k + PLANES) % PLANES;
        const int line = min(max(t, 0), LINES - 1), column = min(max(pair, 0), LANES - 1);   // beyond is never used
        return ring[((slot * 2 + color) * LINES + line) * LANES + column];
    }

    // Which point of a pair is red.
    __device__ __forceinline__ int red(int l, int k) const { return (j0 + l + k + a.odd) & 1; }

    // Whether a point of a pair is in the domain.
    __device__ __forceinline__ bool holds(int l, int which, int z) const {
        return x >= 0 && x + which < a.nx && y[l] >= 0 && z >= 0;
    }

    __device__ __forceinline__ Pair load(int l, int z) const {
        if (x < 0 || y[l] < 0 || z < 0) return {0, 0};
        if (BESIDE && (leaves || z < r.first(2) || z >= r.last(2))) return pair_beside(r.v, x, y[l], z);
        const real* from = r.own(x, y[l], z);
        if (r.size(0) % 2 == 0) {
            const Values<2> both = *reinterpret_cast<const Values<2>*>(from);
            return {both.at[0], both.at[1]};
        }
        return {from[0], x + 1 < a.nx ? from[1] : real(0)};
    }

    // The thread's pairs of a plane.
    __device__ __forceinline__ void load_plane(int k, Pair (&pairs)[PER_THREAD]) const {
        const int z = inside(k, a.nz, a.wraps & 4);
#pragma unroll
        for (int l = 0; l < PER_THREAD; ++l) pairs[l] = load(l, z);
    }

    // The sum of the entries off the diagonal times the values of the other color, around point `which` of a pair.
    __device__ __forceinline__ real around(int l, int k, int which, int other) const {
        const int t = t0 + l, left = which == 0 ? p - 1 : p;   // of the other color's pairs: one is this one
        real sum = a.weights[4] * at(k - 1, other, t, p);
        sum = fma(a.weights[10], at(k, other, t - 1, p), sum);
        sum = fma(a.weights[12], at(k, other, t, left), sum);
        sum = fma(a.weights[14], at(k, other, t, left + 1), sum);
        sum = fma(a.weights[16], at(k, other, t + 1, p), sum);
        return fma(a.weights[22], at(k + 1, other, t, p), sum);
    }

    // Solves for the black points of plane k from the red ones around them; zero outside.
    __device__ __forceinline__ void sweep_black(int k) const {
        const int z = inside(k, a.nz, a.wraps & 4);
#pragma unroll
        for (int l = 0; l < PER_THREAD; ++l) {
            const int which = 1 - red(l, k);
            real& own = at(k, 1, t0 + l, p);
            own = holds(l, which, z) ? (own - around(l, k, which, 0)) * inverse_at(a, x + which, y[l], z) : real(0);
        }
    }
};

// What a point is along an axis: at the lower face (0), inside (1), at the upper face (2), or even and before that (3).
__device__ __forceinline__ int kind(int i, int n, bool wraps) {
    return wraps ? 1 : i == 0 ? 0 : i == n - 1 ? 2 : i == n - 2 && n % 2 == 0 ? 3 : 1;
}

__device__ __forceinline__ real corner_weight(const Stencil& a, const real* table, int axis, int corner, int i, int j, int k) {
    const int number = kind(i, a.nx, a.wraps & 1) + 4 * kind(j, a.ny, a.wraps & 2) + 16 * kind(k, a.nz, a.wraps & 4);
    return __ldg(table + number * OF_CLASS + axis * 4 + corner);
}

// One coarse point's share of plane k of the red residual; `upper`: it is the upper corner of points between along z.
template <bool BESIDE>
__device__ __forceinline__ real restricted(
    const Tile<BESIDE>& tile, const Corners& c, const real* table, bool plain, int k, int upper
) {
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
__device__ __forceinline__ void down(
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
#pragma unroll
        for (int l = 0; l < PER_THREAD; ++l) {
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
#pragma unroll
            for (int l = 0; l < PER_THREAD; ++l) {
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
                    const long long line = static_cast<long long>(K - 1 - K0) * (J1 - J0) + J - J0;
                    rc[__ldg(position + line * (I1 - I0) + I - I0)] = open + below;
                }
                open = above;
            }
        }
        if (more) place(t + 2);
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) star_down(
    const __grid_constant__ Stencil a, const __grid_constant__ Corners c, const real* table, const real* r,
    const int* position, real* rc, int planes
) {
    FOLLOW_LAST()
    down<false>(a, c, table, {{}, {}, {a.nx, a.ny, a.nz}, a.wraps, {}, 0, r, nullptr}, position, rc, planes);
}

// The same beside neighbors.
extern "C" __global__ void __launch_bounds__(THREADS, 2) star_down_beside(
    const __grid_constant__ Stencil a, const __grid_constant__ Corners c, const real* table,
    const __grid_constant__ Vector r, const int* position, real* rc, int planes
) {
    FOLLOW_LAST()
    down<true>(a, c, table, r, position, rc, planes);
}

// The interpolation of xc at a red point: of a coarse point itself, or of four around it. Beyond what there is are zeros.
__device__ __forceinline__ real interpolated(
    const Stencil& a, const Corners& c, const real* table, const real* xc, int i, int j, int k
) {
    const auto value = [&](int I, int J, int K) {
        const int x = inside(I - c.lo[0], c.n[0], c.closed & 1), y = inside(J - c.lo[1], c.n[1], c.closed & 2);
        const int z = inside(K - c.lo[2], c.n[2], c.closed & 4);
        return x < 0 || y < 0 || z < 0 ? real(0) : __ldg(xc + (static_cast<long long>(z) * c.n[1] + y) * c.n[0] + x);
    };
    const int I = i >> 1, J = j >> 1, K = k >> 1;   // of an even point, the upper corner
    if (i & j & k & 1) return value(I, J, K);
    const int axis = i & 1 ? 0 : j & 1 ? 1 : 2;
    real corner[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        const int low = 1 - (n & 1), high = 1 - (n >> 1);   // how far below the upper corner
        corner[n] = axis == 0 ? value(I, J - low, K - high) : axis == 1 ? value(I - low, J, K - high)
                                                                         : value(I - low, J - high, K);
    }
    const bool plain = kind(i, a.nx, a.wraps & 1) == 1 && kind(j, a.ny, a.wraps & 2) == 1 &&
                       kind(k, a.nz, a.wraps & 4) == 1;
    if (plain) return c.inside[axis] * ((corner[0] + corner[1]) + (corner[2] + corner[3]));
    real sum = 0;
#pragma unroll
    for (int n = 0; n < 4; ++n) sum = fma(corner_weight(a, table, axis, n, i, j, k), corner[n], sum);
    return sum;
}

// A backward sweep from x = (D + L)^-1 r + P xc: 16 bytes a row, and 8 a coarse row.
template <bool BESIDE>
__device__ __forceinline__ void up(
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
#pragma unroll
        for (int l = 0; l < PER_THREAD; ++l) {
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
#pragma unroll
            for (int n = 0; n + 1 < KEPT; ++n) red[l][n] = red[l][n + 1];
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
#pragma unroll
            for (int l = 0; l < PER_THREAD; ++l) {
                if (!owns || tile.j0 + l >= r.last(1)) continue;
                const int which = tile.red(l, k), i = 2 * tile.q;
                const real black = tile.at(k, 1, tile.t0 + l, tile.p);
                real solved = 0;
                if (i + which < a.nx)
                    solved = (red[l][1] - tile.around(l, k, which, 1)) * inverse_at(a, i + which, tile.j0 + l, k);
                const int line = tile.j0 + l - r.first(1);
                real* to = x + (static_cast<long long>(k - r.first(2)) * r.size(1) + line) * r.size(0) + i - r.first(0);
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

extern "C" __global__ void __launch_bounds__(THREADS, 2) star_up(
    const __grid_constant__ Stencil a, const __grid_constant__ Corners c, const real* table, const real* r,
    const real* xc, real* x, int planes
) {
    FOLLOW_LAST()
    up<false>(a, c, table, {{}, {}, {a.nx, a.ny, a.nz}, a.wraps, {}, 0, r, nullptr}, xc, x, planes);
}

// The same beside neighbors.
extern "C" __global__ void __launch_bounds__(THREADS, 2) star_up_beside(
    const __grid_constant__ Stencil a, const __grid_constant__ Corners c, const real* table,
    const __grid_constant__ Vector r, const real* xc, real* x, int planes
) {
    FOLLOW_LAST()
    up<true>(a, c, table, r, xc, x, planes);
}
