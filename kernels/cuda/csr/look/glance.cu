// A look at a matrix that searches nothing.

#include "device.cuh"
#include "csr/look/found.cuh"
#include "csr/look/look.cuh"

// Everything, where the sums of mixed entries tell of mirror images. Instructions take the time, so an entry has few: what few
// matrices have in their rows is only noticed, and if a block has noticed anything it goes through its rows once more.
EACH(T, 1, 2, 4, 8, 16, 32) ENTRY __launch_bounds__(THREADS, BLOCKS) glance_##T(CSR, double canceled, Firsts* out) {
    const Rows a{start, columns, values, rows, entries};
    Firsts& firsts = *out;
    constexpr int FLIGHT = 4, PARTS = T == 1 ? 2 : 1;   // of a row's two shares, that a thread adds up
    Mixed mixed = {};
    Sum shares[PARTS] = {};
    u64 largest = 0;   // its bits, which ascend with it
    unsigned coupled = 0, lower = 0, opened = 0, last_column = 0;
    double least = LARGEST;
    int least_step = 1;   // from a column to the next one; wrong where one of them is none, which the largest one tells
    bool odd = blockIdx.x == 0 && threadIdx.x == 0 && a.start[0] != 0;
    for_rows<T, FLIGHT, SignedSums>(
        a,
        [&](SignedSums& sums, const Entry& entry) {
            const u64 size = __double_as_longlong(entry.value) & ~0ull >> 1;
            const unsigned row = static_cast<unsigned>(entry.row), column = static_cast<unsigned>(entry.column);
            largest = size > largest ? size : largest;
            last_column = max(last_column, column);
            if (entry.offset > 0) least_step = min(least_step, entry.column - entry.before);
            sums.add(entry.value, column == row);
            if (column == row) return;
            const unsigned below = column < row ? ~0u : 0u;
            ++coupled;
            lower -= below;
            mixed.add(row, column, entry.value, below);
        },
        [&](i64, i64, i64, const SignedSums& signed_sums, int lane) {
            if (lane >= (T == 1 ? 1 : 2)) return;   // of a long row there are other lanes, too
            const RowSums sums = signed_sums.of_row();
            odd |= !(sums.diagonal > 0.0);
            if (sums.diagonal > 0.0) least = fmin(least, sums.diagonal);
            opened += lane == 0 && !sums.cancel(canceled);
            UNROLLED for (int n = 0; n < PARTS; ++n) shares[n].add(share(sums, PARTS == 1 ? lane : n));
        },
        [&](i64) { odd = true; });
    odd |= largest >= INFINITE || last_column >= a.rows || least_step < 1;
    Found found = {};
    mixed.settle(lower);
    found.mixed = mixed;
    found.largest = __longlong_as_double(largest);
    found.least = least;
    found.lower = lower;
    found.upper = coupled - lower;
    found.opened = opened;
    if (PARTS == 2 || threadIdx.x % T == 0) found.positive = shares[0];
    if (PARTS == 2 || threadIdx.x % T == 1) found.dominance = shares[PARTS - 1];
    __shared__ bool some_odd;
    if (threadIdx.x == 0) some_odd = false;
    __syncthreads();
    if (odd) some_odd = true;
    __syncthreads();
    if (some_odd) {
        found.pointers = blockIdx.x == 0 && threadIdx.x == 0 && a.start[0] != 0;
        for_rows<T, 1, RowSums>(
            a,
            [&](RowSums& sums, const Entry& entry) {
                sums.add(entry.value, entry.column == entry.row);
                look_at_entry(found, firsts, a, entry);
            },
            [&](i64 row, i64 first, i64 last, const RowSums& sums, int lane) {
                if (lane == 0) look_at_diagonal(found, firsts, row, first, last, sums.diagonal);
            },
            [&](i64) { ++found.pointers; });
    }
    report(found, reinterpret_cast<int*>(out + 1) + static_cast<i64>(blockIdx.x) * WORDS);
}
