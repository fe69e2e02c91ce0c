// A look at all entries of a square matrix in compressed rows, in one pass: pointers, columns, values, sums of rows, and
// whether entries equal their mirror images. 12 bytes an entry and 8 a row come from memory.
//
// Nobody searches mirror images of a symmetric matrix (glance_*): an entry (i, j) off the diagonal becomes two numbers of 64 bits
// that depend on the smaller and the larger one of i and j and on its value. Those of entries above the diagonal are added,
// modulo 2^64, and those below taken away; as many above as below, and two zeros, say that each has its mirror image. Of a
// single pair that differs a zero is impossible, since each step of the mixing is a bijection of the value; several would have
// to cancel each other in 128 mixed bits. Where they do not end at zero each entry above the diagonal searches its mirror image
// (look_*): what is searched lies in L2 where rows are in a banded order.
//
// Nothing is taken for granted: rows whose pointers lead astray are counted and left, and so are columns that are none. Sums
// carry what rounding takes from them, so neither the number of threads nor the order changes them.

constexpr int THREADS = 256, WARP = 32, WARPS = THREADS / WARP;
constexpr int BLOCKS = 4;           // that share a multiprocessor: what is searched comes late, so many have to wait
constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr long long LONG = 1024;    // entries from which on the threads of a block share a row
constexpr double LARGEST = 1.7976931348623157e308;

struct Sum {
    double high, low;   // what rounding took is in `low`

    __device__ __forceinline__ void add(double value) {
        const double total = high + value, part = total - high;
        low += (high - (total - part)) + (value - part);
        high = total;
    }
    __device__ __forceinline__ void add(Sum other) {
        add(other.high);
        low += other.low;
    }
    __device__ __forceinline__ double value() const { return high + low; }
};

// Rows and entries of a matrix. `entries`: how many there are at most.
struct Rows {
    const long long* start;
    const int* columns;
    const double* values;
    long long rows, entries;

    __device__ __forceinline__ bool sound(long long first, long long last) const {
        return 0 <= first && first <= last && last <= entries;
    }
    // The entry of row j in column i, or -1.
    __device__ __forceinline__ long long find(int j, long long i) const {
        long long low = start[j];
        const long long end = start[j + 1];
        if (!sound(low, end)) return -1;
        for (long long high = end; low < high;) {
            const long long middle = (low + high) / 2;
            if (columns[middle] < i) low = middle + 1;
            else high = middle;
        }
        return low < end && columns[low] == i ? low : -1;
    }
    // The mirror image of the entry of row i in column j that so many others of its row stand before: on a lattice as many
    // stand behind it in row j, so that place is looked at before the search.
    __device__ __forceinline__ long long mirror(int j, long long i, long long before) const {
        const long long likely = start[j + 1] - 1 - before;
        return likely >= max(start[j], 0ll) && likely < entries && columns[likely] == i ? likely : find(j, i);
    }
};

// Sums over a row's entries.
struct RowSums {
    Sum total, size;
    double diagonal;

    __device__ __forceinline__ void add(double value, bool on_diagonal) {
        total.add(value);
        size.add(fabs(value));
        if (on_diagonal) diagonal += value;
    }
    __device__ __forceinline__ void add(const RowSums& other) {
        total.add(other.total);
        size.add(other.size);
        diagonal += other.diagonal;
    }
    __device__ __forceinline__ RowSums of_lane(int distance) const {
        return {
            {__shfl_xor_sync(ALL_LANES, total.high, distance), __shfl_xor_sync(ALL_LANES, total.low, distance)},
            {__shfl_xor_sync(ALL_LANES, size.high, distance), __shfl_xor_sync(ALL_LANES, size.low, distance)},
            __shfl_xor_sync(ALL_LANES, diagonal, distance),
        };
    }
    __device__ __forceinline__ bool cancel(double canceled) const {
        return fabs(total.value()) <= canceled * size.value();
    }
};

// Where something was found first: an entry, a row; all ones where nothing was.
struct Firsts {
    unsigned long long outside, infinite, empty, hollow;
};

