// Rows of a box of a lattice from weights offset after offset (dsolver/kernels/cuda/amg/boxes/box_rows.py), a thread a row.

#include "device.cuh"

constexpr int CAPACITY = 2048;   // entries of a block's rows at most
constexpr int BATCH = 8;         // weights that a thread requests at a time

// As `dsolver.kernels.amg.LatticeBox`; `low` and `high`: how far offsets reach.
struct Box {
    int grid[3], lower[3], shape[3], low[3], high[3];
    int wraps;      // bits 0, 1, 2: the grid is periodic along x, y, z
    int offsets;    // their number
    int constant;   // whether a weight is the same for all rows
};

// An offset along x, y, z, and where its weights are. Offsets are in the order of the columns.
struct __align__(16) Step {
    int along[3], slot;
};

struct Point {
    int at[3];
    int number;   // in the grid
    bool around;  // whether columns wrap: they do not ascend then
};

DEVICE Point point_of(const Box& box, int i) {
    const int nx = box.shape[0], ny = box.shape[1], line = i / nx;
    Point p{{box.lower[0] + i % nx, box.lower[1] + line % ny, box.lower[2] + line / ny}, 0, false};
    p.number = p.at[0] + box.grid[0] * (p.at[1] + box.grid[1] * p.at[2]);
    UNROLLED for (int a = 0; a < 3; ++a)
        p.around |= (box.wraps >> a & 1) && (p.at[a] + box.low[a] < 0 || p.at[a] + box.high[a] >= box.grid[a]);
    return p;
}

// The number of the point at an offset, -1 outside the grid.
DEVICE int column_of(const Box& box, const Point& p, const Step& step) {
    int found = 0;
    UNROLLED for (int a = 2; a >= 0; --a) {
        const int n = box.grid[a];
        int there = p.at[a] + step.along[a];
        if (there < 0 || there >= n) {
            if (!(box.wraps >> a & 1)) return -1;
            there %= n;
            if (there < 0) there += n;
        }
        found = found * n + there;
    }
    return found;
}

// The weights of BATCH offsets, all requested before the first is used.
DEVICE void load(
    const Box& box, const Step* steps, const double* weights, i64 rows, int i, int first, double (&weight)[BATCH]
) {
    UNROLLED for (int q = 0; q < BATCH; ++q) {
        const int slot = first + q < box.offsets ? steps[first + q].slot : 0;
        weight[q] = box.constant ? weights[slot] : weights[slot * rows + i];
    }
}

// Puts an entry behind n others; where columns wrap, in front of those with larger columns.
DEVICE void insert(int* columns, double* values, int n, int column, double value, bool around) {
    for (; around && n > 0 && columns[n - 1] > column; --n) {
        columns[n] = columns[n - 1];
        values[n] = values[n - 1];
    }
    columns[n] = column;
    values[n] = value;
}

// The column of an entry that is kept: it is not zero, or the diagonal. Else -1.
DEVICE int kept_column(const Box& box, const Point& p, const Step& step, double weight) {
    const int column = column_of(box, p, step);
    return weight != 0.0 || column == p.number ? column : -1;
}

// Entries of each row: 8 bytes an offset.
ENTRY count_entries(const Box box, In<Step> steps, In<double> weights, int rows, Out<i64> lengths) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    const Point p = point_of(box, i);
    int n = 0;
    for (int base = 0; base < box.offsets; base += BATCH) {
        double weight[BATCH];
        load(box, steps, weights, rows, i, base, weight);
        UNROLLED for (int q = 0; q < BATCH; ++q)
            if (base + q < box.offsets) n += kept_column(box, p, steps[base + q], weight[q]) >= 0;
    }
    lengths[i] = n;
}

// The entries, columns ascending, and of each row (a_ii + sum of |a_ij|) / (2 a_ii). A block's entries are put together in
// shared memory, so that they are written as they lie: 8 bytes an offset and 12 an entry.
ENTRY fill_entries(
    const Box box, In<Step> steps, In<double> weights, int rows, In<i64> start, Out<int> columns,
    Out<double> values, Out<double> share
) {
    __shared__ double value_at[CAPACITY];
    __shared__ int column_at[CAPACITY];
    const int first = blockIdx.x * blockDim.x, i = first + threadIdx.x;
    const i64 begin = start[first];
    if (i < rows) {
        const Point p = point_of(box, i);
        const int base = static_cast<int>(start[i] - begin);
        int n = 0;
        for (int first_of = 0; first_of < box.offsets; first_of += BATCH) {
            double weight[BATCH];
            load(box, steps, weights, rows, i, first_of, weight);
            UNROLLED for (int q = 0; q < BATCH; ++q) {
                if (first_of + q >= box.offsets) continue;
                const int column = kept_column(box, p, steps[first_of + q], weight[q]);
                if (column >= 0) insert(column_at + base, value_at + base, n++, column, weight[q], p.around);
            }
        }
        double size = 0.0, center = 0.0;
        for (int k = base; k < base + n; ++k) {
            size = __dadd_rn(size, fabs(value_at[k]));
            if (column_at[k] == p.number) center = value_at[k];
        }
        share[i] = __ddiv_rn(__dadd_rn(center, size), __dmul_rn(2.0, center));
    }
    __syncthreads();
    const int entries = static_cast<int>(start[min(first + static_cast<int>(blockDim.x), rows)] - begin);
    for (int k = threadIdx.x; k < entries; k += blockDim.x) {
        columns[begin + k] = column_at[k];
        values[begin + k] = value_at[k];
    }
}
