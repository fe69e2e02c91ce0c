// Products A B of sparse matrices of whose rows each has a thread, with the bits of the host's loops: kernels/amg/spgemm.py.
//
// A thread keeps sums and columns in the order in which they are found, and a table of bytes that says at which place a
// column is. Most slots are empty, so a column is found after 1.1 looks. What thread l of a warp has stands 32 places apart, so
// no two threads meet in a bank of shared memory, wherever they look. Tables that a group of lanes shares (products.cu) take
// several times as many instructions for a product: lanes meet in banks, wait for each other, and most have none.
//
// Rows of B are requested before it is their turn: a warp has its multiprocessor with a few others only.
#include "amg/table.cuh"
#include "amg/stage.cuh"
#include "amg/rooms.cuh"

constexpr int EMPTY = 255;        // a slot without a column; rows have less
constexpr int BYTES_OF_SUM = 12;  // its column included

// Sums of this thread's row.
struct Sums {
    unsigned char* slots;   // slot s at s / 4 * 128 + s % 4
    int* columns;           // place n at 32 n
    double* values;
    int bits, most, count;

    __device__ __forceinline__ Sums(char* memory, int table_bits, int most_columns) : bits(table_bits), most(most_columns), count(0) {
        const int lane = threadIdx.x % WARP;
        values = reinterpret_cast<double*>(memory) + lane;
        columns = reinterpret_cast<int*>(memory + 8 * WARP * most) + lane;
        slots = reinterpret_cast<unsigned char*>(memory + BYTES_OF_SUM * WARP * most) + 4 * lane;
    }

    // By all threads of the warp.
    __device__ __forceinline__ void clear() {
        int4* quads = reinterpret_cast<int4*>(slots - 4 * (threadIdx.x % WARP)) + threadIdx.x % WARP;
        for (int n = 0; n < 1 << (bits - 4); ++n) quads[n * WARP] = make_int4(NONE, NONE, NONE, NONE);
        __syncwarp();
        count = 0;
    }

    __device__ __forceinline__ unsigned first(int column) const {
        return static_cast<unsigned>(column) * 2654435769u >> (WARP - bits);   // 2^32 over the golden ratio (Knuth)
    }
    __device__ __forceinline__ unsigned char& slot(unsigned s) const { return slots[(s >> 2) * (4 * WARP) + (s & 3u)]; }