__device__ __forceinline__ void note(unsigned long long& first, unsigned long long here) {
    if (here < static_cast<volatile unsigned long long&>(first)) atomicMin(&first, here);
}

// Sums of mixed entries above the diagonal, less those below, modulo 2^64.
struct Mixed {
    unsigned long long one, other;

    static __device__ __forceinline__ unsigned long long mixed(unsigned long long x) {
        x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ x >> 29) * 0x94d049bb133111ebull;
        return x ^ x >> 32;
    }
    static __device__ __forceinline__ unsigned long long signed_by(bool above, unsigned long long x) {
        return above ? x : 0ull - x;
    }

    // An entry in row and column; -0 is 0.
    __device__ __forceinline__ void add(unsigned row, unsigned column, double value) {
        const unsigned long long place = static_cast<unsigned long long>(min(row, column)) << 32 | max(row, column);
        const unsigned long long bits = __double_as_longlong(value + 0.0);
        const unsigned long long p = place * 0x9e3779b97f4a7c15ull, v = bits * 0xd6e8feb86659fd93ull;   // odd, at random
        one += signed_by(row < column, mixed((p >> 32 | p << 32) ^ v));
        other += signed_by(row < column, mixed(p ^ (v >> 32 | v << 32) * 0xa0761d6478bd642full));
    }
    __device__ __forceinline__ void add(const Mixed& more) {
        one += more.one;
        other += more.other;
    }
};

// What a thread, a warp, a block has found: the names are those of look.py. Counts of a block fit in 32 bits.
struct Found {
    double largest, difference;
    Sum positive, dominance;
    Mixed mixed;
    int pointers, outside, descending, repeated, infinite, empty, hollow, negative, opened, unmatched, upper, lower;

    __device__ __forceinline__ void merge(const Found& other) {
        largest = fmax(largest, other.largest);
        difference = fmax(difference, other.difference);
        positive.add(other.positive);
        dominance.add(other.dominance);
        mixed.add(other.mixed);
        pointers += other.pointers;
        outside += other.outside;
        descending += other.descending;
        repeated += other.repeated;
        infinite += other.infinite;
        empty += other.empty;
        hollow += other.hollow;
        negative += other.negative;
        opened += other.opened;
        unmatched += other.unmatched;
        upper += other.upper;
        lower += other.lower;
    }
};

constexpr int WORDS = sizeof(Found) / sizeof(int);
union Words {
    Found found;
    int word[WORDS];
};

// What all threads of the block have found, to `out`. A fixed tree.
__device__ void report(Found mine, int* out) {
    __shared__ int of_warp[WARPS][WORDS];
    Words words;
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        words.found = mine;
        for (int w = 0; w < WORDS; ++w) words.word[w] = __shfl_xor_sync(ALL_LANES, words.word[w], distance);
        mine.merge(words.found);
    }
    words.found = mine;
    if (threadIdx.x % WARP == 0)
        for (int w = 0; w < WORDS; ++w) of_warp[threadIdx.x / WARP][w] = words.word[w];
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int warp = 1; warp < WARPS; ++warp) {
        for (int w = 0; w < WORDS; ++w) words.word[w] = of_warp[warp][w];
        mine.merge(words.found);
    }
    words.found = mine;
    for (int w = 0; w < WORDS; ++w) out[w] = words.word[w];
}

