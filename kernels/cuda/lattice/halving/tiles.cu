// Galerkin operators where every axis is halved, of rows of 27 entries, or of one row for all points.
//
// A block has ROWS_X x ROWS_Y coarse rows and a warp for each of the nine steps along y and z: its threads have a row's three sums with
// that step, and visit no product that leads elsewhere. p of all that they reach stands in shared memory, and the rows of A of
// one fine line after the other.

#include "device.cuh"
#include "lattice/lattice.cuh"
#include "lattice/halving/halving.cuh"

constexpr int ROWS_X = 16, ROWS_Y = 2, PARTS = 9;
// Of a line of p: coarse points, and points between with their corner on the left of a coarse point, and on its right.
constexpr int COARSE_P = ROWS_X + 2, BETWEEN_P = ROWS_X + 1, RIGHT_P = COARSE_P, LEFT_P = RIGHT_P + BETWEEN_P, LINE_P = LEFT_P + BETWEEN_P;
// Lines along y and z, each once for every corner that its points have there: 0 .. 2 are those of coarse point -1, 3 .. 5 of 0, ...
constexpr int LINES_Y = 3 * ROWS_Y + 4, LINES_Z = 7;
constexpr int FINE = 2 * ROWS_X + 1, EVEN_FINE = ROWS_X + 1;  // fine points of a line, and those on the sides of coarse ones

// The lattice line and the corner of line m of p, from the first coarse point on.
DEVICE int place_of(int m) { return m % 3 ? 2 * (m / 3) - 1 : 2 * (m / 3) - 2; }
DEVICE int corner_of(int m) { return m % 3 == 2; }

template <unsigned KIND>
DEVICE void galerkin_tile(HALVED, int fx, int fy, int fz, int cx, int cy, int cz, In<double> p, Out<double> out) {
    constexpr int ENTRIES = count(KIND), EACH = (ROWS_Y * ENTRIES + PARTS - 1) / PARTS;  // lines of weights that a warp brings
    __shared__ double near[LINES_Z * LINES_Y * LINE_P], row[ROWS_Y * ENTRIES * FINE];
    const int3 at = tile_of<ROWS_X, ROWS_Y, 1>(cx, cy);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int dy = warp % 3 - 1, dz = warp / 3 - 1, i = lane % ROWS_X, j = lane / ROWS_X;
    const bool middle = dy == 0 && dz == 0;
    const i64 plane = static_cast<i64>(nx) * ny, points = plane * nz;
    const int x0 = fx + 2 * at.x, y0 = fy + 2 * at.y, z0 = fz + 2 * at.z;  // place of the tile's first coarse point

    for (int n = threadIdx.x; n < LINES_Z * LINES_Y * LINE_P; n += PARTS * WARP) {
        const int line = n / LINE_P, r = n % LINE_P, my = line % LINES_Y, mz = line / LINES_Y;
        const bool left = r >= LEFT_P;
        const int x = x0 - 2 + (left ? 2 * (r - LEFT_P) + 1 : r), y = y0 + place_of(my), z = z0 + place_of(mz);
        const int corner = left + 2 * corner_of(my) + 4 * corner_of(mz);
        const int to = left ? r : r % 2 * RIGHT_P + r / 2;
        near[line * LINE_P + to] = x < nx && y < ny ? __ldg(p + corner * points + x + nx * static_cast<i64>(y) + plane * z) : 0.0;
    }

    // The rows of A of fine line `step` of each coarse line; on their way while those of the last step are used.
    double ahead[EACH + 1];
    const auto bring = [&](int step, int n, int r) {
        const int x = x0 - 1 + r, y = y0 + 2 * (n / ENTRIES) + step % 3 - 1, z = z0 + step / 3 - 1;
        const bool there = n < ROWS_Y * ENTRIES && x < nx - bare && y < ny - bare && z < nz - bare;
        const i64 width = nx - 2 * bare, point = x - bare + width * (y - bare + static_cast<i64>(ny - 2 * bare) * (z - bare));
        return there ? __ldg(weights + n % ENTRIES * weight_stride + weight_step * point) : 0.0;
    };
    const auto bring_all = [&](int step) {
        UNROLLED for (int l = 0; l < EACH; ++l) ahead[l] = bring(step, warp * EACH + l, lane);
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
        UNROLLED for (int l = 0; l < EACH; ++l) keep(warp * EACH + l, lane, ahead[l]);
        if (lane < EACH) keep(warp * EACH + lane, WARP, ahead[EACH]);
        __syncthreads();
        if (step + 1 < PARTS) bring_all(step + 1);
        if (sy * dy < 0 || sz * dz < 0) continue;  // leads nowhere
        const double* const own = near + ((sz + 3) * LINES_Y + 3 * j + sy + 3) * LINE_P + i;
        const double* const reached = near + ((sz + dz + 3) * LINES_Y + 3 * j + sy + dy + 3) * LINE_P + i;
        const double* const line = row + j * ENTRIES * FINE + i;
        UNROLLED for (int sx = -1; sx <= 1; ++sx) {
            const double restricted = own[sx < 0 ? LEFT_P : sx > 0 ? RIGHT_P + 1 : 1];
            UNROLLED for (int oz = -1; oz <= 1; ++oz) {
                const int off_z = sz + oz - 2 * dz;
                const bool in_z = off_z >= -1 && off_z <= 1;
                if (!in_z && !middle) continue;
                UNROLLED for (int oy = -1; oy <= 1; ++oy) {
                    const int off_y = sy + oy - 2 * dy;
                    const bool in = in_z && off_y >= -1 && off_y <= 1;
                    if (!in && !middle) continue;
                    const double* const from = reached + (oz * LINES_Y + oy) * LINE_P;
                    UNROLLED for (int ox = -1; ox <= 1; ++ox) {
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
    const i64 rows = static_cast<i64>(cx) * cy * cz;
    double* const to = out + ix + static_cast<i64>(cx) * (iy + static_cast<i64>(cy) * at.z);
    UNROLLED for (int dx = 0; dx < 3; ++dx) to[(dx + 3 * warp) * rows] = sum[dx];
}

#define TILE(name, KIND)                                                                                                    \
    ENTRY __launch_bounds__(PARTS * WARP, KIND == STAR ? 1 : 3) tile_##name(                                                \
        HALVED, int fx, int fy, int fz, int cx, int cy, int cz, In<double> p, Out<double> out                               \
    ) {                                                                                                                     \
        galerkin_tile<KIND>(FORWARDED, fx, fy, fz, cx, cy, cz, p, out);                                                     \
    }

TILE(star, STAR)
TILE(box, BOX)
TILE(slab_x, SLAB_X)
TILE(slab_y, SLAB_Y)
TILE(slab_z, SLAB_Z)
