// Interpolation where every axis is halved.
//
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
DEVICE int kept_at(int x, int y, int z, int i, int j, int k, int corner) {
    const int number = (x ? corner & 1 : 0) + (y ? (corner >> 1 & 1) << x : 0) + (z ? corner >> 2 << (x + y) : 0);
    return begin_of(x, y, z) + number * count_of(x, y, z) + i + along_x(x) * (j + along_y(y) * k);
}

constexpr int INSIDE = 4, AMID = 8;   // with LOWER and UPPER: in the array and the domain; off the array's frame

// A block's cells. spots: the flags of their places along x, then y, then z. at: of the first place.
struct Cells {
    const double* weights;
    i64 weight_stride;
    int weight_step, bare;
    int3 at;
    i64 nx, plane;     // of the weights
    const int* spots;
    double* kept;
};
constexpr int SPOTS_Y = 2 * CELLS_X + 1, SPOTS_Z = SPOTS_Y + 2 * CELLS_Y + 1, SPOTS = SPOTS_Z + 2 * CELLS_Z + 1;

// value = p of point (i, j, k) of a kind.
template <unsigned KIND, int X, int Y, int Z>
DEVICE void solve(const Cells& cells, int i, int j, int k, double (&value)[CORNERS]) {
    const int x = 2 * i + X, y = 2 * j + Y, z = 2 * k + Z;
    const int along = cells.spots[x], across = cells.spots[SPOTS_Y + y], up = cells.spots[SPOTS_Z + z];
    UNROLLED for (int corner = 0; corner < CORNERS; ++corner) value[corner] = 0.0;
    if (!(along & across & up & INSIDE) || (X && !(along & AMID)) || (Y && !(across & AMID)) || (Z && !(up & AMID))) return;
    const double* const row = cells.weights
        + cells.weight_step * (cells.at.x + x - cells.bare + cells.nx * (cells.at.y + y - cells.bare) + cells.plane * (cells.at.z + z - cells.bare));
    double collapsed[POINTS], size = 0.0;
    UNROLLED for (int o = 0; o < POINTS; ++o) collapsed[o] = 0.0;
    UNROLLED for (int o = 0; o < POINTS; ++o) {
        if (!has<KIND>(o)) continue;
        const int dx = step_of(o, 1), dy = step_of(o, 3), dz = step_of(o, 9);
        const bool left = leaves(dx, along) || leaves(dy, across) || leaves(dz, up);
        const double read = __ldg(row + slot_of<KIND>(o) * cells.weight_stride), weight = left ? 0.0 : read;
        collapsed[CENTER + X * dx + 3 * Y * dy + 9 * Z * dz] += weight;
        size += fabs(weight);
    }
    const double center = collapsed[CENTER];
    if (!(center > NEGLIGIBLE * size)) return;
    UNROLLED for (int o = 0; o < POINTS; ++o) {
        const int dx = step_of(o, 1), dy = step_of(o, 3), dz = step_of(o, 9);
        if (o == CENTER || (!X && dx) || (!Y && dy) || (!Z && dz) || !has<KIND>(o)) continue;
        const double part = -collapsed[o] / center;
        // The neighbor's kind; only the corners along its axes are free.
        const int in_x = X && dx == 0, in_y = Y && dy == 0, in_z = Z && dz == 0, free = in_x + 2 * in_y + 4 * in_z;
        UNROLLED for (int corner = 0; corner < CORNERS; ++corner) {
            if (corner & ~free) continue;
            const int target = corner + (dx > 0 ? 1 : 0) + (dy > 0 ? 2 : 0) + (dz > 0 ? 4 : 0);
            const int from = kept_at(in_x, in_y, in_z, i + (dx > 0), j + (dy > 0), k + (dz > 0), corner);
            value[target] += part * (free ? cells.kept[from] : 1.0);
        }
    }
}

// p of 32 points of a kind.
template <unsigned KIND, int X, int Y, int Z>
DEVICE void solve_points(const Cells& cells, int first) {
    const int n = first + threadIdx.x % 32;
    if (n >= count_of(X, Y, Z)) return;
    const int i = n % along_x(X), j = n / along_x(X) % along_y(Y), k = n / (along_x(X) * along_y(Y));
    double value[CORNERS];
    solve<KIND, X, Y, Z>(cells, i, j, k, value);
    UNROLLED for (int corner = 0; corner < CORNERS; ++corner)
        if (!(corner & ~(X + 2 * Y + 4 * Z))) cells.kept[kept_at(X, Y, Z, i, j, k, corner)] = value[corner];
}

// p of one kind, then another, then a third: the block's warps take 32 points at a time, all of them of a kind.
template <unsigned KIND, int X, int Y, int Z, int U, int V, int W, int R, int S, int T>
DEVICE void solve_kinds(const Cells& cells) {
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
DEVICE void put(
    const Cells& cells, const double (&middle)[CORNERS], int i, int j, int k, bool first, bool second, bool both, bool inside,
    i64 points, double* to
) {
    UNROLLED for (int corner = 0; corner < CORNERS; ++corner) {
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
DEVICE void interpolate(HALVED, In<Place> places, int sx, int sy, int sz, Out<double> p) {
    __shared__ double kept[KEPT];
    __shared__ int spots[SPOTS];
    const int3 tile = tile_of<CELLS_X, CELLS_Y, CELLS_Z>((nx - sx + 1) / 2, (ny - sy + 1) / 2);
    const int3 at = make_int3(sx - 1 + 2 * tile.x, sy - 1 + 2 * tile.y, sz - 1 + 2 * tile.z);
    const i64 plane = static_cast<i64>(nx) * ny, points = plane * nz;
    for (int n = threadIdx.x; n < SPOTS; n += CELLS) {
        const int axis = n < SPOTS_Y ? 0 : n < SPOTS_Z ? 1 : 2, size = axis == 0 ? nx : axis == 1 ? ny : nz;
        const int place = axis == 0 ? at.x + n : axis == 1 ? at.y + n - SPOTS_Y : at.z + n - SPOTS_Z;
        const Place* const of = places + (axis == 0 ? 0 : axis == 1 ? nx : nx + ny);
        const bool here = place >= 0 && place < size;
        const Place there = of[here ? place : 0];
        spots[n] = here && there.kind != OUTSIDE ? there.open | INSIDE | (place > 0 && place < size - 1 ? AMID : 0) : 0;
    }
    __syncthreads();
    const i64 line = nx - 2 * bare;
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
    double* const to = p + x + static_cast<i64>(nx) * y + plane * z;
    if (y0 && z0) put<1, 1>(cells, middle, i, j, k, first, second, both, inside, points, to);
    if (y1 && z0) put<0, 1>(cells, middle, i, j, k, first, second, both, inside, points, to + nx);
    if (y0 && z1) put<1, 0>(cells, middle, i, j, k, first, second, both, inside, points, to + plane);
    if (y1 && z1) put<0, 0>(cells, middle, i, j, k, first, second, both, inside, points, to + nx + plane);
}

#define INTERPOLATE(name, KIND)                                                                                             \
    ENTRY __launch_bounds__(CELLS) interpolate_##name(                                                                      \
        HALVED, In<Place> places, int sx, int sy, int sz, Out<double> p                                                     \
    ) {                                                                                                                     \
        interpolate<KIND>(FORWARDED, places, sx, sy, sz, p);                                                                \
    }
