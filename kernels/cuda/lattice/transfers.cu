// Set-up of a level: entries of restriction and prolongation (kernels/lattice/transfers.py has the text), jumps, and
// copies of lattices into others. One thread an item, each array read and written once. As many operations of an array
// library take 1 to 50 ms a level, most of it their launches, and compile anew for arrays of more than 2 GB.

#include "device.cuh"

constexpr int GHOST = 2;

// One axis of a chunk with its ghost layers. See dsolver.kernels.lattice.coarsening.Axis.
struct Axis {
    int first, factor, reach, points;   // points: coarse ones
    int fine, base, folded, from;       // fine: own ones; base: where its numbers begin in `bases`; from: see prolongation
};

struct Axes { Axis x, y, z; };

// The axes, and behind them the coarse point of corner 0 at every place of x, then y, then z.
#define LATTICE In<Axes> lattice
#define OPEN_LATTICE                \
    const Axes a = *lattice;        \
    const int* const bases = reinterpret_cast<const int*>(lattice + 1);

struct Box {
    int nx, ny;
    i64 points;
    __device__ i64 at(int x, int y, int z) const {
        return x + static_cast<i64>(nx) * (y + static_cast<i64>(ny) * z);
    }
};

DEVICE Box ghosted(const Axes& a) {
    const int nx = a.x.fine + 2 * GHOST, ny = a.y.fine + 2 * GHOST, nz = a.z.fine + 2 * GHOST;
    return {nx, ny, static_cast<i64>(nx) * ny * nz};
}

DEVICE i64 item() { return thread_number(); }

DEVICE int clipped(int place, int last) { return place < 0 ? 0 : place > last ? last : place; }

// R: 12 bytes an entry written, p read once.
ENTRY restriction(LATTICE, In<double> p, In<int> around, Out<int> columns, Out<double> values) {
    OPEN_LATTICE
    const i64 row = item(), rows = static_cast<i64>(a.x.points) * a.y.points * a.z.points;
    if (row >= rows) return;
    const int line = static_cast<int>(row / a.x.points), i = static_cast<int>(row % a.x.points);
    const int j = line % a.y.points, k = line / a.y.points;
    const Box in = ghosted(a);
    const Box numbers = {a.x.fine + 2, a.y.fine + 2, 0};
    i64 out = row;
    for (int dz = -a.z.reach; dz <= a.z.reach; ++dz) {
        const int z = a.z.first + dz + a.z.factor * k;
        const bool in_z = __ldg(bases + a.z.base + z) + (dz < 0) == k;
        for (int dy = -a.y.reach; dy <= a.y.reach; ++dy) {
            const int y = a.y.first + dy + a.y.factor * j;
            const bool in_y = __ldg(bases + a.y.base + y) + (dy < 0) == j;
            for (int dx = -a.x.reach; dx <= a.x.reach; ++dx, out += rows) {
                const int x = a.x.first + dx + a.x.factor * i;
                const bool valid = in_z && in_y && __ldg(bases + a.x.base + x) + (dx < 0) == i;
                const int corner = (dx < 0) + 2 * (dy < 0) + 4 * (dz < 0);
                const double value = valid ? __ldg(p + corner * in.points + in.at(x, y, z)) : 0.0;
                values[out] = value;
                columns[out] = value == 0.0 ? -1 : __ldg(around + numbers.at(
                    clipped(x - GHOST + 1, a.x.fine + 1), clipped(y - GHOST + 1, a.y.fine + 1),
                    clipped(z - GHOST + 1, a.z.fine + 1)));
            }
        }
    }
}

// Where the coarse point of corner `bit` is in the numbers of coarse points.
DEVICE int found_at(const Axis& a, const int* bases, int own, int bit) {
    return a.folded ? 1 : __ldg(bases + a.base + own + GHOST) + bit + 1 + a.from;
}

