// Set-up of faces from rows.

#include "slices.cuh"
#include "range.cuh"
#include "faces/faces.cuh"

// What is found of all rows together.
struct Found {
    int asymmetric;   // whether an entry and its mirror image differ
    int from_end;     // how far from a vector's end the first position with a zero diagonal is; 0 for none
};

// One thread a row, in lattice order: 7 weights (56 bytes) once, 3 faces and the diagonal. Weights of offset n are
// n * rows behind the first ones, in the order of STAR in formats/stencil/. An entry is compared with its mirror image by
// the row that is below it, so no weight is read twice, and those that are no row's face are not read.
ENTRY fill(BOARD, In<double> weights, i64 rows, i64 size, Out<real> faces, Out<real> diagonal, Found* found) {
    const Board b = BOARD_OF_ARGUMENTS;
    const i64 row = thread_number();
    if (row < SLICE) {   // guards, and what follows the rows of a color
        const int i = static_cast<int>(row), count = static_cast<int>(rows / 2), behind[] = {b.first[0] + count + i, b.first[1] + count + i};
        const auto pad = [&](i64 p) {
            diagonal[p] = 1;
            for (int axis = 0; axis < 3; ++axis) faces[axis * size + p] = 0;
        };
        pad(i);
        pad(size - 1 - i);
        if (behind[0] < b.first[1]) pad(behind[0]);
        if (behind[1] < size) pad(behind[1]);
    }
    if (row >= rows) return;
    const int nx = 2 * b.half, line = static_cast<int>(row / nx), i = static_cast<int>(row % nx), j = line % b.ny, k = line / b.ny;
    const int p = b.place(b.color(j, k) ^ (i & 1), i / 2, j, k);
    const int steps[3] = {
        above(i, nx, 1, b.wraps & 1), above(j, b.ny, nx, b.wraps & 2), above(k, b.nz, nx * b.ny, b.wraps & 4)
    };
    const bool last[3] = {i == nx - 1 && !(b.wraps & 1), j == b.ny - 1 && !(b.wraps & 2), k == b.nz - 1 && !(b.wraps & 4)};
    bool same = true;
    UNROLLED for (int axis = 0; axis < 3; ++axis) {
        const double face = last[axis] ? 0.0 : weights[(4 + axis) * rows + row];
        same &= last[axis] || face == weights[(2 - axis) * rows + row + steps[axis]];
        faces[axis * size + p] = static_cast<real>(face);
    }
    const double own = weights[3 * rows + row];
    diagonal[p] = in_range(own);
    if (!same && found->asymmetric == 0) found->asymmetric = 1;
    if (own == 0.0) atomicMax(&found->from_end, static_cast<int>(size - p));
}
