// Rows of products A B that have many columns, a block of threads for each, with the bits of kernels/cpu/amg/products.py.
//
// A bit of shared memory stands for each column: set for those that the row has. How many are set before a column is the place
// of its sum among the ascending ones, so there is neither a table to search nor anything to sort. Columns are looked at in
// ranges that shared memory has bits for, 1.25 of them for each column; most rows have one range, which begins at their first
// column.
//
// Which columns a row has is found in any order. Sums are added up entry by entry of the row of A: the columns of a row of B are
// distinct, so that no floating-point number is added by an atomic operation. They stand in shared memory where it has room
// for the row. AHEAD rows of B are requested at a time, because waiting for memory is what takes the time.
#include "device.cuh"
#include "sparse/table.cuh"

constexpr int THREADS = 256;
constexpr int LANES = 8;          // that look for columns in a row of B
constexpr int AHEAD = 4;
constexpr int GROUP = 128;        // columns of which it is known how many there are before

struct Matrix {
    const i64* start;
    const int* columns;
    const double* values;
};

// The columns `from` .. from + range - 1: a bit of each, and how many of a group's row are before it.
struct Range {
    unsigned* bits;
    int* before;
    int from, range;

    DEVICE unsigned at(int column) const { return static_cast<unsigned>(column - from); }
    DEVICE bool has(int column) const { return column != NONE && at(column) < static_cast<unsigned>(range); }

    DEVICE void clear() const { for (int w = threadIdx.x; w < range / WARP; w += THREADS) bits[w] = 0u; }

    DEVICE void set(int column) const {
        const unsigned bit = 1u << at(column) % WARP;
        unsigned* const word = bits + at(column) / WARP;
        if (!(*static_cast<volatile unsigned*>(word) & bit)) atomicOr(word, bit);   // most columns are there
    }

    DEVICE int count(int group) const {
        const uint4 four = reinterpret_cast<const uint4*>(bits)[group];
        return __popc(four.x) + __popc(four.y) + __popc(four.z) + __popc(four.w);
    }

    // The place of a column that is there among all of the row.
    DEVICE int place(int column) const {
        const unsigned c = at(column), k = c / WARP % 4;
        const uint4 four = reinterpret_cast<const uint4*>(bits)[c / GROUP];
        const unsigned word = k == 0 ? four.x : k == 1 ? four.y : k == 2 ? four.z : four.w;
        return before[c / GROUP] + (k > 0 ? __popc(four.x) : 0) + (k > 1 ? __popc(four.y) : 0) + (k > 2 ? __popc(four.z) : 0)
            + __popc(word & ((1u << c % WARP) - 1u));
    }
};

// Visits all products of a row of A, entries first .. last - 1, in any order.
template <typename Visit>
DEVICE void each_column(const Matrix a, const Matrix b, i64 first, i64 last, Visit visit) {
    for (i64 k = first + threadIdx.x / LANES; k < last; k += THREADS / LANES) {
        const int j = a.columns[k];
        const i64 end = b.start[j + 1];
        for (i64 m = b.start[j] + threadIdx.x % LANES; m < end; m += LANES) visit(b.columns[m]);
    }
}

// The first and the last column of a row, for all threads; of one without columns, 0 and -1. Rows of ranges that have all
// columns are not looked at.
DEVICE int2 limits(const Matrix a, const Matrix b, i64 first, i64 last, int columns, int range) {
    __shared__ int low, high;
    if (columns <= range) return make_int2(0, columns - 1);
    __syncthreads();   // threads that are late still read those of the row before
    if (threadIdx.x == 0) { low = columns; high = -1; }
    __syncthreads();
    int least = columns, most = -1;
    each_column(a, b, first, last, [&](int column) { least = min(least, column); most = max(most, column); });
    least = __reduce_min_sync(ALL_LANES, least);
    most = __reduce_max_sync(ALL_LANES, most);
    if (threadIdx.x % WARP == 0) { atomicMin(&low, least); atomicMax(&high, most); }
    __syncthreads();
    return make_int2(low / GROUP * GROUP, high);
}

// The sum over the threads before this one, and over all of them.
DEVICE int2 sums_of_block(int value) {
    __shared__ int of_warp[THREADS / WARP];
    const Group<WARP> group;
    const int until = group.scan(value), warp = threadIdx.x / WARP;
    __syncthreads();
    if (group.lane == WARP - 1) of_warp[warp] = until;
    __syncthreads();
    int before = until - value, all = 0;
    for (int w = 0; w < THREADS / WARP; ++w) {
        if (w < warp) before += of_warp[w];
        all += of_warp[w];
    }
    return make_int2(before, all);
}

// The bits of a range of a row.
DEVICE void find(const Range& there, const Matrix a, const Matrix b, i64 first, i64 last) {
    __syncthreads();
    there.clear();
    __syncthreads();
    each_column(a, b, first, last, [&](int column) { if (there.has(column)) there.set(column); });
    __syncthreads();
}

#define MATRICES \
    In<int> rows, In<i64> a_start, In<int> a_columns, In<double> a_values, In<i64> b_start, \
    In<int> b_columns, In<double> b_values, int columns, int range
