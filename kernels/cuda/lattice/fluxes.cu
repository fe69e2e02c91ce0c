// Rows of finite volumes in one launch (kernels/lattice/fluxes.py has the text): 56 bytes a cell written, κ read once from
// memory.

#include "device.cuh"

// One axis: κ of the cells and a layer around them, negative where u is held, or null for one number; what stands in place of the fluxes at both
// ends, null where rows go on; 2 where two cells meet on both sides, else 1. Or rows end with a part of area / resistance
// of half a cell, which is less than 0 where they do not.
struct Axis {
    const double* kappa;
    const double* ends[2];
    double number, times, parts[2];
};

// Sizes of the cells and of one more at each end: along x, then y, then z. of_rows: the cells whose rows these are; null for all.
ENTRY star_rows(
    const Axis x_axis, const Axis y_axis, const Axis z_axis, In<double> sizes, int nx, int ny, int nz, In<int> of_rows,
    i64 rows, Out<double> out
) {
    const i64 row = thread_number();
    if (row >= rows) return;
    const i64 cell = of_rows ? of_rows[row] : row;
    const int line = static_cast<int>(cell / nx), place[3] = {static_cast<int>(cell % nx), line % ny, line / ny};
    const int count[3] = {nx, ny, nz}, across[3] = {ny, nx, nx};   // points of the first axis across
    const i64 step[3] = {1, nx + 2, (nx + 2LL) * (ny + 2)};
    const i64 center = (place[0] + 1) + step[1] * (place[1] + 1) + step[2] * (place[2] + 1);
    const double* const size[3] = {
        sizes + place[0] + 1, sizes + nx + 2 + place[1] + 1, sizes + nx + 2 + ny + 2 + place[2] + 1};
    double diagonal = 0.0;
    UNROLLED for (int a = 0; a < 3; ++a) {
        const Axis& axis = a == 0 ? x_axis : a == 1 ? y_axis : z_axis;
        double resistance[3];
        bool held[3];
        UNROLLED for (int d = -1; d <= 1; ++d) {
            const double kappa = axis.kappa == nullptr ? axis.number : __ldg(axis.kappa + center + d * step[a]);
            resistance[d + 1] = 0.5 * __ldg(size[a] + d) / (kappa < 0.0 ? -kappa : kappa);
            held[d + 1] = kappa < 0.0;
        }
        const int first = a == 0 ? 1 : 0, second = a == 2 ? 1 : 2;
        const double area = __ldg(size[second]) * __ldg(size[first]);
        const int u = place[first], v = place[second];
        UNROLLED for (int side = 0; side < 2; ++side) {
            const double* const given = axis.ends[side];
            const double share = axis.parts[side];
            const bool ends = (given != nullptr || share >= 0.0) && place[a] == (side == 0 ? 0 : count[a] - 1);
            const double flux = ends ? given != nullptr ? __ldg(given + u + static_cast<i64>(across[a]) * v)
                    : share == 0.0 ? 0.0 : share * (area / resistance[1])
                : area / (resistance[side] + resistance[side + 1]) * axis.times;
            diagonal += flux;
            out[(side == 0 ? 2 - a : 4 + a) * rows + row] = ends || held[1] || held[2 * side] ? 0.0 : -flux;
        }
    }
    out[3 * rows + row] = diagonal;
}