// P: 12 bytes an entry written, p read once. nx, ny: of `around`, with its layer.
ENTRY prolongation(LATTICE, In<double> p, In<int> around, int nx, int ny, Out<int> columns, Out<double> values) {
    OPEN_LATTICE
    const i64 row = item(), rows = static_cast<i64>(a.x.fine) * a.y.fine * a.z.fine;
    if (row >= rows) return;
    const int line = static_cast<int>(row / a.x.fine), x = static_cast<int>(row % a.x.fine);
    const int y = line % a.y.fine, z = line / a.y.fine;
    const Box in = ghosted(a);
    const Box numbers = {nx, ny, 0};
    const double* const own = p + in.at(x + GHOST, y + GHOST, z + GHOST);
    i64 out = row;
    for (int w = 0; w <= a.z.reach; ++w)
        for (int v = 0; v <= a.y.reach; ++v)
            for (int u = 0; u <= a.x.reach; ++u, out += rows) {
                const double value = __ldg(own + (u + 2 * v + 4 * w) * in.points);
                values[out] = value;
                columns[out] = value == 0.0 ? -1 : __ldg(around + numbers.at(
                    found_at(a.x, bases, x, u), found_at(a.y, bases, y, v), found_at(a.z, bases, z, w)));
            }
}

// The numbers of a box's points, x fastest, with a layer of -1 around: 4 bytes an item written.
ENTRY numbers(int nx, int ny, int nz, i64 count, Out<int> out) {
    const i64 i = item();
    if (i >= count) return;
    const int line = static_cast<int>(i / (nx + 2)), x = static_cast<int>(i % (nx + 2)) - 1;
    const int y = line % (ny + 2) - 1, z = line / (ny + 2) - 1;
    const bool own = x >= 0 && x < nx && y >= 0 && y < ny && z >= 0 && z < nz;
    out[i] = own ? x + nx * (y + ny * z) : -1;
}

// out (K, nz + 2 w, ny + 2 w, nx + 2 w) from values (K, nz, ny, nx), zeros around them. A row of threads for each line.
ENTRY framed(In<double> values, int nx, int ny, int nz, int width, int lines, Out<double> out) {
    const int line = blockIdx.x * blockDim.y + threadIdx.y;
    if (line >= lines) return;
    const int wx = nx + 2 * width, wy = ny + 2 * width, wz = nz + 2 * width;
    const int plane = line / wy, y = line % wy - width, box = plane / wz, z = plane % wz - width;
    const bool own = y >= 0 && y < ny && z >= 0 && z < nz;
    const double* const from = values + nx * (y + static_cast<i64>(ny) * (z + static_cast<i64>(nz) * box)) - width;
    double* const to = out + static_cast<i64>(wx) * line;
    for (int x = threadIdx.x; x < wx; x += blockDim.x) to[x] = own && x >= width && x < nx + width ? __ldg(from + x) : 0.0;
}

// out (K, nz, ny, nx) from values (K, mz, my, mx), at the places that `like` has for x, then y, then z.
ENTRY spread(In<double> values, int mx, int my, int mz, In<int> like, int nx, int ny, int nz, i64 count, Out<double> out) {
    const i64 i = item();
    if (i >= count) return;
    const i64 line = i / nx, plane = line / ny, box = plane / nz;
    const int x = __ldg(like + i % nx), y = __ldg(like + nx + line % ny), z = __ldg(like + nx + ny + plane % nz);
    out[i] = __ldg(values + x + static_cast<i64>(mx) * (y + static_cast<i64>(my) * (z + mz * box)));
}

// out (3): see dsolver.kernels.lattice.statistics.jumps. Whole numbers, so their order does not matter. pairs (3, 2): the offsets to
// the next point and to the last one along each axis. 48 bytes a row.
ENTRY jumps(In<double> weights, In<int> pairs, i64 rows, double ratio, double* out) {
    constexpr int COUNTS = 3;
    const i64 row = item();
    int own[COUNTS] = {0, 0, 0};
    for (int axis = 0; axis < 3 && row < rows; ++axis) {
        const double ahead = fabs(__ldg(weights + pairs[2 * axis] * rows + row));
        const double behind = fabs(__ldg(weights + pairs[2 * axis + 1] * rows + row));
        const double less = fmin(ahead, behind), more = fmax(ahead, behind);
        own[0] += less > 0.0 && more > ratio * less;
        own[1] += less > 0.0;
        own[2] += less == 0.0 && more > 0.0;
    }
    __shared__ int sums[COUNTS];
    if (threadIdx.x == 0)
        for (int i = 0; i < COUNTS; ++i) sums[i] = 0;
    __syncthreads();
    for (int i = 0; i < COUNTS; ++i)
        if (own[i]) atomicAdd(sums + i, own[i]);
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 0; i < COUNTS; ++i)
            if (sums[i]) atomicAdd(out + i, static_cast<double>(sums[i]));
}
