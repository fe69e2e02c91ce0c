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
// Needs csr/look/found.cuh.

constexpr int BLOCKS = 4;           // that share a multiprocessor: what is searched comes late, so many have to wait
constexpr i64 LONG = 1024;    // entries from which on the threads of a block share a row
constexpr u64 INFINITE = 0x7ffull << 52;   // bits of an infinite number; those of NaN are more

// Rows and entries of a matrix. `entries`: how many there are at most.
struct Rows {
    const i64* start;
    const int* columns;
    const double* values;
    i64 rows, entries;

    DEVICE bool sound(i64 first, i64 last) const { return 0 <= first && first <= last && last <= entries; }
    // The entry of row j in column i, or -1.
    DEVICE i64 find(int j, i64 i) const {
        i64 low = start[j];
        const i64 end = start[j + 1];
        if (!sound(low, end)) return -1;
        for (i64 high = end; low < high;) {
            const i64 middle = (low + high) / 2;
            if (columns[middle] < i) low = middle + 1;
            else high = middle;
        }
        return low < end && columns[low] == i ? low : -1;
    }
    // The mirror image of the entry of row i in column j that so many others of its row stand before: on a lattice as many
    // stand behind it in row j, so that place is looked at before the search.
    DEVICE i64 mirror(int j, i64 i, i64 before) const {
        const i64 likely = start[j + 1] - 1 - before;
        return likely >= max(start[j], 0ll) && likely < entries && columns[likely] == i ? likely : find(j, i);
    }
};

// Entry `offset` of a row, whose first one is entry `first` of all, and the column of the one before it; of the first one a column
// that is smaller than any other.
struct Entry {
    i64 row, first;
    int offset, before, column;
    double value;

    DEVICE i64 place() const { return first + offset; }
};
constexpr int NONE_BEFORE = -0x7fffffff - 1;

// All rows, each by T threads, or where it is long by the threads of a block: visit(sums, entry) adds one that is the thread's, and
// done(row, first, last, sums, lane) is called by all threads of the row, whose first two have the same numbers whether it is long
// or not, if T is not 1. broken(row): its pointers lead astray. FLIGHT: entries of a thread that are asked for together.
template <int T, int FLIGHT, typename Sums, typename Visit, typename Done, typename Broken>
DEVICE void for_rows(const Rows& a, Visit visit, Done done, Broken broken) {
    __shared__ Sums sums_of[THREADS];
    __shared__ bool some_long;
    if (threadIdx.x == 0) some_long = false;
    __syncthreads();
    constexpr int GROUPS = THREADS / T;
    const i64 step = static_cast<i64>(gridDim.x) * GROUPS, begin = static_cast<i64>(blockIdx.x) * GROUPS;
    const int lane = threadIdx.x % T;
    for (i64 base = begin; base < a.rows; base += step) {
        const i64 row = base + threadIdx.x / T;
        i64 first = 0, last = 0;
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
            UNROLLED for (int q = 0; q < FLIGHT; ++q) column[q] = k + q * T < length ? columns[q * T] : 0;
            UNROLLED for (int q = 0; q < FLIGHT; ++q) value[q] = k + q * T < length ? values[q * T] : 0.0;
            UNROLLED for (int q = 0; q < FLIGHT; ++q)
                before[q] = k + q * T < length && (q || k) ? columns[q * T - 1] : NONE_BEFORE;
            UNROLLED for (int q = 0; q < FLIGHT; ++q)
                if (k + q * T < length) visit(sums, Entry{row, first, k + q * T, before[q], column[q], value[q]});
        }
        for (int distance = T / 2; distance > 0; distance /= 2) sums.add(sums.of_lane(distance));
        if (mine) done(row, first, last, sums, lane);
    }
    __syncthreads();
    if (!some_long) return;
    for (i64 base = begin; base < a.rows; base += step) {
        const i64 end = base + GROUPS < a.rows ? base + GROUPS : a.rows;
        for (i64 row = base; row < end; ++row) {
            const i64 first = a.start[row], last = a.start[row + 1];
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
DEVICE void look_at_diagonal(Found& found, Firsts& firsts, i64 row, i64 first, i64 last, double diagonal) {
    found.negative += diagonal <= 0.0;
    if (diagonal == 0.0) {
        ++found.hollow;
        note(firsts.hollow, row);
    } else {
        found.least = fmin(found.least, fabs(diagonal));
    }
    if (first == last) {
        ++found.empty;
        note(firsts.empty, row);
    }
}

// What a row adds to `positive` (part 0) or to `dominance` (part 1).
DEVICE double share(const RowSums& sums, int part) {
    const double total = sums.total.value(), size = sums.size.value(), diagonal = sums.diagonal;
    const double around = size - fabs(diagonal);
    if (!(around > 0.0 && diagonal > 0.0)) return part;
    const double quotient = (part ? around : (size + total) / 2.0 - diagonal) / (part ? diagonal : around);
    return part ? 1.0 - quotient : quotient;
}

// What an entry is by itself; whether its column is one of the matrix.
DEVICE bool look_at_entry(Found& found, Firsts& firsts, const Rows& a, const Entry& entry) {
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

#define CSR const i64* start, const int* columns, const double* values, i64 rows, i64 entries
