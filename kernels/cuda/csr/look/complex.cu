// A look at complex rows and turned entries of Hermitian ones: the loops of kernels/cpu/csr/complex_look.py and gauge.py, a thread
// a row. 20 bytes an entry, whose neighbors in L1 are those of the threads beside; what is searched lies in L2 where rows are in a
// banded order. Products are not contracted, so that bits are those of the host, but for the last ones of magnitudes.

#include "device.cuh"

constexpr int THREADS = 256;

struct Rows {
    const i64* start;
    const int* columns;
    const double2* values;
    i64 rows;

    DEVICE i64 row() const { return static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x; }

    // The entry of row i in column j, or -1. On a lattice as many entries stand behind a mirror image as before the entry itself:
    // that place is looked at before the search.
    DEVICE i64 find(int i, i64 j, i64 behind) const {
        i64 low = start[i];
        const i64 end = start[i + 1], likely = end - 1 - behind;
        if (likely >= low && columns[likely] == j) return likely;
        for (i64 high = end; low < high;) {
            const i64 middle = (low + high) / 2;
            if (columns[middle] < j) low = middle + 1;
            else high = middle;
        }
        return low < end && columns[low] == j ? low : -1;
    }
    // The mirror image of entry k of a row; zero where there is none.
    DEVICE double2 mirror(i64 row, i64 k) const {
        const i64 at = find(columns[k], row, k - start[row]);
        return at < 0 ? double2{0.0, 0.0} : values[at];
    }
};

#define ROWS const i64* start, const int* columns, const double2* values, i64 rows
#define OWN_ROW                                        \
    const Rows a = {start, columns, values, rows};     \
    const i64 row = a.row();                           \
    if (row >= rows) return;                           \
    const i64 first = start[row], last = start[row + 1]

// The larger one of two numbers of a thread's and of all, as bits of doubles that are not negative, which ascend with them.
DEVICE void raise(u64& most, double found) {
    const u64 bits = static_cast<u64>(__double_as_longlong(found));
    if (bits > static_cast<volatile u64&>(most)) atomicMax(&most, bits);
}

// found: the largest |a_ij|, |a_ij - a_ji| and |a_ij - conj(a_ji)|, zeros before.
ENTRY __launch_bounds__(THREADS) mirror_images(ROWS, u64* found) {
    OWN_ROW;
    double largest = 0.0, difference = 0.0, conjugate = 0.0;
    for (i64 k = first; k < last; ++k) {
        const double2 value = values[k];
        largest = fmax(largest, hypot(value.x, value.y));
        const double2 other = columns[k] == row ? value : a.mirror(row, k);
        difference = fmax(difference, hypot(value.x - other.x, value.y - other.y));
        conjugate = fmax(conjugate, hypot(value.x - other.x, value.y + other.y));
    }
    raise(found[0], largest);
    raise(found[1], difference);
    raise(found[2], conjugate);
}

// The first entry that differs by so much from its mirror image, as row * rows + column.
ENTRY __launch_bounds__(THREADS) find_apart(ROWS, double difference, u64* place) {
    OWN_ROW;
    for (i64 k = first; k < last; ++k) {
        const double2 value = values[k], other = columns[k] == row ? value : a.mirror(row, k);
        if (hypot(value.x - other.x, value.y - other.y) == difference)
            atomicMin(place, static_cast<u64>(row * rows + columns[k]));
    }
}

ENTRY __launch_bounds__(THREADS) row_sums(ROWS, i64* places, double2* own, double2* sums) {
    OWN_ROW;
    double2 total = {0.0, 0.0}, diagonal = {0.0, 0.0};
    i64 at = -1;
    for (i64 k = first; k < last; ++k) {
        const double2 value = values[k];
        total = {total.x + value.x, total.y + value.y};
        if (columns[k] != row) continue;
        at = k;
        diagonal = value;
    }
    places[row] = at;
    own[row] = diagonal;
    sums[row] = total;
}

// A part of an entry, turned where the diagonals of both rows are negative together.
DEVICE double turned_part(double part, double here, double there) { return here + there < 0.0 ? -part : part; }

ENTRY __launch_bounds__(THREADS) row_parts(
    ROWS, const double2* own, double* out, double* sums, double* around, bool* mixed
) {
    OWN_ROW;
    const double2 here = own[row];
    double total = 0.0, size = 0.0;
    bool apart = false;
    for (i64 k = first; k < last; ++k) {
        const double2 value = values[k], there = own[columns[k]];
        if (columns[k] == row) {
            total += fabs(value.x);
            out[k] = 0.0;
            continue;
        }
        const double re = turned_part(value.x, here.x, there.x), both = re + turned_part(value.y, here.y, there.y);
        out[k] = both;
        total += re;
        size += fabs(both);
        apart |= (value.x != 0.0 && here.x * there.x < 0.0) || (value.y != 0.0 && here.y * there.y < 0.0);
    }
    sums[row] = total;
    around[row] = size;
    mixed[row] = apart;
}

// -- phases ------------------------------------------------------------------------------------------------------------

// a b + sign c d, each product rounded.
DEVICE double products(double a, double b, double sign, double c, double d) {
    return __dadd_rn(__dmul_rn(a, b), sign * __dmul_rn(c, d));
}

ENTRY __launch_bounds__(THREADS) largest_squares(ROWS, double* out) {
    OWN_ROW;
    double most = 0.0;
    for (i64 k = first; k < last; ++k)
        if (columns[k] != row) most = fmax(most, products(values[k].x, values[k].x, 1.0, values[k].y, values[k].y));
    out[row] = most;
}

ENTRY __launch_bounds__(THREADS) relax(ROWS, const double2* turned, const i64* aggregate, double2* out) {
    OWN_ROW;
    double2 wanted = {0.0, 0.0};
    for (i64 k = first; k < last; ++k) {
        const int j = columns[k];
        if (j == row || aggregate[j] != aggregate[row]) continue;
        const double2 value = values[k], there = turned[j];
        wanted.x -= products(value.x, there.x, -1.0, value.y, there.y);
        wanted.y -= products(value.x, there.y, 1.0, value.y, there.x);
    }
    double2 middle = turned[row];
    double size = sqrt(products(wanted.x, wanted.x, 1.0, wanted.y, wanted.y));
    if (size > 0.0) middle = {middle.x + wanted.x / size, middle.y + wanted.y / size};
    size = sqrt(products(middle.x, middle.x, 1.0, middle.y, middle.y));
    out[row] = size > 0.0 ? double2{middle.x / size, middle.y / size} : turned[row];
}

ENTRY __launch_bounds__(THREADS) turn(ROWS, const double2* turned, double2* out) {
    OWN_ROW;
    const double2 own = turned[row];
    for (i64 k = first; k < last; ++k) {
        const double2 value = values[k], there = turned[columns[k]];
        const double re = products(value.x, there.x, -1.0, value.y, there.y);
        const double im = products(value.x, there.y, 1.0, value.y, there.x);
        out[k] = {products(own.x, re, 1.0, own.y, im), products(own.x, im, -1.0, own.y, re)};
    }
}
