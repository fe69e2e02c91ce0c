// Interpolation and Galerkin operators where every axis is halved and no seam lies between two coarse points: everything that
// galerkin.cu asks tables for is known at compile time. Along each axis a cell is three places: a coarse point, the point between,
// a coarse point. Rows have 7 or 27 entries, in the order of dsolver.kernels.lattice.coarsening.COARSE_OFFSETS.
//
// Sums run in the order of the NumPy text, one thread a coarse row or cell. What the text passes over because it is zero is added
// here: that changes no bit.

#include "lattice/lattice.cuh"

constexpr int WIDE = 32, HIGH = 2, DEEP = 2, THREADS = WIDE * HIGH * DEEP;  // of a block along x, y, z
constexpr int CORNERS = 8;

__device__ constexpr int absolute(int value) { return value < 0 ? -value : value; }

// Entries that rows have, a bit for each of 27: of stars, of all, and of stars that were made coarser along one axis.
constexpr unsigned STAR = 0x417410u, BOX = 0x7ffffffu, SLAB_X = 0xe3fe38u, SLAB_Y = 0x24bfe92u, SLAB_Z = 0x2e974bau;

// How many of them there are.
__device__ constexpr int count(unsigned bits) {
    bits -= bits >> 1 & 0x55555555u;
    bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
    return (bits + (bits >> 4) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

// Whether rows have entry o, and which one it is.
template <unsigned KIND>
__device__ constexpr bool has(int o) { return KIND >> o & 1u; }
template <unsigned KIND>
__device__ constexpr int slot_of(int o) { return count(KIND & ((1u << o) - 1u)); }

// The first of a block's X x Y x Z items of nx x ny x ... ones. A grid's blocks are counted along x alone, where there may be more of them.
template <int X, int Y, int Z>
__device__ __forceinline__ int3 tile_of(int nx, int ny) {
    const unsigned along = (nx + X - 1) / X, lines = (ny + Y - 1) / Y, block = blockIdx.x;
    return make_int3(block % along * X, block / along % lines * Y, block / along / lines * Z);
}

// A chunk alone in a grid without periodic axes may come without ghost layers: bare is how many there would be then, else 0. Points
// of these layers are not read.
#define HALVED int nx, int ny, int nz, const double* __restrict__ weights, long long weight_stride, int weight_step, int bare
#define FORWARDED nx, ny, nz, weights, weight_stride, weight_step, bare

// -- Interpolation ----------------------------------------------------------------------------------------------------------
// A cell is three places along each axis: a coarse point, the point between, a coarse point. A block has CELLS_X x CELLS_Y x CELLS_Z
// cells. It solves all points of their edges, then of their faces, then those in the middle of cells, and keeps p in shared memory:
// 8.6 rows a cell are read and solved where 7 are its own.

constexpr int CELLS_X = 8, CELLS_Y = 8, CELLS_Z = 4, CELLS = CELLS_X * CELLS_Y * CELLS_Z;

// Points of a kind, whose flags tell along which axes they lie between coarse points: how many along an axis, in all, and where
// their p begins in shared memory, corner after corner.
__device__ constexpr int along_x(int x) { return CELLS_X + 1 - x; }
__device__ constexpr int along_y(int y) { return CELLS_Y + 1 - y; }
__device__ constexpr int count_of(int x, int y, int z) { return along_x(x) * along_y(y) * (CELLS_Z + 1 - z); }
constexpr int EDGES_Y = 2 * count_of(1, 0, 0), EDGES_Z = EDGES_Y + 2 * count_of(0, 1, 0), FACES_XY = EDGES_Z + 2 * count_of(0, 0, 1),
              FACES_XZ = FACES_XY + 4 * count_of(1, 1, 0), FACES_YZ = FACES_XZ + 4 * count_of(1, 0, 1),
              KEPT = FACES_YZ + 4 * count_of(0, 1, 1);
__device__ constexpr int begin_of(int x, int y, int z) {
    return x ? (y ? FACES_XY : z ? FACES_XZ : 0) : y ? (z ? FACES_YZ : EDGES_Y) : EDGES_Z;
}
// Where p of a point is kept. The corners that count are those along the kind's axes.
__device__ __forceinline__ int kept_at(int x, int y, int z, int i, int j, int k, int corner) {
    const int number = (x ? corner & 1 : 0) + (y ? (corner >> 1 & 1) << x : 0) + (z ? corner >> 2 << (x + y) : 0);
    return begin_of(x, y, z) + number * count_of(x, y, z) + i + along_x(x) * (j + along_y(y) * k);
}

constexpr int INSIDE = 4, AMID = 8;   // with LOWER and UPPER: in the array and the domain; off the array's frame

// A block's cells. spots: the flags of their places along x, then y, then z. at: of the first place.
struct Cells {
    const double* weights;
    long long weight_stride;
    int weight_step, bare;
    int3 at;
    long long nx, plane;     // of the weights
    const int* spots;
    double* kept;
};
constexpr int SPOTS_Y = 2 * CELLS_X + 1, SPOTS_Z = SPOTS_Y + 2 * CELLS_Y + 1, SPOTS = SPOTS_Z + 2 * CELLS_Z + 1;

// value = p of point (i, j, k) of a kind.
template <unsigned KIND, int X, int Y, int Z>
__device__ __forceinline__ void solve(const Cells& cells, int i, int j, int k, double (&value)[CORNERS]) {
    const int x = 2 * i + X, y = 2 * j + Y, z = 2 * k + Z;
    const int along = cells.spots[x], across = cells.spots[SPOTS_Y + y], up = cells.spots[SPOTS_Z + z];
#pragma unroll
    for (int corner = 0; corner < CORNERS; ++corner) value[corner] = 0.0;
    if (!(along & across & up & INSIDE) || (X && !(along & AMID)) || (Y && !(across & AMID)) || (Z && !(up & AMID))) return;
    const double* const row = cells.weights
        + cells.weight_step * (cells.at.x + x - cells.bare + cells.nx * (cells.at.y + y - cells.bare) + cells.plane * (cells.at.z + z - cells.bare));
    double collapsed[POINTS], size = 0.0;
#pragma unroll
    for (int o = 0; o < POINTS; ++o) collapsed[o] = 0.0;
#pragma unroll
    for (int o = 0; o < POINTS; ++o) {
        if (!has<KIND>(o)) continue;
        const int dx = step_of(o, 1), dy = step_of(o, 3), dz = step_of(o, 9);
        const bool left = leaves(dx, along) || leaves(dy, across) || leaves(dz, up);
        const double read = __ldg(row + slot_of<KIND>(o) * cells.weight_stride), weight = left ? 0.0 : read;
        collapsed[CENTER + X * dx + 3 * Y * dy + 9 * Z * dz] += weight;
        size += fabs(weight);
    }
    const double center = collapsed[CENTER];
    if (!(center > NEGLIGIBLE * size)) return;
#pragma unroll
    for (int o = 0; o < POINTS; ++o) {
        const int dx = step_of(o, 1), dy = step_of(o, 3), dz = step_of(o, 9);
        if (o == CENTER || (!X && dx) || (!Y && dy) || (!Z && dz) || !has<KIND>(o)) continue;
        const double part = -collapsed[o] / center;
        // The neighbor's kind; only the corners along its axes are free.
        const int in_x = X && dx == 0, in_y = Y && dy == 0, in_z = Z && dz == 0, free = in_x + 2 * in_y + 4 * in_z;
#pragma unroll
        for (int corner = 0; corner < CORNERS; ++corner) {
            if (corner & ~free) continue;
            const int target = corner + (dx > 0 ? 1 : 0) + (dy > 0 ? 2 : 0) + (dz > 0 ? 4 : 0);
            const int from = kept_at(in_x, in_y, in_z, i + (dx > 0), j + (dy > 0), k + (dz > 0), corner);
            value[target] += part * (free ? cells.kept[from] : 1.0);
        }
    }
}

// p of 32 points of a kind.
template <unsigned KIND, int X, int Y, int Z>
__device__ __forceinline__ void solve_points(const Cells& cells, int first) {
    const int n = first + threadIdx.x % 32;
    if (n >= count_of(X, Y, Z)) return;
    const int i = n % along_x(X), j = n / along_x(X) % along_y(Y), k = n / (along_x(X) * along_y(Y));
    double value[CORNERS];
    solve<KIND, X, Y, Z>(cells, i, j, k, value);
#pragma unroll
    for (int corner = 0; corner < CORNERS; ++corner)
        if (!(corner & ~(X + 2 * Y + 4 * Z))) cells.kept[kept_at(X, Y, Z, i, j, k, corner)] = value[corner];
}

// p of one kind, then another, then a third: the block's warps take 32 points at a time, all of them of a kind.
template <unsigned KIND, int X, int Y, int Z, int U, int V, int W, int R, int S, int T>
__device__ __forceinline__ void solve_kinds(const Cells& cells) {
    constexpr int ONE = (count_of(X, Y, Z) + 31) / 32, TWO = ONE + (count_of(U, V, W) + 31) / 32, ALL = TWO + (count_of(R, S, T) + 31) / 32;
    for (int n = threadIdx.x / 32; n < ALL; n += CELLS / 32) {
        if (n < ONE) solve_points<KIND, X, Y, Z>(cells, 32 * n);
        else if (n < TWO) solve_points<KIND, U, V, W>(cells, 32 * (n - ONE));
        else solve_points<KIND, R, S, T>(cells, 32 * (n - TWO));
    }
    __syncthreads();
}

// p of two neighbors along x: a point between coarse ones there, and a coarse one. They lie between coarse ones along y and z, or not.
template <int Y, int Z>
__device__ __forceinline__ void put(
    const Cells& cells, const double (&middle)[CORNERS], int i, int j, int k, bool first, bool second, bool both, bool inside,
    long long points, double* to
) {
#pragma unroll
    for (int corner = 0; corner < CORNERS; ++corner) {
        const bool there = !(corner & ~(1 + 2 * Y + 4 * Z));   // whether the first point has it
        const double one = !there ? 0.0 : Y && Z ? middle[corner] : cells.kept[kept_at(1, Y, Z, i, j + !Y, k + !Z, corner)];
        const double other = !there || corner & 1 ? 0.0
            : Y || Z ? cells.kept[kept_at(0, Y, Z, i + 1, j + !Y, k + !Z, corner)] : inside ? 1.0 : 0.0;
        double* const at = to + corner * points;
        if (both) {
            *reinterpret_cast<double2*>(at) = make_double2(one, other);
        } else {
            if (first) at[0] = one;
            if (second) at[1] = other;
        }
    }
}

// p of all points. A cell's thread writes its middle and upper places. s: middle of cell 0.
template <unsigned KIND>
__device__ __forceinline__ void interpolate(HALVED, const Place* __restrict__ places, int sx, int sy, int sz, double* __restrict__ p) {
    __shared__ double kept[KEPT];
    __shared__ int spots[SPOTS];
    const int3 tile = tile_of<CELLS_X, CELLS_Y, CELLS_Z>((nx - sx + 1) / 2, (ny - sy + 1) / 2);
    const int3 at = make_int3(sx - 1 + 2 * tile.x, sy - 1 + 2 * tile.y, sz - 1 + 2 * tile.z);
    const long long plane = static_cast<long long>(nx) * ny, points = plane * nz;
    for (int n = threadIdx.x; n < SPOTS; n += CELLS) {
        const int axis = n < SPOTS_Y ? 0 : n < SPOTS_Z ? 1 : 2, size = axis == 0 ? nx : axis == 1 ? ny : nz;
        const int place = axis == 0 ? at.x + n : axis == 1 ? at.y + n - SPOTS_Y : at.z + n - SPOTS_Z;
        const Place* const of = places + (axis == 0 ? 0 : axis == 1 ? nx : nx + ny);
        const bool here = place >= 0 && place < size;
        const Place there = of[here ? place : 0];
        spots[n] = here && there.kind != OUTSIDE ? there.open | INSIDE | (place > 0 && place < size - 1 ? AMID : 0) : 0;
    }
    __syncthreads();
    const long long line = nx - 2 * bare;
    const Cells cells = {weights, weight_stride, weight_step, bare, at, line, line * (ny - 2 * bare), spots, kept};
    solve_kinds<KIND, 1, 0, 0, 0, 1, 0, 0, 0, 1>(cells);
    solve_kinds<KIND, 1, 1, 0, 1, 0, 1, 0, 1, 1>(cells);
    const int i = threadIdx.x % CELLS_X, j = threadIdx.x / CELLS_X % CELLS_Y, k = threadIdx.x / (CELLS_X * CELLS_Y);
    const int x = at.x + 2 * i + 1, y = at.y + 2 * j + 1, z = at.z + 2 * k + 1;
    if (x >= nx || y >= ny || z >= nz) return;
    double middle[CORNERS];
    solve<KIND, 1, 1, 1>(cells, i, j, k, middle);
    const bool first = x >= 0, second = x + 1 < nx;
    const bool both = first && second && !((x | nx) & 1);   // then a pair begins at a multiple of 16 bytes in every line
    const bool inside = spots[2 * i + 2] & spots[SPOTS_Y + 2 * j + 2] & spots[SPOTS_Z + 2 * k + 2] & INSIDE;
    const bool y0 = y >= 0, y1 = y + 1 < ny, z0 = z >= 0, z1 = z + 1 < nz;
    double* const to = p + x + static_cast<long long>(nx) * y + plane * z;
    if (y0 && z0) put<1, 1>(cells, middle, i, j, k, first, second, both, inside, points, to);
    if (y1 && z0) put<0, 1>(cells, middle, i, j, k, first, second, both, inside, points, to + nx);
    if (y0 && z1) put<1, 0>(cells, middle, i, j, k, first, second, both, inside, points, to + plane);
    if (y1 && z1) put<0, 0>(cells, middle, i, j, k, first, second, both, inside, points, to + nx + plane);
}

#define INTERPOLATE(name, KIND)                                                                                             \
    extern "C" __global__ void __launch_bounds__(CELLS) interpolate_##name(                                                 \
        HALVED, const Place* __restrict__ places, int sx, int sy, int sz, double* __restrict__ p                            \
    ) {                                                                                                                     \
        interpolate<KIND>(FORWARDED, places, sx, sy, sz, p);                                                                \
    }

INTERPOLATE(star, STAR)
INTERPOLATE(box, BOX)
INTERPOLATE(slab_x, SLAB_X)
INTERPOLATE(slab_y, SLAB_Y)
INTERPOLATE(slab_z, SLAB_Z)

// -- Galerkin, rows of 7 entries that are stored ------------------------------------------------------------------------
// One thread a coarse row, everything unrolled: 725 products, 27 sums in registers.

struct Strides {
    long long y, z, corner, weight, line, plane;   // of p, and of the weights
};

// What fine point S of a coarse row's 27 adds to its sums. weights, p: at the coarse point. ends: the axes, as bits, along which no
// weights are stored of the next point.
template <int S>
__device__ __forceinline__ void add_from(
    const Strides& stride, const double* weights, const double* p, int ends, double (&sum)[POINTS], double& scale
) {
    if constexpr (S < POINTS) {
        constexpr int SX = step_of(S, 1), SY = step_of(S, 3), SZ = step_of(S, 9);
        const long long line = SY * stride.y + SZ * stride.z, of_weights = SY * stride.line + SZ * stride.plane;
        const bool stored = !(ends & ((SX > 0) + 2 * (SY > 0) + 4 * (SZ > 0)));
        const double restricted = __ldg(p + ((SX < 0) + 2 * (SY < 0) + 4 * (SZ < 0)) * stride.corner + line + SX);
#pragma unroll
        for (int o = 0; o < POINTS; ++o) {
            if (!has<STAR>(o)) continue;
            const int tx = SX + step_of(o, 1), ty = SY + step_of(o, 3), tz = SZ + step_of(o, 9);
            const double weight = restricted * (stored ? __ldg(weights + slot_of<STAR>(o) * stride.weight + of_weights + SX) : 0.0);
            scale += fabs(weight);
            const double* const from = p + (ty * stride.y + tz * stride.z) + tx;
            const int both = (tx & 1) + 2 * (ty & 1) + 4 * (tz & 1);  // axes along which it lies between two coarse points
#pragma unroll
            for (int corner = 0; corner < CORNERS; ++corner) {
                if (corner & ~both) continue;
                // Coarse points from this one on: half the step, downwards.
                const int cx = (tx + 2) / 2 - 1 + (corner & 1), cy = (ty + 2) / 2 - 1 + (corner >> 1 & 1), cz = (tz + 2) / 2 - 1 + (corner >> 2);
                sum[CENTER + cx + 3 * cy + 9 * cz] += weight * __ldg(from + corner * stride.corner);
            }
        }
        add_from<S + 1>(stride, weights, p, ends, sum, scale);
    }
}

// out (27, coarse rows): the weights of P^T A P. f: place of the first coarse point; c: how many there are.
extern "C" __global__ void __launch_bounds__(THREADS) galerkin_star(
    HALVED, int fx, int fy, int fz, int cx, int cy, int cz, const double* __restrict__ p, double* __restrict__ out
) {
    const int3 at = tile_of<WIDE, HIGH, DEEP>(cx, cy);
    const int ix = at.x + threadIdx.x % WIDE, iy = at.y + threadIdx.x / WIDE % HIGH, iz = at.z + threadIdx.x / (WIDE * HIGH);
    if (ix >= cx || iy >= cy || iz >= cz) return;
    const long long plane = static_cast<long long>(nx) * ny, points = plane * nz;
    const int x = fx + 2 * ix, y = fy + 2 * iy, z = fz + 2 * iz;
    const long long here = x + static_cast<long long>(nx) * y + plane * z, width = nx - 2 * bare, layer = width * (ny - 2 * bare);
    const Strides stride = {nx, plane, points, weight_stride, width, layer};
    const int ends = (x + 1 >= nx - bare) + 2 * (y + 1 >= ny - bare) + 4 * (z + 1 >= nz - bare);
    double sum[POINTS], scale = 0.0;
#pragma unroll
    for (int j = 0; j < POINTS; ++j) sum[j] = 0.0;
    add_from<0>(stride, weights + (x - bare + width * (y - bare) + layer * (z - bare)), p + here, ends, sum, scale);
    if (sum[CENTER] <= NEGLIGIBLE * scale) sum[CENTER] = scale > 0.0 ? scale : 1.0;
    const long long rows = static_cast<long long>(cx) * cy * cz;
    double* const to = out + ix + static_cast<long long>(cx) * (iy + static_cast<long long>(cy) * iz);
#pragma unroll
    for (int j = 0; j < POINTS; ++j) to[j * rows] = sum[j];
}

// -- Galerkin, rows of 27 entries, or one row for all points ------------------------------------------------------------
// A block has ROWS_X x ROWS_Y coarse rows and a warp for each of the nine steps along y and z: its threads have a row's three sums with
// that step, and visit no product that leads elsewhere. p of all that they reach stands in shared memory, and the rows of A of
// one fine line after the other.

constexpr int ROWS_X = 16, ROWS_Y = 2, WARP = 32, PARTS = 9;
// Of a line of p: coarse points, and points between with their corner on the left of a coarse point, and on its right.
constexpr int COARSE_P = ROWS_X + 2, BETWEEN_P = ROWS_X + 1, RIGHT_P = COARSE_P, LEFT_P = RIGHT_P + BETWEEN_P, LINE_P = LEFT_P + BETWEEN_P;
// Lines along y and z, each once for every corner that its points have there: 0 .. 2 are those of coarse point -1, 3 .. 5 of 0, ...
constexpr int LINES_Y = 3 * ROWS_Y + 4, LINES_Z = 7;
constexpr int FINE = 2 * ROWS_X + 1, EVEN_FINE = ROWS_X + 1;  // fine points of a line, and those on the sides of coarse ones

// The lattice line and the corner of line m of p, from the first coarse point on.
__device__ __forceinline__ int place_of(int m) { return m % 3 ? 2 * (m / 3) - 1 : 2 * (m / 3) - 2; }
__device__ __forceinline__ int corner_of(int m) { return m % 3 == 2; }

template <unsigned KIND>
__device__ __forceinline__ void galerkin_tile(
    HALVED, int fx, int fy, int fz, int cx, int cy, int cz, const double* __restrict__ p, double* __restrict__ out
) {
    constexpr int ENTRIES = count(KIND), EACH = (ROWS_Y * ENTRIES + PARTS - 1) / PARTS;  // lines of weights that a warp brings
    __shared__ double near[LINES_Z * LINES_Y * LINE_P], row[ROWS_Y * ENTRIES * FINE];
    const int3 at = tile_of<ROWS_X, ROWS_Y, 1>(cx, cy);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int dy = warp % 3 - 1, dz = warp / 3 - 1, i = lane % ROWS_X, j = lane / ROWS_X;
    const bool middle = dy == 0 && dz == 0;
    const long long plane = static_cast<long long>(nx) * ny, points = plane * nz;
    const int x0 = fx + 2 * at.x, y0 = fy + 2 * at.y, z0 = fz + 2 * at.z;  // place of the tile's first coarse point

    for (int n = threadIdx.x; n < LINES_Z * LINES_Y * LINE_P; n += PARTS * WARP) {
        const int line = n / LINE_P, r = n % LINE_P, my = line % LINES_Y, mz = line / LINES_Y;
        const bool left = r >= LEFT_P;
        const int x = x0 - 2 + (left ? 2 * (r - LEFT_P) + 1 : r), y = y0 + place_of(my), z = z0 + place_of(mz);
        const int corner = left + 2 * corner_of(my) + 4 * corner_of(mz);
        const int to = left ? r : r % 2 * RIGHT_P + r / 2;
        near[line * LINE_P + to] = x < nx && y < ny ? __ldg(p + corner * points + x + nx * static_cast<long long>(y) + plane * z) : 0.0;
    }

    // The rows of A of fine line `step` of each coarse line; on their way while those of the last step are used.
    double ahead[EACH + 1];
    const auto bring = [&](int step, int n, int r) {
        const int x = x0 - 1 + r, y = y0 + 2 * (n / ENTRIES) + step % 3 - 1, z = z0 + step / 3 - 1;
        const bool there = n < ROWS_Y * ENTRIES && x < nx - bare && y < ny - bare && z < nz - bare;
        const long long width = nx - 2 * bare, point = x - bare + width * (y - bare + static_cast<long long>(ny - 2 * bare) * (z - bare));
        return there ? __ldg(weights + n % ENTRIES * weight_stride + weight_step * point) : 0.0;
    };
    const auto bring_all = [&](int step) {
#pragma unroll
        for (int l = 0; l < EACH; ++l) ahead[l] = bring(step, warp * EACH + l, lane);
        ahead[EACH] = lane < EACH ? bring(step, warp * EACH + lane, WARP) : 0.0;
    };
    const auto keep = [&](int n, int r, double value) {
        if (n < ROWS_Y * ENTRIES) row[n * FINE + r % 2 * EVEN_FINE + r / 2] = value;
    };

    double sum[3] = {0.0, 0.0, 0.0}, scale = 0.0;
    bring_all(0);
    for (int step = 0; step < PARTS; ++step) {
        const int sy = step % 3 - 1, sz = step / 3 - 1;
        __syncthreads();  // the last step's rows have been read
#pragma unroll
        for (int l = 0; l < EACH; ++l) keep(warp * EACH + l, lane, ahead[l]);
        if (lane < EACH) keep(warp * EACH + lane, WARP, ahead[EACH]);
        __syncthreads();
        if (step + 1 < PARTS) bring_all(step + 1);
        if (sy * dy < 0 || sz * dz < 0) continue;  // leads nowhere
        const double* const own = near + ((sz + 3) * LINES_Y + 3 * j + sy + 3) * LINE_P + i;
        const double* const reached = near + ((sz + dz + 3) * LINES_Y + 3 * j + sy + dy + 3) * LINE_P + i;
        const double* const line = row + j * ENTRIES * FINE + i;
#pragma unroll
        for (int sx = -1; sx <= 1; ++sx) {
            const double restricted = own[sx < 0 ? LEFT_P : sx > 0 ? RIGHT_P + 1 : 1];
#pragma unroll
            for (int oz = -1; oz <= 1; ++oz) {
                const int off_z = sz + oz - 2 * dz;
                const bool in_z = off_z >= -1 && off_z <= 1;
                if (!in_z && !middle) continue;
#pragma unroll
                for (int oy = -1; oy <= 1; ++oy) {
                    const int off_y = sy + oy - 2 * dy;
                    const bool in = in_z && off_y >= -1 && off_y <= 1;
                    if (!in && !middle) continue;
                    const double* const from = reached + (oz * LINES_Y + oy) * LINE_P;
#pragma unroll
                    for (int ox = -1; ox <= 1; ++ox) {
                        if (!has<KIND>(CENTER + ox + 3 * oy + 9 * oz)) continue;
                        const double* const of = line + slot_of<KIND>(CENTER + ox + 3 * oy + 9 * oz) * FINE;
                        const double weight = restricted * of[sx < 0 ? 0 : sx > 0 ? 1 : EVEN_FINE];
                        scale += fabs(weight);
                        if (!in) continue;
                        const int tx = sx + ox, low = (tx + 2) / 2;
                        if (tx & 1) {
                            sum[low] += weight * from[RIGHT_P + low];
                            sum[low + 1] += weight * from[LEFT_P + low];
                        } else {
                            sum[low] += weight * from[low];
                        }
                    }
                }
            }
        }
    }
    if (middle && sum[1] <= NEGLIGIBLE * scale) sum[1] = scale > 0.0 ? scale : 1.0;
    const int ix = at.x + i, iy = at.y + j;
    if (ix >= cx || iy >= cy) return;
    const long long rows = static_cast<long long>(cx) * cy * cz;
    double* const to = out + ix + static_cast<long long>(cx) * (iy + static_cast<long long>(cy) * at.z);
#pragma unroll
    for (int dx = 0; dx < 3; ++dx) to[(dx + 3 * warp) * rows] = sum[dx];
}

#define TILE(name, KIND)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(PARTS * WARP, KIND == STAR ? 1 : 3) tile_##name(                           \
        HALVED, int fx, int fy, int fz, int cx, int cy, int cz, const double* __restrict__ p, double* __restrict__ out      \
    ) {                                                                                                                     \
        galerkin_tile<KIND>(FORWARDED, fx, fy, fz, cx, cy, cz, p, out);                                                     \
    }

TILE(star, STAR)
TILE(box, BOX)
TILE(slab_x, SLAB_X)
TILE(slab_y, SLAB_Y)
TILE(slab_z, SLAB_Z)
