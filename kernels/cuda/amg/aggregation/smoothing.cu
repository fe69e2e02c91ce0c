// Smoother of a tentative prolongation (dsolver/kernels/cuda/amg/aggregation/smoothing.py).

#include "device.cuh"

constexpr int THREADS = 256;

#define CSR In<i64> start, In<int> columns, In<double> values
#define FOR_ROW const int i = blockIdx.x * THREADS + threadIdx.x; if (i >= rows) return

// An entry of I - w D^-1 A_F; weak: what is added to the diagonal's part, over it.
DEVICE double entry(bool own, double value, double center, double damping, double weak) {
    if (own) return __dadd_rn(1.0, -__dmul_rn(damping, __dadd_rn(1.0, weak)));
    return __dmul_rn(-damping, __ddiv_rn(value, center));
}

// Values of I - w D^-1 A, G lanes a row: 20 bytes an entry.
EACH(G, 2, 16) ENTRY __launch_bounds__(THREADS) smooth_all_##G(
    CSR, int rows, int below, In<double> damping, In<double> diagonal, Out<double> out
) {
    const int i = static_cast<int>((static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x) / G);
    if (i >= rows) return;
    const double factor = damping[i], center = diagonal[i];
    for (i64 k = start[i] + threadIdx.x % G; k < start[i + 1]; k += G)
        out[k] = entry(columns[k] == below + i, values[k], center, factor, 0.0);
}

// Which entries are of the diagonal or of a graph: a thread a row, whose columns ascend in both.
ENTRY __launch_bounds__(THREADS) keep_entries(
    In<i64> start, In<int> columns, int rows, int below, In<i64> graph_start, In<int> graph_columns,
    Out<unsigned char> keep
) {
    FOR_ROW;
    i64 m = graph_start[i];
    const i64 end = graph_start[i + 1];
    for (i64 k = start[i]; k < start[i + 1]; ++k) {
        const int column = columns[k];
        while (m < end && graph_columns[m] < column) ++m;
        keep[k] = column == below + i || (m < end && graph_columns[m] == column);
    }
}

ENTRY __launch_bounds__(THREADS) count_kept(In<i64> start, In<unsigned char> keep, int rows, Out<i64> lengths) {
    FOR_ROW;
    i64 n = 0;
    for (i64 k = start[i]; k < start[i + 1]; ++k) n += keep[k];
    lengths[i] = n;
}

// Rows of I - w D^-1 A_F, a thread each: the sums have the order of the rows.
ENTRY __launch_bounds__(THREADS) smooth_kept(
    CSR, int rows, int below, In<unsigned char> keep, In<double> near, In<double> damping, In<double> diagonal,
    In<i64> out_start, Out<int> out_columns, Out<double> out_values
) {
    FOR_ROW;
    const double own = near[below + i], center = diagonal[i];
    double weak = 0.0;
    for (i64 k = start[i]; own != 0.0 && k < start[i + 1]; ++k)
        if (!keep[k]) weak = __dadd_rn(weak, __dmul_rn(values[k], __ddiv_rn(near[columns[k]], own)));
    i64 n = out_start[i];
    for (i64 k = start[i]; k < start[i + 1]; ++k) {
        if (!keep[k]) continue;
        out_columns[n] = columns[k];
        out_values[n++] = entry(columns[k] == below + i, values[k], center, damping[i], __ddiv_rn(weak, center));
    }
}
