// Galerkin operators where every axis is halved, of rows of 7 entries that are stored.
// One thread a coarse row, everything unrolled: 725 products, 27 sums in registers.

#include "device.cuh"
#include "lattice/lattice.cuh"
#include "lattice/halving/halving.cuh"

constexpr int WIDE = 32, HIGH = 2, DEEP = 2, THREADS = WIDE * HIGH * DEEP;  // of a block along x, y, z

struct Strides {
    i64 y, z, corner, weight, line, plane;   // of p, and of the weights
};

// What fine point S of a coarse row's 27 adds to its sums. weights, p: at the coarse point. ends: the axes, as bits, along which no
// weights are stored of the next point.
template <int S>
DEVICE void add_from(
    const Strides& stride, const double* weights, const double* p, int ends, double (&sum)[POINTS], double& scale
) {
    if constexpr (S < POINTS) {
        constexpr int SX = step_of(S, 1), SY = step_of(S, 3), SZ = step_of(S, 9);
        const i64 line = SY * stride.y + SZ * stride.z, of_weights = SY * stride.line + SZ * stride.plane;
        const bool stored = !(ends & ((SX > 0) + 2 * (SY > 0) + 4 * (SZ > 0)));
        const double restricted = __ldg(p + ((SX < 0) + 2 * (SY < 0) + 4 * (SZ < 0)) * stride.corner + line + SX);
        UNROLLED for (int o = 0; o < POINTS; ++o) {
            if (!has<STAR>(o)) continue;
            const int tx = SX + step_of(o, 1), ty = SY + step_of(o, 3), tz = SZ + step_of(o, 9);
            const double weight = restricted * (stored ? __ldg(weights + slot_of<STAR>(o) * stride.weight + of_weights + SX) : 0.0);
            scale += fabs(weight);
            const double* const from = p + (ty * stride.y + tz * stride.z) + tx;
            const int both = (tx & 1) + 2 * (ty & 1) + 4 * (tz & 1);  // axes along which it lies between two coarse points
            UNROLLED for (int corner = 0; corner < CORNERS; ++corner) {
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
ENTRY __launch_bounds__(THREADS) galerkin_star(
    HALVED, int fx, int fy, int fz, int cx, int cy, int cz, In<double> p, Out<double> out
) {
    const int3 at = tile_of<WIDE, HIGH, DEEP>(cx, cy);
    const int ix = at.x + threadIdx.x % WIDE, iy = at.y + threadIdx.x / WIDE % HIGH, iz = at.z + threadIdx.x / (WIDE * HIGH);
    if (ix >= cx || iy >= cy || iz >= cz) return;
    const i64 plane = static_cast<i64>(nx) * ny, points = plane * nz;
    const int x = fx + 2 * ix, y = fy + 2 * iy, z = fz + 2 * iz;
    const i64 here = x + static_cast<i64>(nx) * y + plane * z, width = nx - 2 * bare, layer = width * (ny - 2 * bare);
    const Strides stride = {nx, plane, points, weight_stride, width, layer};
    const int ends = (x + 1 >= nx - bare) + 2 * (y + 1 >= ny - bare) + 4 * (z + 1 >= nz - bare);
    double sum[POINTS], scale = 0.0;
    UNROLLED for (int j = 0; j < POINTS; ++j) sum[j] = 0.0;
    add_from<0>(stride, weights + (x - bare + width * (y - bare) + layer * (z - bare)), p + here, ends, sum, scale);
    if (sum[CENTER] <= NEGLIGIBLE * scale) sum[CENTER] = scale > 0.0 ? scale : 1.0;
    const i64 rows = static_cast<i64>(cx) * cy * cz;
    double* const to = out + ix + static_cast<i64>(cx) * (iy + static_cast<i64>(cy) * iz);
    UNROLLED for (int j = 0; j < POINTS; ++j) to[j * rows] = sum[j];
}
