// Interpolation and Galerkin operators where one axis is halved and no seam lies between two coarse points. Rows are stars, or
// what becomes of these: entries of the point itself and of the next ones across the axis, at each of three steps along it.
//
// Sums run in the order of the NumPy text, one thread a coarse row or point. What the text passes over because it is zero is added
// here: that changes no bit. A chunk alone in a grid without periodic axes may come without ghost layers.

#include "device.cuh"
#include "lattice/lattice.cuh"

constexpr int STAR = 0, SLAB = 1;   // rows of 7 entries, and of 15
constexpr int COLUMNS = 5;          // lines along the axis that a row reads
constexpr int WIDE = 32, HIGH = 4, THREADS = WIDE * HIGH;

__device__ constexpr int absolute(int value) { return value < 0 ? -value : value; }

// What offset o steps along the axis, and the number of the line that it leads to: 2 is the row's own.
__device__ constexpr int along(int axis, int o) { return step_of(o, axis == 0 ? 1 : axis == 1 ? 3 : 9); }
__device__ constexpr int across(int axis, int o) {
    return axis == 0 ? step_of(o, 3) + 2 * step_of(o, 9) : axis == 1 ? step_of(o, 1) + 2 * step_of(o, 9) : step_of(o, 1) + 2 * step_of(o, 3);
}
__device__ constexpr int lines(int axis, int o) {
    return absolute(step_of(o, 1)) + absolute(step_of(o, 3)) + absolute(step_of(o, 9)) - absolute(along(axis, o));
}

// Whether rows have entry o, and which one it is.
__device__ constexpr bool has(int kind, int axis, int o) {
    return lines(axis, o) <= 1 && (kind == SLAB || lines(axis, o) + absolute(along(axis, o)) <= 1);
}
__device__ constexpr int slot_of(int kind, int axis, int o) {
    int slot = 0;
    for (int before = 0; before < o; ++before) slot += has(kind, axis, before);
    return slot;
}
__device__ constexpr int entries(int kind) { return kind == STAR ? 7 : 15; }

// The rows of a chunk: with ghost layers (bare is 0), or without these (bare is how many there would be).
struct Rows {
    const double* weights;
    i64 weight_stride;
    int weight_step, nx, ny, nz, bare;

    __device__ bool there(int x, int y, int z) const {
        return x >= bare && x < nx - bare && y >= bare && y < ny - bare && z >= bare && z < nz - bare;
    }
    __device__ const double* at(int x, int y, int z) const {
        return weights + weight_step * (x - bare + static_cast<i64>(nx - 2 * bare) * (y - bare + static_cast<i64>(ny - 2 * bare) * (z - bare)));
    }
};

#define CHUNK int nx, int ny, int nz, int bare, In<double> weights, i64 weight_stride, int weight_step, \
    In<Place> places
#define CHUNK_GIVEN nx, ny, nz, bare, weights, weight_stride, weight_step, places
#define MAKE_ROWS {weights, weight_stride, weight_step, nx, ny, nz, bare}

// Entries are passed from one to the next, O: arrays whose items a loop would name do not stay in registers.
template <int KIND, int A, int O = 0>
DEVICE void collapse(const double* row, i64 stride, const Place (&here)[3], double (&collapsed)[3], double& size) {
    if constexpr (O < POINTS) {
        if constexpr (has(KIND, A, O)) {
            constexpr int SLOT = slot_of(KIND, A, O), TO = 1 + along(A, O);
            const bool left = leaves(step_of(O, 1), here[0].open) || leaves(step_of(O, 3), here[1].open) || leaves(step_of(O, 9), here[2].open);
            const double read = __ldg(row + SLOT * stride), weight = left ? 0.0 : read;
            collapsed[TO] += weight;
            size += fabs(weight);
        }
        collapse<KIND, A, O + 1>(row, stride, here, collapsed, size);
    }
}

