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
// Needs slices.cuh and stencil/stencil.cuh.
#pragma once

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
    i64 apart;       // how far items of the halo vector are apart
    const real* values;
    const real* halo;
};
constexpr int LOW = 2, HIGH = 3;   // layers below and above

// The value at a point of the grid that is of the chunk or of the layers; what is beyond them is not needed.
DEVICE real value_at(const Vector& v, int i, int j, int k) {
    int at[3] = {i, j, k}, extent[3], direction = 0;
    UNROLLED for (int axis = 2; axis >= 0; --axis) {
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
    const i64 place = (static_cast<i64>(at[2]) * extent[1] + at[1]) * extent[0] + at[0];
    return direction == 13 ? v.values[place] : v.halo[v.apart * (v.first[direction] + place)];
}

// Two points that follow each other along x. Seldom: a call keeps its registers and its instructions out of the way.
__device__ __noinline__ Pair pair_beside(const Vector& v, int i, int j, int k) {
    return {value_at(v, i, j, k), i + 1 < v.grid[0] ? value_at(v, i + 1, j, k) : real(0)};
}

// A vector as kernels see it that run on a whole grid or BESIDE neighbors. Points are told by their places in the grid.
template <bool BESIDE> struct Part {
    const Vector& v;

    DEVICE int first(int axis) const { return BESIDE ? v.lo[axis] : 0; }
    DEVICE int size(int axis) const { return BESIDE ? v.n[axis] : v.grid[axis]; }
    DEVICE int last(int axis) const { return first(axis) + size(axis); }

    // Whether some of the places from `begin` to `end` are those of a neighbor.
    DEVICE bool leaves(int axis, int begin, int end) const {
        if (!BESIDE || size(axis) == v.grid[axis]) return false;
        const bool around = v.wraps >> axis & 1;
        return (begin < first(axis) && (around || first(axis) > 0)) ||
               (end > last(axis) && (around || last(axis) < v.grid[axis]));
    }

    // A point of the chunk.
    DEVICE const real* own(int i, int j, int k) const {
        return v.values + (static_cast<i64>(k - first(2)) * size(1) + j - first(1)) * size(0) + i - first(0);
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

    DEVICE Tile(const Stencil& stencil, const Vector& vector, real* memory, int left, int pairs, int below, int lines)
        : a(stencil), r{vector}, ring(memory) {
        p = threadIdx.x % LANES;
        t0 = threadIdx.x / LANES * PER_THREAD;
        q = static_cast<int>(blockIdx.x) * pairs + p - left + r.first(0) / 2;
        j0 = static_cast<int>(blockIdx.y) * lines + t0 - below + r.first(1);
        leaves = r.leaves(0, 2 * (q - p), 2 * (q - p + LANES)) || r.leaves(1, j0 - t0, j0 - t0 + LINES);
        x = inside(2 * q, a.nx, a.wraps & 1);
        UNROLLED for (int l = 0; l < PER_THREAD; ++l) y[l] = inside(j0 + l, a.ny, a.wraps & 2);
    }

    // Values of a color (0 red, 1 black) of plane k in the tile's line t and pair p.
    DEVICE real& at(int k, int color, int t, int pair) const {
        const int slot = (k + PLANES) % PLANES;
        const int line = min(max(t, 0), LINES - 1), column = min(max(pair, 0), LANES - 1);   // beyond is never used
        return ring[((slot * 2 + color) * LINES + line) * LANES + column];
    }

    // Which point of a pair is red.
    DEVICE int red(int l, int k) const { return (j0 + l + k + a.odd) & 1; }

    // Whether a point of a pair is in the domain.
    DEVICE bool holds(int l, int which, int z) const { return x >= 0 && x + which < a.nx && y[l] >= 0 && z >= 0; }

    DEVICE Pair load(int l, int z) const {
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
    DEVICE void load_plane(int k, Pair (&pairs)[PER_THREAD]) const {
        const int z = inside(k, a.nz, a.wraps & 4);
        UNROLLED for (int l = 0; l < PER_THREAD; ++l) pairs[l] = load(l, z);
    }

    // The sum of the entries off the diagonal times the values of the other color, around point `which` of a pair.
    DEVICE real around(int l, int k, int which, int other) const {
        const int t = t0 + l, left = which == 0 ? p - 1 : p;   // of the other color's pairs: one is this one
        real sum = a.weights[4] * at(k - 1, other, t, p);
        sum = fma(a.weights[10], at(k, other, t - 1, p), sum);
        sum = fma(a.weights[12], at(k, other, t, left), sum);
        sum = fma(a.weights[14], at(k, other, t, left + 1), sum);
        sum = fma(a.weights[16], at(k, other, t + 1, p), sum);
        return fma(a.weights[22], at(k + 1, other, t, p), sum);
    }

    // Solves for the black points of plane k from the red ones around them; zero outside.
    DEVICE void sweep_black(int k) const {
        const int z = inside(k, a.nz, a.wraps & 4);
        UNROLLED for (int l = 0; l < PER_THREAD; ++l) {
            const int which = 1 - red(l, k);
            real& own = at(k, 1, t0 + l, p);
            own = holds(l, which, z) ? (own - around(l, k, which, 0)) * inverse_at(a, x + which, y[l], z) : real(0);
        }
    }
};

// What a point is along an axis: at the lower face (0), inside (1), at the upper face (2), or even and before that (3).
DEVICE int kind(int i, int n, bool wraps) {
    return wraps ? 1 : i == 0 ? 0 : i == n - 1 ? 2 : i == n - 2 && n % 2 == 0 ? 3 : 1;
}

DEVICE real corner_weight(const Stencil& a, const real* table, int axis, int corner, int i, int j, int k) {
    const int number = kind(i, a.nx, a.wraps & 1) + 4 * kind(j, a.ny, a.wraps & 2) + 16 * kind(k, a.nz, a.wraps & 4);
    return __ldg(table + number * OF_CLASS + axis * 4 + corner);
}
