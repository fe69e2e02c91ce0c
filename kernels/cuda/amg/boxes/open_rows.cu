// Rows of the open cells of a box of a lattice (dsolver/kernels/cuda/amg/boxes/open_rows.py), a thread a row.

#include "device.cuh"

// As `dsolver.kernels.amg.OpenBox`: its cells along x and y, open ones, offsets, and which of these is (0, 0, 0); all cells, and the
// position of those that are left out.
struct Open {
    int nx, ny, rows, offsets, center, cells, left_out;
};

constexpr int SLICE = 32;

// The column of a cell by its number, -1 for none.
DEVICE int column_of(const Open& open, const int* position, const int* beyond, int seen) {
    if (seen < 0) return -1;
    if (seen >= open.cells) return beyond[seen - open.cells];
    const int place = position[seen];
    return place == open.left_out ? -1 : place - SLICE;
}

// Calls use(column, weight) for the entries of a row, in the order of the offsets.
// steps: how far each offset leads in `numbering`, and where its weights are.
template <typename Use>
DEVICE void for_entries(
    const Open& open, const int* numbering, const int* position, const int* beyond, const int* cells, const int2* steps,
    const double* weights, int row, Use use
) {
    const int cell = cells[row], line = cell / open.nx;
    const int place = 1 + cell % open.nx + (open.nx + 2) * (1 + line % open.ny + (open.ny + 2) * (1 + line / open.ny));
    for (int q = 0; q < open.offsets; ++q) {
        const int2 step = steps[q];
        const int column = column_of(open, position, beyond, numbering[place + step.x]);
        if (column < 0) continue;
        const double weight = weights[step.y * static_cast<i64>(open.rows) + row];
        if (q == open.center || weight != 0.0) use(column, weight);
    }
}

ENTRY count_open(
    const Open open, In<int> numbering, In<int> position, In<int> beyond, In<int> cells, In<int2> steps,
    In<double> weights, Out<i64> lengths
) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= open.rows) return;
    int n = 0;
    for_entries(open, numbering, position, beyond, cells, steps, weights, row, [&](int, double) { ++n; });
    lengths[row] = n;
}

ENTRY fill_open(
    const Open open, In<int> numbering, In<int> position, In<int> beyond, In<int> cells, In<int2> steps,
    In<double> weights, In<i64> start, Out<int> columns, Out<double> values
) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= open.rows) return;
    i64 k = start[row];
    for_entries(open, numbering, position, beyond, cells, steps, weights, row, [&](int column, double weight) {
        columns[k] = column;
        values[k++] = weight;
    });
}

// Diagonals of a few rows times factors. A thread a row.
ENTRY raise_diagonals(In<i64> start, In<int> columns, In<int> few, In<double> factors, int count, Out<double> values) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int row = few[i];
    for (i64 k = start[row]; k < start[row + 1]; ++k)
        if (columns[k] == row) values[k] *= factors[i];
}