// p of all points with their ghost layers, for the two corners along the axis. Half of the rows are read, two numbers a point written.
template <int KIND, int A>
DEVICE void interpolate(CHUNK, Out<double> p) {
    const int x = blockIdx.x * WIDE + threadIdx.x % WIDE, y = blockIdx.y * HIGH + threadIdx.x / WIDE, z = blockIdx.z;
    if (x >= nx || y >= ny) return;
    const Place here[3] = {places[x], places[nx + y], places[nx + ny + z]};
    double below = 0.0, above = 0.0;
    if (here[0].kind != OUTSIDE && here[1].kind != OUTSIDE && here[2].kind != OUTSIDE) {
        const int place = A == 0 ? x : A == 1 ? y : z, size = A == 0 ? nx : A == 1 ? ny : nz;
        if (here[A].kind != BETWEEN) {
            below = 1.0;
        } else if (place > 0 && place < size - 1) {
            const Rows rows = MAKE_ROWS;
            const double* const row = rows.at(x, y, z);
            double collapsed[3] = {0.0, 0.0, 0.0}, size_of = 0.0;
            collapse<KIND, A>(row, weight_stride, here, collapsed, size_of);
            if (collapsed[1] > NEGLIGIBLE * size_of) {
                below += -collapsed[0] / collapsed[1];
                above += -collapsed[2] / collapsed[1];
            }
        }
    }
    const i64 point = x + static_cast<i64>(nx) * (y + static_cast<i64>(ny) * z);
    p[point] = below;
    p[(1 << A) * (static_cast<i64>(nx) * ny * nz) + point] = above;
}

// A fine point between two coarse ones: its row, and p of it and of its neighbors across the axis, for both corners.
template <int KIND>
struct Between {
    double weight[entries(KIND)], below[COLUMNS], above[COLUMNS];
};

template <int KIND, int A>
DEVICE void bring(const Rows& rows, int x, int y, int z, double (&weight)[entries(KIND)]) {
    const bool there = rows.there(x, y, z);
    const double* const row = there ? rows.at(x, y, z) : rows.weights;
    UNROLLED for (int slot = 0; slot < entries(KIND); ++slot) {
        const double read = __ldg(row + slot * rows.weight_stride);
        weight[slot] = there ? read : 0.0;
    }
}

template <int KIND, int A>
DEVICE void bring(
    const Rows& rows, const i64 (&line)[COLUMNS], const double* p, i64 points, int x, int y, int z, Between<KIND>& side
) {
    bring<KIND, A>(rows, x, y, z, side.weight);
    const double* const at = p + x + static_cast<i64>(rows.nx) * (y + static_cast<i64>(rows.ny) * z);
    UNROLLED for (int c = 0; c < COLUMNS; ++c) {
        side.below[c] = __ldg(at + line[c]);
        side.above[c] = __ldg(at + line[c] + (1 << A) * points);
    }
}

// What the fine point S steps from a coarse one adds to its sums, for each line and step along the axis. coarse: one for coarse points
// that are there, at steps -1, 0 and 1.
template <int KIND, int A, int S, int O = 0>
DEVICE void add(
    double restricted, const double (&weight)[entries(KIND)], const Between<KIND>& lower, const Between<KIND>& upper,
    const double (&column)[COLUMNS], const double (&coarse)[3], double (&sum)[COLUMNS][3], double& scale
) {
    if constexpr (O < POINTS) {
        if constexpr (has(KIND, A, O)) {
            constexpr int TO = S + along(A, O), C = 2 + across(A, O), SLOT = slot_of(KIND, A, O);
            const double part = restricted * weight[SLOT];
            scale += fabs(part);
            if constexpr (TO == -1) {
                sum[C][0] += part * lower.below[C];
                sum[C][1] += part * lower.above[C];
            } else if constexpr (TO == 1) {
                sum[C][1] += part * upper.below[C];
                sum[C][2] += part * upper.above[C];
            } else {
                sum[C][1 + TO / 2] += part * (column[C] * coarse[1 + TO / 2]);
            }
        }
        add<KIND, A, S, O + 1>(restricted, weight, lower, upper, column, coarse, sum, scale);
    }
}

// The sums of a coarse row, to where its first entry belongs.
template <int A, int O = 0>
DEVICE void keep(const double (&sum)[COLUMNS][3], double* to, i64 stride) {
    if constexpr (O < POINTS) {
        if constexpr (has(SLAB, A, O)) {
            constexpr int SLOT = slot_of(SLAB, A, O), C = 2 + across(A, O), STEP = 1 + along(A, O);
            to[SLOT * stride] = sum[C][STEP];
        }
        keep<A, O + 1>(sum, to, stride);
    }
}

