// Products A B of sparse matrices with a thread for each row, with the bits of the host's loops: kernels/amg/spgemm.py.
//
// For rows of few columns. A thread keeps sums and columns in the order in which they are found, and a table of bytes that says
// at which place a column is. Most slots are empty, so a column is found after 1.1 looks. What lane l of a warp has stands
// 32 places apart, so no two lanes meet in a bank of shared memory, wherever they look.
#include "amg/table.cuh"
#include "amg/stage.cuh"

constexpr int EMPTY = 255;        // a slot without a column; rows have less
constexpr int BYTES_OF_SUM = 12;  // its column included
constexpr int BATCH = 4;          // entries of a row of B that are requested together

// Sums of this thread's row.
struct Sums {
    unsigned char* slots;   // slot s at s / 4 * 128 + s % 4
    int* columns;           // place n at 32 n
    double* values;
    int bits, most, count;  // slots by their power of two; places; how many are taken, or most + 1 if there are too few

    __device__ __forceinline__ Sums(char* memory, int table_bits, int most_columns)
        : bits(table_bits), most(most_columns), count(0) {
        const int lane = threadIdx.x % WARP;
        values = reinterpret_cast<double*>(memory) + lane;
        columns = reinterpret_cast<int*>(memory + 8 * WARP * most) + lane;
        char* const table = memory + BYTES_OF_SUM * WARP * most;
        slots = reinterpret_cast<unsigned char*>(table) + 4 * lane;
        int4* const quads = reinterpret_cast<int4*>(table) + lane;   // all lanes clear the warp's tables
        for (int n = 0; n < 1 << (bits - 4); ++n) quads[n * WARP] = make_int4(NONE, NONE, NONE, NONE);
        __syncwarp();
    }

    // Add to the sum of a column, or begin it if there is a place.
    __device__ __forceinline__ void add(int column, double value) {
        unsigned s = static_cast<unsigned>(column) * 2654435769u >> (WARP - bits);   // 2^32 over the golden ratio (Knuth)
        while (true) {
            unsigned char* const slot = slots + (s >> 2) * (4 * WARP) + (s & 3u);
            const int place = *slot;
            if (place == EMPTY) {
                if (count < most) {
                    *slot = static_cast<unsigned char>(count);
                    columns[count * WARP] = column;
                    values[count * WARP] = value;
                }
                count = min(count, most) + 1;
                return;
            }
            if (columns[place * WARP] == column) {
                values[place * WARP] = __dadd_rn(values[place * WARP], value);
                return;
            }
            s = (s + 1) & ((1u << bits) - 1u);
        }
    }
};

// Rows of A B to rooms of `most` entries each, a multiple of four, and their lengths; longer ones are passed on. Tables have
// 1 << bits slots, more than `most`.
extern "C" __global__ void make_alone(
    STAGE, const long long* __restrict__ a_start, const int* __restrict__ a_columns, const double* __restrict__ a_values,
    const long long* __restrict__ b_start, const int* __restrict__ b_columns, const double* __restrict__ b_values, int bits,
    int most, long long* __restrict__ counts, int* __restrict__ columns, double* __restrict__ values
) {
    extern __shared__ __align__(16) char memory[];
    Sums sums(memory + threadIdx.x / WARP * WARP * (BYTES_OF_SUM * most + (1 << bits)), bits, most);
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    const long long end = a_start[i + 1];
    for (long long k = a_start[i]; k < end && sums.count <= most; ++k) {
        const int j = a_columns[k];
        const double factor = a_values[k];
        const long long last = b_start[j + 1];
        for (long long m = b_start[j]; m < last && sums.count <= most; m += BATCH) {
            int column[BATCH];
            double value[BATCH];
#pragma unroll
            for (int u = 0; u < BATCH; ++u) {
                column[u] = m + u < last ? b_columns[m + u] : NONE;
                value[u] = m + u < last ? b_values[m + u] : 0.0;
            }
#pragma unroll
            for (int u = 0; u < BATCH; ++u)
                if (column[u] != NONE) sums.add(column[u], __dmul_rn(factor, value[u]));
        }
    }
    counts[i] = sums.count <= most ? sums.count : 0;
    if (sums.count > most) {
        const Stage stage = THIS_STAGE;
        stage.pass_on(static_cast<int>(i));
        return;
    }
    columns += i * most;
    values += i * most;
    for (int n = 0; n < sums.count; n += 4) {   // what is behind the last one, nobody reads
        const int* const c = sums.columns + n * WARP;
        const double* const v = sums.values + n * WARP;
        *reinterpret_cast<int4*>(columns + n) = make_int4(c[0], c[WARP], c[2 * WARP], c[3 * WARP]);
        *reinterpret_cast<double2*>(values + n) = make_double2(v[0], v[WARP]);
        *reinterpret_cast<double2*>(values + n + 2) = make_double2(v[2 * WARP], v[3 * WARP]);
    }
}