// All rows, each by T threads, or where it is long by the threads of a block: visit(sums, row, first, k, column, value) adds entry
// k, which is the thread's, and done(row, first, last, sums) is called for the row by one thread. broken(row): its pointers lead
// astray. AHEAD: whether the next entry is asked for before one is visited.
template <int T, bool AHEAD, typename Visit, typename Done, typename Broken>
__device__ __forceinline__ void for_rows(const Rows& a, Visit visit, Done done, Broken broken) {
    __shared__ RowSums sums_of[THREADS];
    __shared__ bool some_long;
    if (threadIdx.x == 0) some_long = false;
    __syncthreads();
    constexpr int GROUPS = THREADS / T;
    const long long step = static_cast<long long>(gridDim.x) * GROUPS, begin = static_cast<long long>(blockIdx.x) * GROUPS;
    const int lane = threadIdx.x % T;
    for (long long base = begin; base < a.rows; base += step) {
        const long long row = base + threadIdx.x / T;
        long long first = 0, last = 0;
        bool mine = row < a.rows;
        if (mine) {
            first = a.start[row];
            last = a.start[row + 1];
            if (!a.sound(first, last)) {
                if (lane == 0) broken(row);
                mine = false;
            } else if (last - first > LONG) {
                some_long = true;
                mine = false;
            }
        }
        RowSums sums = {};
        if (mine)
            if (AHEAD) {
                long long k = first + lane;
                int column = k < last ? __ldg(a.columns + k) : 0;
                double value = k < last ? __ldg(a.values + k) : 0.0;
                while (k < last) {
                    const long long next = k + T;
                    const int then = next < last ? __ldg(a.columns + next) : 0;
                    const double more = next < last ? __ldg(a.values + next) : 0.0;
                    visit(sums, row, first, k, column, value);
                    k = next;
                    column = then;
                    value = more;
                }
            } else {
                for (long long k = first + lane; k < last; k += T) visit(sums, row, first, k, a.columns[k], a.values[k]);
            }
        for (int distance = T / 2; distance > 0; distance /= 2) sums.add(sums.of_lane(distance));
        if (mine && lane == 0) done(row, first, last, sums);
    }
    __syncthreads();
    if (!some_long) return;
    for (long long base = begin; base < a.rows; base += step) {
        const long long end = base + GROUPS < a.rows ? base + GROUPS : a.rows;
        for (long long row = base; row < end; ++row) {
            const long long first = a.start[row], last = a.start[row + 1];
            if (!a.sound(first, last) || last - first <= LONG) continue;
            RowSums sums = {};
            for (long long k = first + threadIdx.x; k < last; k += THREADS)
                visit(sums, row, first, k, a.columns[k], a.values[k]);
            sums_of[threadIdx.x] = sums;
            for (int distance = THREADS / 2; distance > 0; distance /= 2) {
                __syncthreads();
                if (threadIdx.x < distance) sums_of[threadIdx.x].add(sums_of[threadIdx.x + distance]);
            }
            if (threadIdx.x == 0) done(row, first, last, sums_of[0]);
            __syncthreads();
        }
    }
}

// The part of a look that follows from a row's sums.
__device__ __forceinline__ void look_at_sums(
    Found& found, Firsts& firsts, long long row, const RowSums& sums, double canceled
) {
    const double total = sums.total.value(), size = sums.size.value(), diagonal = sums.diagonal;
    found.opened += !sums.cancel(canceled);
    found.negative += diagonal <= 0.0;
    if (diagonal == 0.0) {
        ++found.hollow;
        note(firsts.hollow, row);
    }
    const double around = size - fabs(diagonal);
    if (around > 0.0 && diagonal > 0.0) {
        found.positive.add(((size + total) / 2.0 - diagonal) / around);
        found.dominance.add(1.0 - around / diagonal);
    } else {
        found.dominance.add(1.0);
    }
}

// A column that is in the matrix and on no diagonal.
__device__ __forceinline__ void look_for_mirror(
    Found& found, const Rows& a, long long row, int column, double value, long long before
) {
    found.lower += column < row;
    if (column < row) return;
    const long long at = a.mirror(column, row, before);
    ++found.upper;
    found.unmatched += at < 0;
    found.difference = fmax(found.difference, fabs(at < 0 ? value : value - a.values[at]));
}

