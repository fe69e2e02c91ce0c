// Looks at a matrix that searches mirror images, and what few matrices need.

#include "device.cuh"
#include "csr/look/found.cuh"
#include "csr/look/look.cuh"

// A column that is in the matrix and on no diagonal.
DEVICE void look_for_mirror(Found& found, const Rows& a, const Entry& entry) {
    found.lower += entry.column < entry.row;
    if (entry.column < entry.row) return;
    const i64 at = a.mirror(entry.column, entry.row, entry.offset);
    ++found.upper;
    found.unmatched += at < 0;
    const double mirrored = at < 0 ? 0.0 : a.values[at], apart = fabs(entry.value - mirrored);
    found.difference = fmax(found.difference, apart);
    if (at >= 0 && apart > 0.0)
        found.skewness = fmax(found.skewness, apart / (fabs(entry.value) + fabs(mirrored)));
}

// Everything, with mirror images that are searched.
EACH(T, 1, 2, 4, 8, 16, 32) ENTRY __launch_bounds__(THREADS, BLOCKS) look_##T(CSR, double canceled, Firsts* out) {
    const Rows a{start, columns, values, rows, entries};
    Firsts& firsts = *out;
    Found found = {};
    found.least = LARGEST;
    if (blockIdx.x == 0 && threadIdx.x == 0 && a.start[0] != 0) ++found.pointers;
    for_rows<T, 1, RowSums>(
        a,
        [&](RowSums& sums, const Entry& entry) {
            sums.add(entry.value, entry.column == entry.row);
            found.largest = fmax(found.largest, fabs(entry.value));
            if (look_at_entry(found, firsts, a, entry) && entry.column != entry.row) look_for_mirror(found, a, entry);
        },
        [&](i64 row, i64 first, i64 last, const RowSums& sums, int lane) {
            if (lane) return;
            look_at_diagonal(found, firsts, row, first, last, sums.diagonal);
            found.opened += !sums.cancel(canceled);
            found.positive.add(share(sums, 0));
            found.dominance.add(share(sums, 1));
        },
        [&](i64) { ++found.pointers; });
    report(found, reinterpret_cast<int*>(out + 1) + static_cast<i64>(blockIdx.x) * WORDS);
}

// -- what few matrices need: rows are in canonical form ----------------------------------------------------------------------

constexpr int USUAL = 8;

// The largest magnitude of an entry below the diagonal without a mirror image, as the bits of a double, which ascend with it.
ENTRY __launch_bounds__(THREADS) widest_below(CSR, u64* widest) {
    const Rows a = {start, columns, values, rows, entries};
    double largest = 0.0;
    for_rows<USUAL, 1, RowSums>(
        a,
        [&](RowSums&, const Entry& entry) {
            if (entry.column < entry.row && a.find(entry.column, entry.row) < 0) largest = fmax(largest, fabs(entry.value));
        },
        [](i64, i64, i64, const RowSums&, int) {}, [](i64) {});
    if (largest > 0.0) atomicMax(widest, static_cast<u64>(__double_as_longlong(largest)));
}

// The first pair (i, j), i < j, whose entries differ by so much, as i rows + j.
ENTRY __launch_bounds__(THREADS) find_difference(CSR, double difference, u64* place) {
    const Rows a = {start, columns, values, rows, entries};
    u64 first_place = ~0ull;
    for_rows<USUAL, 1, RowSums>(
        a,
        [&](RowSums&, const Entry& entry) {
            const i64 row = entry.row, column = entry.column;
            if (column == row) return;
            const i64 at = a.find(entry.column, row);
            if (fabs(at < 0 ? entry.value : entry.value - a.values[at]) != difference) return;
            const u64 here = min(row, column) * rows + max(row, column);
            first_place = min(first_place, here);
        },
        [](i64, i64, i64, const RowSums&, int) {}, [](i64) {});
    if (first_place != ~0ull) atomicMin(place, first_place);
}

// How many columns do not add up to zero, where each entry has a mirror image.
ENTRY __launch_bounds__(THREADS) count_open_columns(CSR, double canceled, u64* opened) {
    const Rows a = {start, columns, values, rows, entries};
    u64 count = 0;
    for_rows<USUAL, 1, RowSums>(
        a,
        [&](RowSums& sums, const Entry& entry) { sums.add(a.values[a.find(entry.column, entry.row)], false); },
        [&](i64, i64, i64, const RowSums& sums, int lane) { count += lane == 0 && !sums.cancel(canceled); },
        [](i64) {});
    if (count) atomicAdd(opened, count);
}
