// Transposes, and mirror images of entries above the diagonal, of matrices of full blocks: kernels/cpu/amg/products.py.

#include "device.cuh"

// Values of the transpose R of a matrix P with blocks of `rows` x `columns` entries; `origins` tells which block of P each
// one of R is. A warp for a row of blocks of R reads and writes 8 bytes an entry.
ENTRY turn(
    int nodes, int rows, int columns, In<i64> start, In<int> nodes_of_p, In<i64> origins,
    In<i64> p_start, In<double> p_values, Out<double> values
) {
    const i64 thread = thread_number();
    const int node = static_cast<int>(thread / WARP), lane = static_cast<int>(thread % WARP);
    if (node >= nodes) return;
    const i64 first = start[node];
    const int length = static_cast<int>(start[node + 1] - first) * rows;
    double* const to = values + first * rows * columns;
    for (int m = lane; m < length; m += WARP) {
        const int n = m / rows, i = m - n * rows;
        const i64 of_row = p_start[nodes_of_p[first + n]], end = p_start[nodes_of_p[first + n] + 1];
        const double* const from =
            p_values + (of_row * rows + i * (end - of_row) + origins[first + n] - of_row) * columns;
        for (int j = 0; j < columns; ++j) to[static_cast<i64>(j) * length + m] = from[j];
    }
}

// Entries below the diagonal to their mirror images, where these are there, of a square matrix with blocks of `size` x `size`
// entries and ascending columns. A warp for a row of blocks; a lane looks for a block's mirror image.
ENTRY mirror(int nodes, int size, In<i64> start, In<int> columns, double* values) {
    const i64 thread = thread_number();
    const int node = static_cast<int>(thread / WARP), lane = static_cast<int>(thread % WARP);
    if (node >= nodes) return;
    const i64 first = start[node], square = static_cast<i64>(size) * size;
    const int length = static_cast<int>(start[node + 1] - first);
    for (int base = 0; base < length; base += WARP) {
        int other = -1, place = 0;
        if (base + lane < length && columns[first + base + lane] >= node) {
            other = columns[first + base + lane];
            const int* const row = columns + start[other];
            const int end = static_cast<int>(start[other + 1] - start[other]);
            place = search(0, end, [&](int middle) { return row[middle] < node; });
            if (place == end || row[place] != node) other = -1;
        }
        for (int q = 0; q < WARP && base + q < length; ++q) {
            const int of_block = __shfl_sync(ALL_LANES, other, q), at = __shfl_sync(ALL_LANES, place, q);
            if (of_block < 0) continue;
            const i64 begin = start[of_block], others = start[of_block + 1] - begin;
            double* const one = values + first * square + static_cast<i64>(base + q) * size;
            double* const two = values + begin * square + static_cast<i64>(at) * size;
            for (int m = lane; m < square; m += WARP) {
                const int i = m / size, j = m - i * size;
                if (of_block == node && j <= i) continue;
                two[j * others * size + i] = one[static_cast<i64>(i) * length * size + j];
            }
        }
    }
}