// EXACT: whether mirror images are searched, or the sums of mixed entries tell.
template <int T, bool EXACT>
__device__ __forceinline__ void look(Rows a, double canceled, Firsts& firsts, int* out) {
    Found found = {};
    if (blockIdx.x == 0 && threadIdx.x == 0 && a.start[0] != 0) ++found.pointers;
    for_rows<T, !EXACT>(
        a,
        [&](RowSums& sums, long long row, long long first, long long k, int column, double value) {
            const double size = fabs(value);
            sums.add(value, column == row);
            found.largest = fmax(found.largest, size);
            if (!(size <= LARGEST)) {
                ++found.infinite;
                note(firsts.infinite, k);
            }
            if (k > first) {
                const int before = a.columns[k - 1];
                found.descending += before > column;
                found.repeated += before == column;
            }
            if (column < 0 || column >= a.rows) {
                ++found.outside;
                note(firsts.outside, k);
            } else if (column != row && !EXACT) {
                found.lower += column < row;
                found.upper += column > row;
                found.mixed.add(static_cast<unsigned>(row), static_cast<unsigned>(column), value);
            } else if (column != row) {
                look_for_mirror(found, a, row, column, value, k - first);
            }
        },
        [&](long long row, long long first, long long last, const RowSums& sums) {
            look_at_sums(found, firsts, row, sums, canceled);
            if (first == last) {
                ++found.empty;
                note(firsts.empty, row);
            }
        },
        [&](long long) { ++found.pointers; });
    report(found, out + static_cast<long long>(blockIdx.x) * WORDS);
}

#define CSR const long long* start, const int* columns, const double* values, long long rows, long long entries

// out: `Firsts`, and behind it what each block has found.
#define LOOK(T)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) look_##T(CSR, double canceled, Firsts* out) {     \
        look<T, true>({start, columns, values, rows, entries}, canceled, *out, reinterpret_cast<int*>(out + 1));   \
    }                                                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) glance_##T(CSR, double canceled, Firsts* out) {   \
        look<T, false>({start, columns, values, rows, entries}, canceled, *out, reinterpret_cast<int*>(out + 1));  \
    }

LOOK(1)
LOOK(2)
LOOK(4)
LOOK(8)
LOOK(16)
LOOK(32)

// -- what few matrices need: rows are in canonical form ----------------------------------------------------------------------

constexpr int USUAL = 8;

// The largest magnitude of an entry below the diagonal without a mirror image, as the bits of a double, which ascend with it.
extern "C" __global__ void __launch_bounds__(THREADS) widest_below(CSR, unsigned long long* widest) {
    const Rows a = {start, columns, values, rows, entries};
    double largest = 0.0;
    for_rows<USUAL, false>(
        a,
        [&](RowSums&, long long row, long long, long long, int column, double value) {
            if (column < row && a.find(column, row) < 0) largest = fmax(largest, fabs(value));
        },
        [](long long, long long, long long, const RowSums&) {}, [](long long) {});
    if (largest > 0.0) atomicMax(widest, static_cast<unsigned long long>(__double_as_longlong(largest)));
}

// The first pair (i, j), i < j, whose entries differ by so much, as i rows + j.
extern "C" __global__ void __launch_bounds__(THREADS) find_difference(CSR, double difference, unsigned long long* place) {
    const Rows a = {start, columns, values, rows, entries};
    unsigned long long first_place = ~0ull;
    for_rows<USUAL, false>(
        a,
        [&](RowSums&, long long row, long long, long long, long long column, double value) {
            if (column == row) return;
            const long long at = a.find(static_cast<int>(column), row);
            if (fabs(at < 0 ? value : value - a.values[at]) != difference) return;
            const unsigned long long here = min(row, column) * rows + max(row, column);
            first_place = min(first_place, here);
        },
        [](long long, long long, long long, const RowSums&) {}, [](long long) {});
    if (first_place != ~0ull) atomicMin(place, first_place);
}

// How many columns do not add up to zero, where each entry has a mirror image.
extern "C" __global__ void __launch_bounds__(THREADS) count_open_columns(CSR, double canceled, unsigned long long* opened) {
    const Rows a = {start, columns, values, rows, entries};
    unsigned long long count = 0;
    for_rows<USUAL, false>(
        a,
        [&](RowSums& sums, long long row, long long, long long, int column, double) {
            sums.add(a.values[a.find(column, row)], false);
        },
        [&](long long, long long, long long, const RowSums& sums) { count += !sums.cancel(canceled); }, [](long long) {});
    if (count) atomicAdd(opened, count);
}
