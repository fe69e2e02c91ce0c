// Interpolation and Galerkin operators on a lattice with ghost layers (kernels/lattice/galerkin.py has the formulas).
//
// Sums run in the order of the NumPy text, one thread a point, so the bits do not depend on the partition. Everything is
// double: coarse operators are made once.

#include "device.cuh"
#include "lattice/lattice.cuh"

constexpr int GALERKIN_THREADS = 128;

// p of one point that lies between coarse ones along the axes whose flag is 1, from the p of its neighbors.
template <int X, int Y, int Z>
DEVICE void solve(
    const Lattice& lattice, const Place* across, const Place* along, const Place* up, int x, int y, int z, double* p
) {
    constexpr int SIZE = (1 + 2 * X) * (1 + 2 * Y) * (1 + 2 * Z), MIDDLE = SIZE / 2;
    constexpr int IN_Y = 1 + 2 * X, IN_Z = IN_Y * (1 + 2 * Y);
    const i64 point = lattice.place(x, y, z);
    const Place here_x = across[x], here_y = along[y], here_z = up[z];
    double collapsed[SIZE];
    UNROLLED for (int i = 0; i < SIZE; ++i) collapsed[i] = 0.0;
    double size = 0.0;
    UNROLLED for (int o = 0; o < POINTS; ++o) {
        const int dx = step_of(o, 1), dy = step_of(o, 3), dz = step_of(o, 9);
        const int slot = __ldg(lattice.slots + o);
        if (slot < 0 || leaves(dx, here_x.open) || leaves(dy, here_y.open) || leaves(dz, here_z.open)) continue;
        const double weight = lattice.weight(slot, point);
        collapsed[MIDDLE + X * dx + Y * dy * IN_Y + Z * dz * IN_Z] += weight;
        size += fabs(weight);
    }
    const double center = collapsed[MIDDLE];
    if (!(center > NEGLIGIBLE * size)) return;
    // Corners of the axes that are between; along the others the point's own corner is the only one.
    const int own = (X ? 0 : here_x.kind) + (Y ? 0 : 2 * here_y.kind) + (Z ? 0 : 4 * here_z.kind);
    double value[8];
    UNROLLED for (int corner = 0; corner < 8; ++corner) value[corner] = 0.0;
    UNROLLED for (int dz = -Z; dz <= Z; ++dz)
        UNROLLED for (int dy = -Y; dy <= Y; ++dy)
            UNROLLED for (int dx = -X; dx <= X; ++dx) {
                if (dx == 0 && dy == 0 && dz == 0) continue;
                const double weight = collapsed[MIDDLE + dx + dy * IN_Y + dz * IN_Z];
                if (weight == 0.0) continue;
                const double part = -weight / center;
                const i64 neighbor = lattice.place(x + dx, y + dy, z + dz);
                const int reached = (dx ? across[x + dx].kind : 0) + (dy ? 2 * along[y + dy].kind : 0) + (dz ? 4 * up[z + dz].kind : 0);
                UNROLLED for (int corner = 0; corner < 8; ++corner) {
                    // Only the bits of axes that are between and not crossed are free.
                    const int free = (X && dx == 0 ? 1 : 0) | (Y && dy == 0 ? 2 : 0) | (Z && dz == 0 ? 4 : 0);
                    if (corner & ~free) continue;
                    const int target = corner + (dx > 0 ? 1 : 0) + (dy > 0 ? 2 : 0) + (dz > 0 ? 4 : 0);
                    value[target] += part * p[(own + reached + corner) * lattice.points + neighbor];
                }
            }
    UNROLLED for (int corner = 0; corner < 8; ++corner) {
        if (corner & ~(X + 2 * Y + 4 * Z)) continue;
        p[(own + corner) * lattice.points + point] = value[corner];
    }
}

// p of the points that lie between coarse ones along exactly `between` axes, beginning with none: the coarse points. It was
// zero. One launch for each number, since points read those of smaller ones, which other blocks write.
ENTRY interpolate(LATTICE, int between, double* p) {
    const Lattice lattice = MAKE_LATTICE;
    const Place *across = places, *along = places + nx, *up = places + nx + ny;
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x >= nx || y >= ny) return;
    const int kind_x = across[x].kind, kind_y = along[y].kind, kind_z = up[z].kind;
    if (kind_x == OUTSIDE || kind_y == OUTSIDE || kind_z == OUTSIDE) return;
    const int in_x = kind_x == BETWEEN, in_y = kind_y == BETWEEN, in_z = kind_z == BETWEEN;
    const int count = in_x + in_y + in_z;
    if (count != between) return;
    if (count == 0) {
        p[(kind_x + 2 * kind_y + 4 * kind_z) * lattice.points + lattice.place(x, y, z)] = 1.0;
        return;
    }
    if ((in_x && (x == 0 || x == nx - 1)) || (in_y && (y == 0 || y == ny - 1)) || (in_z && (z == 0 || z == nz - 1))) return;
    switch (in_x + 2 * in_y + 4 * in_z) {
        case 1: return solve<1, 0, 0>(lattice, across, along, up, x, y, z, p);
        case 2: return solve<0, 1, 0>(lattice, across, along, up, x, y, z, p);
        case 3: return solve<1, 1, 0>(lattice, across, along, up, x, y, z, p);
        case 4: return solve<0, 0, 1>(lattice, across, along, up, x, y, z, p);
        case 5: return solve<1, 0, 1>(lattice, across, along, up, x, y, z, p);
        case 6: return solve<0, 1, 1>(lattice, across, along, up, x, y, z, p);
        case 7: return solve<1, 1, 1>(lattice, across, along, up, x, y, z, p);
    }
}

