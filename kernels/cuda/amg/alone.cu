// Products A B of sparse matrices with a thread for each row, with the bits of the host's loops: kernels/amg/spgemm.py.
//
// For rows of few columns. A thread keeps sums and columns in the order in which they are found, and a table of bytes that says
// at which place a column is. Most slots are empty, so a column is found after 1.1 looks. What lane l of a warp has stands
// 32 places apart, so no two lanes meet in a bank of shared memory, wherever they look.
#include "amg/table.cuh"
#include "amg/stage.cuh"
#include "amg/sums.cuh"

constexpr int BATCH = 4;    // entries of a row of B that are requested together

// Some entries of a row of B.
struct Batch {
    int column[BATCH];
    double value[BATCH];

    __device__ __forceinline__ void ask(
        long long first, long long last, const int* __restrict__ columns, const double* __restrict__ values
    ) {
#pragma unroll
        for (int u = 0; u < BATCH; ++u) {
            column[u] = first + u < last ? columns[first + u] : NONE;
            value[u] = first + u < last ? values[first + u] : 0.0;
        }
    }

    __device__ __forceinline__ void add(Sums& sums, double factor) const {
#pragma unroll
        for (int u = 0; u < BATCH; ++u)
            if (column[u] != NONE) sums.add(column[u], __dmul_rn(factor, value[u]));
    }
};

// Adds the products of an entry of A with the row first .. last - 1 of B.
__device__ __forceinline__ void add_row(
    Sums& sums, double factor, long long first, long long last, const int* __restrict__ columns,
    const double* __restrict__ values
) {
    for (long long m = first; m < last && sums.count <= sums.most; m += BATCH) {
        Batch batch;
        batch.ask(m, last, columns, values);
        batch.add(sums, factor);
    }
}

#define FACTORS                                                                                                          \
    const long long *__restrict__ a_start, const int *__restrict__ a_columns, const double *__restrict__ a_values,       \
        const long long *__restrict__ b_start, const int *__restrict__ b_columns, const double *__restrict__ b_values

// The sums of a row of A B, of which no more than most + 1 are counted.
__device__ __forceinline__ void add_rows(Sums& sums, long long i, FACTORS) {
    const long long end = a_start[i + 1];
    for (long long k = a_start[i]; k < end && sums.count <= sums.most; ++k) {
        const int j = a_columns[k];
        add_row(sums, a_values[k], b_start[j], b_start[j + 1], b_columns, b_values);
    }
}

// Rows of A B to rooms of `most` entries each, a multiple of four, and their lengths; longer ones are passed on. Tables have
// 1 << bits slots, more than `most`.
extern "C" __global__ void make_alone(
    STAGE, FACTORS, int bits, int most, long long* __restrict__ counts, int* __restrict__ columns,
    double* __restrict__ values
) {
    extern __shared__ __align__(16) char memory[];
    Sums sums(memory + threadIdx.x / WARP * bytes_of_sums(bits, most), bits, most);
    const Stage stage = THIS_STAGE;
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    add_rows(sums, i, a_start, a_columns, a_values, b_start, b_columns, b_values);
    counts[i] = sums.count <= most ? sums.count : 0;
    if (sums.count > most) stage.pass_on(static_cast<int>(i));
    else sums.store(columns + i * most, values + i * most);
}

// Values of rows of A B whose columns are known, in the order in which they are found: of all that have no more than `most`.
extern "C" __global__ void fill_alone(
    STAGE, FACTORS, int bits, int most, const long long* __restrict__ start, double* __restrict__ values
) {
    extern __shared__ __align__(16) char memory[];
    Sums sums(memory + threadIdx.x / WARP * bytes_of_sums(bits, most), bits, most);
    const Stage stage = THIS_STAGE;
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    const long long to = start[i];
    if (start[i + 1] - to > most) {
        stage.pass_on(static_cast<int>(i));
        return;
    }
    add_rows(sums, i, a_start, a_columns, a_values, b_start, b_columns, b_values);
    for (int n = 0; n < sums.count; ++n) values[to + n] = sums.values[n * WARP];
}
