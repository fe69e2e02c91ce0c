// What a look at a matrix finds, and its sums: of a thread, a warp, a block.
#pragma once

constexpr int THREADS = 256, WARPS = THREADS / WARP;
constexpr double LARGEST = 1.7976931348623157e308;

struct Sum {
    double high, low;   // what rounding took is in `low`

    DEVICE void add(double value) {
        const double total = high + value, part = total - high;
        low += (high - (total - part)) + (value - part);
        high = total;
    }
    DEVICE void add(Sum other) {
        add(other.high);
        low += other.low;
    }
    DEVICE double value() const { return high + low; }
    DEVICE Sum of_lane(int distance) const {
        return {__shfl_xor_sync(ALL_LANES, high, distance), __shfl_xor_sync(ALL_LANES, low, distance)};
    }
};

// Sums over a row's entries.
struct RowSums {
    Sum total, size;
    double diagonal;

    DEVICE void add(double value, bool on_diagonal) {
        total.add(value);
        size.add(fabs(value));
        if (on_diagonal) diagonal += value;
    }
    DEVICE void add(const RowSums& other) {
        total.add(other.total);
        size.add(other.size);
        diagonal += other.diagonal;
    }
    DEVICE RowSums of_lane(int distance) const {
        return {total.of_lane(distance), size.of_lane(distance), __shfl_xor_sync(ALL_LANES, diagonal, distance)};
    }
    DEVICE bool cancel(double canceled) const { return fabs(total.value()) <= canceled * size.value(); }
};

// Sums over a row's entries and over its positive ones: magnitudes follow, and few entries meet both sums where most are negative.
// A diagonal that is not positive is 0.
struct SignedSums {
    Sum total, positive;
    double diagonal;

    DEVICE void add(double value, bool on_diagonal) {
        total.add(value);
        if (__builtin_expect(value > 0.0, 0)) {
            positive.add(value);
            if (on_diagonal) diagonal = value;
        }
    }
    DEVICE void add(const SignedSums& other) {
        total.add(other.total);
        positive.add(other.positive);
        diagonal += other.diagonal;
    }
    DEVICE SignedSums of_lane(int distance) const {
        return {total.of_lane(distance), positive.of_lane(distance), __shfl_xor_sync(ALL_LANES, diagonal, distance)};
    }
    DEVICE RowSums of_row() const {
        RowSums sums = {total, {2.0 * positive.high, 2.0 * positive.low}, diagonal};
        sums.size.add(Sum{-total.high, -total.low});
        return sums;
    }
};

// Where something was found first: an entry, a row; all ones where nothing was.
struct Firsts {
    u64 outside, infinite, empty, hollow;
};

DEVICE void note(u64& first, u64 here) {
    if (here < static_cast<volatile u64&>(first)) atomicMin(&first, here);
}

// Sums of mixed entries above the diagonal, less those below, modulo 2^64.
struct Mixed {
    u64 one, other;

    // A number in two words times an odd factor, and the upper word upon the lower one: bijections.
    static DEVICE void turn(unsigned& low, unsigned& high, unsigned factor) {
        const u64 product = static_cast<u64>(low) * factor;
        high = high * factor + static_cast<unsigned>(product >> 32);
        low = static_cast<unsigned>(product) ^ high;
    }
    // After four turns each bit has turned each bit of the result in half of all cases; after three it has not. The complement
    // where `below` has all bits.
    static DEVICE u64 mixed(unsigned low, unsigned high, unsigned a, unsigned b, unsigned c, unsigned d, unsigned below) {
        turn(low, high, a);
        turn(low, high, b);
        turn(low, high, c);
        turn(low, high, d);
        return static_cast<u64>(high ^ below) << 32 | (low ^ below);
    }

    // An entry in row and column, of which `below` says whether it is below the diagonal, by all bits; -0 is 0. Of one that is
    // below the complement is added: with the one that `settle` adds it has been taken away. All factors are odd, at random.
    DEVICE void add(unsigned row, unsigned column, double value, unsigned below) {
        const unsigned near = min(row, column), far = max(row, column);
        const u64 bits = __double_as_longlong(value + 0.0);
        const unsigned low = static_cast<unsigned>(bits), high = static_cast<unsigned>(bits >> 32);
        const unsigned a = low ^ near * 0x9e3779b1u, b = high ^ far * 0x7feb352du;
        const unsigned c = high ^ far * 0x165667b1u, d = low ^ near * 0x846ca68bu;
        one += mixed(a, b, 0x85ebca6bu, 0xc2b2ae35u, 0x27d4eb2fu, 0x2545f491u, below);
        other += mixed(c, d, 0xcc9e2d51u, 0x1b873593u, 0xd6e8feb9u, 0x9fb21c65u, below);
    }
    // After so many entries below the diagonal.
    DEVICE void settle(unsigned count) {
        one += count;
        other += count;
    }
    DEVICE void add(const Mixed& more) {
        one += more.one;
        other += more.other;
    }
};

// What a thread, a warp, a block has found: the names are those of look.py. Counts of a block fit in 32 bits.
struct Found {
    double largest, difference, skewness, least;
    Sum positive, dominance;
    Mixed mixed;
    int pointers, outside, descending, repeated, infinite, empty, hollow, negative, opened, unmatched, upper, lower;

    DEVICE void merge(const Found& other) {
        largest = fmax(largest, other.largest);
        difference = fmax(difference, other.difference);
        skewness = fmax(skewness, other.skewness);
        least = fmin(least, other.least);
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
