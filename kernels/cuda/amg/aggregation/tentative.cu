// Q and R of aggregates, a warp each (dsolver/kernels/cuda/amg/aggregation/tentative.py).
//
// Sums have the order of the rows, as on the host (kernels/cpu/amg/aggregation/tentative.py): lanes make 32 terms together, and each of
// them adds these up one after the other. Rows are in shared memory, column after column, or where they are many in q itself.

#include "device.cuh"

constexpr int THREADS = 128;   // of a block, at most

// Rows of an aggregate in shared memory.
struct Near {
    double* base;
    int rows;

    DEVICE double& at(int row, int column) const { return base[column * rows + row]; }
};

// Rows of an aggregate where its nodes stand.
struct Far {
    double* q;
    const int* order;   // its nodes
    int size, vectors;

    DEVICE double& at(int row, int column) const {
        const i64 node = order[row / size];
        return q[(node * size + row % size) * vectors + column];
    }
};

// Sum of the terms of all rows, in their order, for all lanes.
template <typename Term>
DEVICE double sum(int rows, double* scratch, const Term& term) {
    const int lane = threadIdx.x % WARP;
    double total = 0.0;
    for (int base = 0; base < rows; base += WARP) {
        if (base + lane < rows) scratch[lane] = term(base + lane);
        __syncwarp();
        if (rows - base >= WARP) {
            UNROLLED for (int l = 0; l < WARP; ++l) total = __dadd_rn(total, scratch[l]);
        } else {
            for (int l = 0; l < rows - base; ++l) total = __dadd_rn(total, scratch[l]);
        }
        __syncwarp();
    }
    return total;
}

// The length of a column; no square overflows or underflows.
template <typename Block>
DEVICE double length_of(const Block& block, int rows, int column, double* scratch) {
    double most = 0.0;
    for (int t = threadIdx.x % WARP; t < rows; t += WARP) most = fmax(most, fabs(block.at(t, column)));
    for (int step = WARP / 2; step > 0; step /= 2) most = fmax(most, __shfl_xor_sync(ALL_LANES, most, step));
    if (!(most > 0.0)) return 0.0;
    const double total = sum(rows, scratch, [&](int t) {
        const double part = __ddiv_rn(block.at(t, column), most);
        return __dmul_rn(part, part);
    });
    return __dmul_rn(most, sqrt(total));
}

// Modified Gram-Schmidt done twice. A lane has its own rows alone; r is zero before.
template <typename Block>
DEVICE void orthonormalize(const Block& block, int rows, int vectors, double dependent, double* r, double* scratch) {
    const int lane = threadIdx.x % WARP;
    for (int j = 0; j < vectors; ++j) {
        const double size = length_of(block, rows, j, scratch);
        for (int turn = 0; turn < 2; ++turn) {
            for (int c = 0; c < j; ++c) {
                const double part = sum(rows, scratch, [&](int t) { return __dmul_rn(block.at(t, c), block.at(t, j)); });
                for (int t = lane; t < rows; t += WARP)
                    block.at(t, j) = __dadd_rn(block.at(t, j), -__dmul_rn(part, block.at(t, c)));
                if (lane == 0) r[c * vectors + j] = __dadd_rn(r[c * vectors + j], part);
            }
        }
        const double left = length_of(block, rows, j, scratch);
        const bool kept = left > __dmul_rn(dependent, size);
        if (kept && lane == 0) r[j * vectors + j] = left;
        for (int t = lane; t < rows; t += WARP) block.at(t, j) = kept ? __ddiv_rn(block.at(t, j), left) : 0.0;
    }
}

// room: doubles of a warp's shared memory, of which the first 32 are for terms.
ENTRY __launch_bounds__(THREADS) make_blocks(
    In<i64> start, In<int> order, In<double> near, int aggregates, int size, int vectors, int room,
    double dependent, double* q, double* r
) {
    extern __shared__ double memory[];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int number = blockIdx.x * (blockDim.x / WARP) + warp;
    if (number >= aggregates) return;
    double* const scratch = memory + static_cast<i64>(warp) * room;
    double* const own_r = r + static_cast<i64>(number) * vectors * vectors;
    const int* const nodes = order + start[number];
    const int width = size * vectors, rows = static_cast<int>(start[number + 1] - start[number]) * size;
    const i64 values = static_cast<i64>(rows) * vectors;
    if (values <= room - WARP) {
        const Near block{scratch + WARP, rows};
        for (int e = lane; e < values; e += WARP)
            block.at(e / vectors, e % vectors) = near[static_cast<i64>(nodes[e / width]) * width + e % width];
        __syncwarp();
        orthonormalize(block, rows, vectors, dependent, own_r, scratch);
        __syncwarp();
        for (int e = lane; e < values; e += WARP)
            q[static_cast<i64>(nodes[e / width]) * width + e % width] = block.at(e / vectors, e % vectors);
    } else {
        const Far block{q, nodes, size, vectors};
        for (i64 e = lane; e < values; e += WARP) {
            const i64 at = static_cast<i64>(nodes[e / width]) * width + e % width;
            q[at] = near[at];
        }
        __syncwarp();
        orthonormalize(block, rows, vectors, dependent, own_r, scratch);
    }
}