#define OWN_ROW                                                                                                          \
    const Matrix a{a_start, a_columns, a_values}, b{b_start, b_columns, b_values};                                       \
    const int i = rows[blockIdx.x];                                                                                      \
    const i64 first = a_start[i], last = a_start[i + 1];                                                                 \
    extern __shared__ __align__(16) char memory[];

// lengths[n] of row rows[n] of A B, a block each.
ENTRY __launch_bounds__(THREADS) count_wide(MATRICES, Out<i64> lengths) {
    OWN_ROW
    Range there{reinterpret_cast<unsigned*>(memory), nullptr, 0, range};
    const int2 ends = limits(a, b, first, last, columns, range);
    int found = 0;
    for (i64 from = ends.x; from <= ends.y; from += range) {
        there.from = static_cast<int>(from);
        find(there, a, b, first, last);
        for (int group = threadIdx.x; group < range / GROUP; group += THREADS) found += there.count(group);
    }
    const int all = sums_of_block(found).y;
    if (threadIdx.x == 0) lengths[blockIdx.x] = all;
}

// Row rows[n] of A B with ascending columns, a block each, from starts[n] on, where the row before has its end. `room` sums fit
// into shared memory. `turns`, unless it is null: for each entry the number of its first product, with n above it.
ENTRY __launch_bounds__(THREADS) fill_wide(
    MATRICES, int room, In<i64> starts, In<i64> lengths, Out<int> out_columns, double* out_values, i64* turns
) {
    OWN_ROW
    __shared__ i64 row_of[THREADS];
    __shared__ int size_of[THREADS];
    __shared__ double factor_of[THREADS];
    Range there{reinterpret_cast<unsigned*>(memory), reinterpret_cast<int*>(memory + range / 8), 0, range};
    double* const own = reinterpret_cast<double*>(memory + range / 8 + range / GROUP * 4);
    const i64 out = starts[blockIdx.x];
    const int size = static_cast<int>(lengths[blockIdx.x]);
    double* const sums = size <= room ? own : out_values + out;
    const int2 ends = limits(a, b, first, last, columns, range);
    int found = 0;
    for (i64 from = ends.x; from <= ends.y && found < size; from += range) {
        there.from = static_cast<int>(from);
        find(there, a, b, first, last);
        const int groups = range / GROUP, mine = (groups + THREADS - 1) / THREADS, begin = threadIdx.x * mine;
        int of_mine = 0;
        for (int g = begin; g < begin + mine && g < groups; ++g) of_mine += there.count(g);
        const int2 counted = sums_of_block(of_mine);
        int at = found + counted.x;
        for (int g = begin; g < begin + mine && g < groups; ++g) {
            there.before[g] = at;
            at += there.count(g);
        }
        __syncthreads();
        for (int w = threadIdx.x; w < range / WARP; w += THREADS) {
            unsigned left = there.bits[w];
            if (!left) continue;
            int column = there.from + w * WARP, place = there.place(column);   // of the first one, whether it is there or not
            for (; left; left &= left - 1u, ++place) {
                out_columns[out + place] = column + __ffs(left) - 1;
                sums[place] = -0.0;   // and not 0.0, which would change a sum of terms that are -0.0
                if (turns) turns[out + place] = -1;
            }
        }
        i64 turn = static_cast<i64>(blockIdx.x) << 40;
        const auto add = [&](int column, double term) {
            if (!there.has(column)) return;
            const int place = there.place(column);
            sums[place] = __dadd_rn(sums[place], term);
            if (turns && turns[out + place] < 0) turns[out + place] = turn + threadIdx.x;
        };
        for (i64 k = first; k < last; k += THREADS) {
            const int count = static_cast<int>(last - k < THREADS ? last - k : THREADS);
            __syncthreads();
            if (threadIdx.x < count) {
                const int j = a_columns[k + threadIdx.x];
                row_of[threadIdx.x] = b_start[j];
                size_of[threadIdx.x] = static_cast<int>(b_start[j + 1] - b_start[j]);
                factor_of[threadIdx.x] = a_values[k + threadIdx.x];
            }
            __syncthreads();
            for (int q = 0; q < count; q += AHEAD) {
                int column[AHEAD];
                double term[AHEAD];
                UNROLLED for (int n = 0; n < AHEAD; ++n) {
                    const bool has = q + n < count && static_cast<int>(threadIdx.x) < size_of[q + n];
                    const i64 m = has ? row_of[q + n] + threadIdx.x : 0;
                    column[n] = has ? b_columns[m] : NONE;
                    term[n] = has ? __dmul_rn(factor_of[q + n], b_values[m]) : 0.0;
                }
                UNROLLED for (int n = 0; n < AHEAD; ++n) {
                    if (q + n >= count) break;
                    add(column[n], term[n]);
                    turn += THREADS;
                    for (int base = THREADS; base < size_of[q + n]; base += THREADS, turn += THREADS) {
                        const int m = base + threadIdx.x;
                        if (m < size_of[q + n])
                            add(b_columns[row_of[q + n] + m], __dmul_rn(factor_of[q + n], b_values[row_of[q + n] + m]));
                    }
                    __syncthreads();
                }
            }
        }
        found += counted.y;
    }
    __syncthreads();
    if (size <= room)
        for (int n = threadIdx.x; n < size; n += THREADS) out_values[out + n] = own[n];
}