// out (15, coarse rows): the weights of P^T A P. first: place of the first coarse point; c: how many there are. A thread walks along
// the axis, if it is not x: rows and p of a point between serve both its coarse ones.
template <int KIND, int A>
DEVICE void galerkin(CHUNK, int fx, int fy, int fz, int cx, int cy, int cz, In<double> p, Out<double> out) {
    constexpr int WALK = A == 0 ? 1 : 8;
    const int ix = blockIdx.x * WIDE + threadIdx.x % WIDE;
    const int iy = (blockIdx.y * HIGH + threadIdx.x / WIDE) * (A == 1 ? WALK : 1), iz = blockIdx.z * (A == 2 ? WALK : 1);
    if (ix >= cx || iy >= cy || iz >= cz) return;
    const Rows rows = MAKE_ROWS;
    const i64 plane = static_cast<i64>(nx) * ny, points = plane * nz;
    int at[3] = {fx + (A == 0 ? 2 : 1) * ix, fy + (A == 1 ? 2 : 1) * iy, fz + (A == 2 ? 2 : 1) * iz};
    const Place *const of[3] = {places + at[0], places + nx + at[1], places + nx + ny + at[2]};
    constexpr int U = A == 0 ? 1 : 0, V = A == 2 ? 1 : 2;   // the other axes
    const i64 step_u = U == 0 ? 1 : nx, step_v = V == 1 ? nx : plane;
    const i64 line[COLUMNS] = {-step_v, -step_u, 0, step_u, step_v};
    const double column[COLUMNS] = {
        of[V][-1].kind != OUTSIDE ? 1.0 : 0.0, of[U][-1].kind != OUTSIDE ? 1.0 : 0.0, 1.0,
        of[U][1].kind != OUTSIDE ? 1.0 : 0.0, of[V][1].kind != OUTSIDE ? 1.0 : 0.0};
    Between<KIND> lower, upper;
    bring<KIND, A>(rows, line, p, points, at[0] - (A == 0), at[1] - (A == 1), at[2] - (A == 2), lower);
    const int own = A == 0 ? ix : A == 1 ? iy : iz, last = min(own + WALK, A == 0 ? cx : A == 1 ? cy : cz);
    const i64 coarse_rows = static_cast<i64>(cx) * cy * cz;
    const i64 step = A == 0 ? 1 : A == 1 ? cx : static_cast<i64>(cx) * cy;
    double* to = out + ix + static_cast<i64>(cx) * (iy + static_cast<i64>(cy) * iz);
    for (int i = own; i < last; ++i, at[A] += 2, to += step) {
        double weight[entries(KIND)], sum[COLUMNS][3], scale = 0.0;
        bring<KIND, A>(rows, at[0], at[1], at[2], weight);
        bring<KIND, A>(rows, line, p, points, at[0] + (A == 0), at[1] + (A == 1), at[2] + (A == 2), upper);
        const Place* const here = of[A] + 2 * (i - own);
        const double coarse[3] = {here[-2].kind != OUTSIDE ? 1.0 : 0.0, 1.0, here[2].kind != OUTSIDE ? 1.0 : 0.0};
        UNROLLED for (int c = 0; c < COLUMNS; ++c) sum[c][0] = sum[c][1] = sum[c][2] = 0.0;
        add<KIND, A, -1>(lower.above[2], lower.weight, lower, upper, column, coarse, sum, scale);
        add<KIND, A, 0>(1.0, weight, lower, upper, column, coarse, sum, scale);
        add<KIND, A, 1>(upper.below[2], upper.weight, lower, upper, column, coarse, sum, scale);
        if (sum[2][1] <= NEGLIGIBLE * scale) sum[2][1] = scale > 0.0 ? scale : 1.0;
        keep<A>(sum, to, coarse_rows);
        lower = upper;
    }
}

#define KERNELS(kind, KIND, axis, A)                                                                                        \
    ENTRY __launch_bounds__(THREADS) interpolate_##kind##_##axis(CHUNK, Out<double> p) {                                    \
        interpolate<KIND, A>(CHUNK_GIVEN, p);                                                                               \
    }                                                                                                                       \
    ENTRY __launch_bounds__(THREADS, KIND == STAR ? 6 : 4) galerkin_##kind##_##axis(                                         \
        CHUNK, int fx, int fy, int fz, int cx, int cy, int cz, In<double> p, Out<double> out                                 \
    ) {                                                                                                                     \
        galerkin<KIND, A>(CHUNK_GIVEN, fx, fy, fz, cx, cy, cz, p, out);                                                     \
    }

KERNELS(star, STAR, x, 0)
KERNELS(star, STAR, y, 1)
KERNELS(star, STAR, z, 2)
KERNELS(slab, SLAB, x, 0)
KERNELS(slab, SLAB, y, 1)
KERNELS(slab, SLAB, z, 2)
