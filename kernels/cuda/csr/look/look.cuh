// A look at all entries of a square matrix in compressed rows, in one pass: pointers, columns, values, sums of rows, and
// whether entries equal their mirror images. 12 bytes an entry and 8 a row come from memory.
//
// No thread searches mirror images of a symmetric matrix (glance_*): an entry (i, j) off the diagonal becomes two numbers of 64 bits
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
constexpr unsigned long long INFINITE = 0x7ffull << 52;   // bits of an infinite number; those of NaN are more

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
    __device__ __forceinline__ Sum of_lane(int distance) const {
        return {__shfl_xor_sync(ALL_LANES, high, distance), __shfl_xor_sync(ALL_LANES, low, distance)};
    }
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
        return {total.of_lane(distance), size.of_lane(distance), __shfl_xor_sync(ALL_LANES, diagonal, distance)};
    }
    __device__ __forceinline__ bool cancel(double canceled) const {
        return fabs(total.value()) <= canceled * size.value();
    }
};

// Sums over a row's entries and over its positive ones: magnitudes follow, and few entries meet both sums where most are negative.
// A diagonal that is not positive is 0.
struct SignedSums {
    Sum total, positive;
    double diagonal;

    __device__ __forceinline__ void add(double value, bool on_diagonal) {
        total.add(value);
        if (__builtin_expect(value > 0.0, 0)) {
            positive.add(value);
            if (on_diagonal) diagonal = value;
        }
    }
    __device__ __forceinline__ void add(const SignedSums& other) {
        total.add(other.total);
        positive.add(other.positive);
        diagonal += other.diagonal;
    }
    __device__ __forceinline__ SignedSums of_lane(int distance) const {
        return {total.of_lane(distance), positive.of_lane(distance), __shfl_xor_sync(ALL_LANES, diagonal, distance)};
    }
    __device__ __forceinline__ RowSums of_row() const {
        RowSums sums = {total, {2.0 * positive.high, 2.0 * positive.low}, diagonal};
        sums.size.add(Sum{-total.high, -total.low});
        return sums;
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

    // A number in two words times an odd factor, and the upper word upon the lower one: bijections.
    static __device__ __forceinline__ void turn(unsigned& low, unsigned& high, unsigned factor) {
        const unsigned long long product = static_cast<unsigned long long>(low) * factor;
        high = high * factor + static_cast<unsigned>(product >> 32);
        low = static_cast<unsigned>(product) ^ high;
    }
    // After four turns each bit has turned each bit of the result in half of all cases; after three it has not. The complement
    // where `below` has all bits.
    static __device__ __forceinline__ unsigned long long mixed(
        unsigned low, unsigned high, unsigned a, unsigned b, unsigned c, unsigned d, unsigned below
    ) {
        turn(low, high, a);
        turn(low, high, b);
        turn(low, high, c);
        turn(low, high, d);
        return static_cast<unsigned long long>(high ^ below) << 32 | (low ^ below);
    }

    // An entry in row and column, of which `below` says whether it is below the diagonal, by all bits; -0 is 0. Of one that is
    // below the complement is added: with the one that `settle` adds it has been taken away. All factors are odd, at random.
    __device__ __forceinline__ void add(unsigned row, unsigned column, double value, unsigned below) {
        const unsigned near = min(row, column), far = max(row, column);
        const unsigned long long bits = __double_as_longlong(value + 0.0);
        const unsigned low = static_cast<unsigned>(bits), high = static_cast<unsigned>(bits >> 32);
        const unsigned a = low ^ near * 0x9e3779b1u, b = high ^ far * 0x7feb352du;
        const unsigned c = high ^ far * 0x165667b1u, d = low ^ near * 0x846ca68bu;
        one += mixed(a, b, 0x85ebca6bu, 0xc2b2ae35u, 0x27d4eb2fu, 0x2545f491u, below);
        other += mixed(c, d, 0xcc9e2d51u, 0x1b873593u, 0xd6e8feb9u, 0x9fb21c65u, below);
    }
    // After so many entries below the diagonal.
    __device__ __forceinline__ void settle(unsigned count) {
        one += count;
        other += count;
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

// Entry `offset` of a row, whose first one is entry `first` of all, and the column of the one before it; of the first one a column
// that is smaller than any other.
struct Entry {
    long long row, first;
    int offset, before, column;
    double value;

    __device__ __forceinline__ long long place() const { return first + offset; }
};
constexpr int NONE_BEFORE = -0x7fffffff - 1;

// All rows, each by T threads, or where it is long by the threads of a block: visit(sums, entry) adds one that is the thread's, and
// done(row, first, last, sums, lane) is called by all threads of the row, whose first two have the same numbers whether it is long
// or not, if T is not 1. broken(row): its pointers lead astray. FLIGHT: entries of a thread that are asked for together.
template <int T, int FLIGHT, typename Sums, typename Visit, typename Done, typename Broken>
__device__ __forceinline__ void for_rows(const Rows& a, Visit visit, Done done, Broken broken) {
    __shared__ Sums sums_of[THREADS];
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
        Sums sums = {};
        const int length = mine ? static_cast<int>(last - first) : 0;
        const int* columns = a.columns + first + lane;
        const double* values = a.values + first + lane;
        for (int k = lane; k < length; k += FLIGHT * T, columns += FLIGHT * T, values += FLIGHT * T) {
            int before[FLIGHT], column[FLIGHT];
            double value[FLIGHT];
#pragma unroll
            for (int q = 0; q < FLIGHT; ++q) column[q] = k + q * T < length ? columns[q * T] : 0;
#pragma unroll
            for (int q = 0; q < FLIGHT; ++q) value[q] = k + q * T < length ? values[q * T] : 0.0;
#pragma unroll
            for (int q = 0; q < FLIGHT; ++q)
                before[q] = k + q * T < length && (q || k) ? columns[q * T - 1] : NONE_BEFORE;
#pragma unroll
            for (int q = 0; q < FLIGHT; ++q)
                if (k + q * T < length) visit(sums, Entry{row, first, k + q * T, before[q], column[q], value[q]});
        }
        for (int distance = T / 2; distance > 0; distance /= 2) sums.add(sums.of_lane(distance));
        if (mine) done(row, first, last, sums, lane);
    }
    __syncthreads();
    if (!some_long) return;
    for (long long base = begin; base < a.rows; base += step) {
        const long long end = base + GROUPS < a.rows ? base + GROUPS : a.rows;
        for (long long row = base; row < end; ++row) {
            const long long first = a.start[row], last = a.start[row + 1];
            if (!a.sound(first, last) || last - first <= LONG) continue;
            Sums sums = {};
            const int length = static_cast<int>(last - first);
            for (int k = threadIdx.x; k < length; k += THREADS) {
                const int before = k ? a.columns[first + k - 1] : NONE_BEFORE;
                visit(sums, Entry{row, first, k, before, a.columns[first + k], a.values[first + k]});
            }
            sums_of[threadIdx.x] = sums;
            for (int distance = THREADS / 2; distance > 0; distance /= 2) {
                __syncthreads();
                if (threadIdx.x < distance) sums_of[threadIdx.x].add(sums_of[threadIdx.x + distance]);
            }
            __syncthreads();
            done(row, first, last, sums_of[0], threadIdx.x);
            __syncthreads();
        }
    }
}

// What a row's diagonal tells.
__device__ __forceinline__ void look_at_diagonal(
    Found& found, Firsts& firsts, long long row, long long first, long long last, double diagonal
) {
    found.negative += diagonal <= 0.0;
    if (diagonal == 0.0) {
        ++found.hollow;
        note(firsts.hollow, row);
    }
    if (first == last) {
        ++found.empty;
        note(firsts.empty, row);
    }
}

// What a row adds to `positive` (part 0) or to `dominance` (part 1).
__device__ __forceinline__ double share(const RowSums& sums, int part) {
    const double total = sums.total.value(), size = sums.size.value(), diagonal = sums.diagonal;
    const double around = size - fabs(diagonal);
    if (!(around > 0.0 && diagonal > 0.0)) return part;
    const double quotient = (part ? around : (size + total) / 2.0 - diagonal) / (part ? diagonal : around);
    return part ? 1.0 - quotient : quotient;
}

// What an entry is by itself; whether its column is one of the matrix.
__device__ __forceinline__ bool look_at_entry(Found& found, Firsts& firsts, const Rows& a, const Entry& entry) {
    if (!(fabs(entry.value) <= LARGEST)) {
        ++found.infinite;
        note(firsts.infinite, entry.place());
    }
    found.descending += entry.before > entry.column;
    found.repeated += entry.offset > 0 && entry.before == entry.column;
    const bool inside = entry.column >= 0 && entry.column < a.rows;
    if (!inside) {
        ++found.outside;
        note(firsts.outside, entry.place());
    }
    return inside;
}

#define CSR const long long* start, const int* columns, const double* values, long long rows, long long entries