    // Add to the sum of a column, or begin it. Where there is no place for it, `count` says most + 1.
    __device__ __forceinline__ void add(int column, double value) {
        for (unsigned s = first(column);; s = (s + 1) & ((1u << bits) - 1u)) {
            const int place = slot(s);
            if (place == EMPTY) {
                if (count < most) {
                    slot(s) = static_cast<unsigned char>(count);
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
        }
    }
};

// Some entries of a row of B; U is a multiple of 4.
template <bool IN_ROOMS, int U>
struct Batch {
    int column[U];
    double value[U];

    // Entries from - from + size, of which there may be more.
    __device__ __forceinline__ void load(const int* __restrict__ columns, const double* __restrict__ values, long long from, int size) {
        if constexpr (IN_ROOMS) {
#pragma unroll
            for (int u = 0; u < U; u += 4) {
                const int4 four = u < size ? *reinterpret_cast<const int4*>(columns + from + u) : make_int4(0, 0, 0, 0);
                const double2 two = u < size ? *reinterpret_cast<const double2*>(values + from + u) : make_double2(0.0, 0.0);
                const double2 more = u + 2 < size ? *reinterpret_cast<const double2*>(values + from + u + 2) : make_double2(0.0, 0.0);
                column[u] = four.x, column[u + 1] = four.y, column[u + 2] = four.z, column[u + 3] = four.w;
                value[u] = two.x, value[u + 1] = two.y, value[u + 2] = more.x, value[u + 3] = more.y;
            }
        } else {
#pragma unroll
            for (int u = 0; u < U; ++u) {
                column[u] = u < size ? columns[from + u] : 0;
                value[u] = u < size ? values[from + u] : 0.0;
            }
        }
    }

    // Columns of a row are distinct, so those that are there already can be added to in any order.
    __device__ __forceinline__ void add(Sums& sums, double factor, int size) const {
        int place[U];
        double sum[U];
        unsigned there = 0;
#pragma unroll
        for (int u = 0; u < U; ++u) place[u] = u < size ? static_cast<int>(sums.slot(sums.first(column[u]))) : EMPTY;
#pragma unroll
        for (int u = 0; u < U; ++u) {
            if (place[u] != EMPTY && sums.columns[place[u] * WARP] == column[u]) there |= 1u << u;
        }
#pragma unroll
        for (int u = 0; u < U; ++u) sum[u] = there >> u & 1u ? sums.values[place[u] * WARP] : 0.0;
#pragma unroll
        for (int u = 0; u < U; ++u) {
            if (there >> u & 1u) sums.values[place[u] * WARP] = __dadd_rn(sum[u], __dmul_rn(factor, value[u]));
        }
#pragma unroll
        for (int u = 0; u < U; ++u) {
            if (u < size && !(there >> u & 1u)) sums.add(column[u], __dmul_rn(factor, value[u]));
        }
    }
};

// Where a row of B is, and what it is multiplied by.
struct Term {
    long long from;
    int size;
    double factor;
};

struct Entry {
    int column;
    double value;
};

// Rows of A B to rooms of `most` entries each, and their lengths; 0 of those that are passed on. The rows' sums are found with
// tables of 1 << bits slots.
template <bool IN_ROOMS, int U>
__device__ __forceinline__ void make_alone(
    const Stage& stage, const long long* __restrict__ a_start, const int* __restrict__ a_columns,
    const double* __restrict__ a_values, const RightRows& b, const double* __restrict__ b_values, int bits, int most,
    long long* __restrict__ counts, int* __restrict__ out_columns, double* __restrict__ out_values
) {
    extern __shared__ __align__(16) char memory[];
    const int of_warp = WARP * (BYTES_OF_SUM * most + (1 << bits));
    Sums sums(memory + threadIdx.x / WARP * of_warp, bits, most);
    sums.clear();
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= stage.rows) return;
    const long long begin = a_start[i], end = a_start[i + 1];
    const auto entry = [&](long long k) { return k < end ? Entry{a_columns[k], a_values[k]} : Entry{NONE, 0.0}; };
    const auto term = [&](const Entry& of) {
        Term found{0, 0, of.value};
        if (of.column != NONE) {
            long long length;
            b.find(of.column, found.from, length);
            found.size = static_cast<int>(min(length, 1ll << 24));
        }
        return found;
    };
    Term now = term(entry(begin)), next = term(entry(begin + 1));
    Entry then = entry(begin + 2);
    Batch<IN_ROOMS, U> batch;
    batch.load(b.columns, b_values, now.from, now.size);
    for (long long k = begin; k < end && sums.count <= most; ++k) {
        const Entry last = entry(k + 3);
        const Term after = term(then);
        Batch<IN_ROOMS, U> following;
        following.load(b.columns, b_values, next.from, next.size);
        batch.add(sums, now.factor, now.size);
        for (int m = U; m < now.size && sums.count <= most; m += U) {
            batch.load(b.columns, b_values, now.from + m, now.size - m);
            batch.add(sums, now.factor, now.size - m);
        }
        now = next;
        next = after;
        then = last;
        batch = following;
    }
    if (sums.count > most) {
        counts[i] = 0;
        stage.pass_on(static_cast<int>(i));
        return;
    }
    counts[i] = sums.count;
    int* const columns = out_columns + i * most;
    double* const values = out_values + i * most;
    for (int n = 0; n < sums.count; n += 4) {   // what is behind the last one, nobody reads
        const int* const c = sums.columns + n * WARP;
        const double* const v = sums.values + n * WARP;
        *reinterpret_cast<int4*>(columns + n) = make_int4(c[0], c[WARP], c[2 * WARP], c[3 * WARP]);
        *reinterpret_cast<double2*>(values + n) = make_double2(v[0], v[WARP]);
        *reinterpret_cast<double2*>(values + n + 2) = make_double2(v[2 * WARP], v[3 * WARP]);
    }
}

#define KERNEL(NAME, IN_ROOMS, U)                                                                                        \
    extern "C" __global__ void NAME(                                                                                     \
        STAGE, const long long* __restrict__ a_start, const int* __restrict__ a_columns,                                 \
        const double* __restrict__ a_values, RIGHT, const double* __restrict__ b_values, int bits, int most,             \
        long long* __restrict__ counts, int* __restrict__ columns, double* __restrict__ values                           \
    ) {                                                                                                                  \
        const RightRows b RIGHT_ROWS;                                                                                    \
        make_alone<IN_ROOMS, U>(                                                                                         \
            THIS_STAGE, a_start, a_columns, a_values, b, b_values, bits, most, counts, columns, values                   \
        );                                                                                                               \
    }
KERNEL(alone_of_rows, false, 4)
KERNEL(alone_of_rooms, true, 8)