// One axis of the coarse rows: see dsolver.kernels.lattice.coarsening.Axis.
struct __align__(16) Coarse {
    int first, reach, counts, points;
};

// What lies at most two steps from a coarse point along an axis, in registers: four bits a step for its kind, and for the
// coarse point of its corner 0, counted from that one.
struct Near {
    int kinds, bases;
    __device__ int kind(int step) const { return (kinds >> 4 * (step + 2) & 15) - 1; }
    __device__ int base(int step) const { return (bases >> 4 * (step + 2) & 15) - 8; }
};

// size: places along the axis. What the steps past its last one would find is not used: no point before reads it.
DEVICE Near near_of(const Coarse& axis, const Place* places, int size, int own, int& middle) {
    Near out = {0, 0};
    middle = axis.first + (axis.reach + 1) * own;
    for (int step = -1 - axis.reach; step <= 1 + axis.reach; ++step) {
        const Place there = places[middle + step < size ? middle + step : size - 1];
        out.kinds |= (there.kind + 1 & 15) << 4 * (step + 2);
        out.bases |= (there.base - own + 8 & 15) << 4 * (step + 2);
    }
    return out;
}

// out (entries of `kept`, coarse rows): the weights of P^T A P, one thread a coarse row; kept: bits of the 27 that may be others than 0. Sums stand in shared memory, since a row's 27 are
// reached through the tables and not in an order that registers could be named after.
ENTRY coarse_weights(LATTICE, int entries, In<int4> steps, In<Coarse> axes, In<double> p, int kept, Out<double> out) {
    __shared__ double sums[POINTS * GALERKIN_THREADS];
    const Lattice lattice = MAKE_LATTICE;
    const Coarse ax = axes[0], ay = axes[1], az = axes[2];
    const i64 rows = static_cast<i64>(ax.points) * ay.points * az.points;
    const i64 row = blockIdx.x * static_cast<i64>(GALERKIN_THREADS) + threadIdx.x;
    if (row >= rows) return;
    const int ix = row % ax.points, line = row / ax.points, iy = line % ay.points, iz = line / ay.points;
    int x0, y0, z0;
    const Near near_x = near_of(ax, places, nx, ix, x0), near_y = near_of(ay, places + nx, ny, iy, y0);
    const Near near_z = near_of(az, places + nx + ny, nz, iz, z0);
    double* const sum = sums + threadIdx.x;
    for (int j = 0; j < POINTS; ++j) sum[j * GALERKIN_THREADS] = 0.0;
    double scale = 0.0;
    for (int sz = -az.reach; sz <= az.reach; ++sz) {
        const int z = z0 + sz, c = -near_z.base(sz);
        if (c < 0 || c > 1) continue;
        for (int sy = -ay.reach; sy <= ay.reach; ++sy) {
            const int y = y0 + sy, b = -near_y.base(sy);
            if (b < 0 || b > 1) continue;
            for (int sx = -ax.reach; sx <= ax.reach; ++sx) {
                const int x = x0 + sx, a = -near_x.base(sx);
                if (a < 0 || a > 1) continue;
                const i64 point = lattice.place(x, y, z);
                const double restricted = __ldg(p + (a + 2 * b + 4 * c) * lattice.points + point);
                if (restricted == 0.0) continue;
                for (int k = 0; k < entries; ++k) {
                    const int4 step = __ldg(steps + k);
                    const int tx = sx + step.x, ty = sy + step.y, tz = sz + step.z;
                    const int in_x = near_x.kind(tx), in_y = near_y.kind(ty), in_z = near_z.kind(tz);
                    const double weight = restricted * lattice.weight(k, point);
                    scale += fabs(weight);
                    if (in_x == OUTSIDE || in_y == OUTSIDE || in_z == OUTSIDE) continue;
                    const double* const from = p + lattice.place(x0 + tx, y0 + ty, z0 + tz);
                    // A kind is the one corner that a point has along an axis; between coarse points it has both.
                    for (int w = in_z == SECOND; w <= (in_z != FIRST); ++w)
                        for (int v = in_y == SECOND; v <= (in_y != FIRST); ++v)
                            for (int u = in_x == SECOND; u <= (in_x != FIRST); ++u) {
                                const double value = __ldg(from + (u + 2 * v + 4 * w) * lattice.points);
                                const int dx = (near_x.base(tx) + u) * ax.counts, dy = (near_y.base(ty) + v) * ay.counts,
                                          dz = (near_z.base(tz) + w) * az.counts;
                                sum[(CENTER + dx + 3 * dy + 9 * dz) * GALERKIN_THREADS] += weight * value;
                            }
                }
            }
        }
    }
    if (sum[CENTER * GALERKIN_THREADS] <= NEGLIGIBLE * scale) sum[CENTER * GALERKIN_THREADS] = scale > 0.0 ? scale : 1.0;
    double* to = out + row;
    for (int j = 0; j < POINTS; ++j) {
        if (!(kept >> j & 1)) continue;
        *to = sum[j * GALERKIN_THREADS];
        to += rows;
    }
}
