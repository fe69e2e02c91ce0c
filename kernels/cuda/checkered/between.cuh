// Fine points between coarse ones, their weights and their sums: what corners.cu and parities.cu share. Comes after slices.cuh.
//
// Along a coarsened axis coarse point I is fine point 2 I + 1, and an even point lies between two coarse ones, its corners. A fine
// point has a weight for each of its corners along the axes along which it lies between; the first such axis has the first bit of a
// weight's number.
//
// Functions are cut, and take references, so that the compiler sees loads and tests in the order of passes that are written out:
// larger ones, or numbers in place of references, made kernels with other registers.
#pragma once

// The coarse point below (bit 0) or above (bit 1) point i that lies between two of n, or -1 for none.
DEVICE int corner(int i, int bit, int n, bool wraps) {
    const int at = i / 2 - 1 + bit;
    return at >= 0 && at < n ? at : wraps ? (at < 0 ? n - 1 : 0) : -1;
}

// Along which axes a point lies between coarse ones, and which corner along each of them its weight `number` is of. Of an index the
// last bit counts; `halved` and `wraps`: axes that are coarsened, and periodic ones, as bits.
struct Between {
    bool x, y, z;

    Between() = default;
    DEVICE Between(int i, int j, int k, int halved)
        : x(halved & 1 && !(i & 1)), y(halved & 2 && !(j & 1)), z(halved & 4 && !(k & 1)) {}
    DEVICE int weights() const { return 1 << (x + y + z); }
    DEVICE int bit_x(int number) const { return number & 1; }
    DEVICE int bit_y(int number) const { return number >> x & 1; }
    DEVICE int bit_z(int number) const { return number >> (x + y) & 1; }
    // Along an axis of n coarse points the one that the weight is of, or -1 for none.
    DEVICE int coarse_x(int number, int i, const int& n, const int& wraps, const int& halved) const {
        return x ? corner(i, bit_x(number), n, wraps & 1) : halved & 1 ? i / 2 : i;
    }
    DEVICE int coarse_y(int number, int j, const int& n, const int& wraps, const int& halved) const {
        return y ? corner(j, bit_y(number), n, wraps & 2) : halved & 2 ? j / 2 : j;
    }
    DEVICE int coarse_z(int number, int k, const int& n, const int& wraps, const int& halved) const {
        return z ? corner(k, bit_z(number), n, wraps & 4) : halved & 4 ? k / 2 : k;
    }
    // The number among the corners along all three axes: a + 2 b + 4 c.
    DEVICE int of_all(int number) const {
        return (x ? bit_x(number) : 0) + (y ? 2 * bit_y(number) : 0) + (z ? 4 * bit_z(number) : 0);
    }
};

// x += P xc in a thread's rows: weights of their corners, places of these in xc, and own places in x, or -1 for none.
template <bool MANY, int ROWS, int CORNERS>
DEVICE void add_corners(
    const real (&w)[ROWS][CORNERS], const int (&at)[ROWS][CORNERS], const int (&own)[ROWS], const real* xc, real* x,
    i64 coarse_size, i64 size, int width
) {
    wait_for_last_launch();
    for (int n = 0; n < (MANY ? width : 1); ++n, xc += coarse_size, x += size) {
        real old[ROWS], values[ROWS][CORNERS];
        UNROLLED for (int row = 0; row < ROWS; ++row) {
            old[row] = own[row] < 0 ? real(0) : x[own[row]];
            UNROLLED for (int c = 0; c < CORNERS; ++c) values[row][c] = xc[at[row][c]];
        }
        UNROLLED for (int row = 0; row < ROWS; ++row) {
            real sum = 0;
            UNROLLED for (int c = 0; c < CORNERS; ++c) sum = fma(w[row][c], values[row][c], sum);
            if (own[row] >= 0) x[own[row]] = old[row] + sum;
        }
    }
}

// The fine points within a step of a coarse point along the axes X, Y, Z, one after the other along x, y, z: where point n lies.
template <int X, int Y, int Z>
struct Around {
    enum { WIDE = 1 + 2 * X, HIGH = 1 + 2 * Y, COUNT = WIDE * HIGH * (1 + 2 * Z) };

    static DEVICE constexpr int dx(int n) { return n % WIDE - X; }
    static DEVICE constexpr int dy(int n) { return n / WIDE % HIGH - Y; }
    static DEVICE constexpr int dz(int n) { return n / (WIDE * HIGH) - Z; }
};

// The place of the fine point a step from coarse point I, or -1 beyond the grid's ends.
DEVICE int stepped(int I, int step, int n, bool halved, bool wraps) {
    if (!halved) return I;
    const int at = 2 * I + 1 + step;
    return at < n ? at : wraps ? 0 : -1;
}

// The number of the weight that a coarse point has in the fine point these steps from it: below it, it is the upper corner.
DEVICE int weight_from(int dx, int dy, int dz) {
    return (dx && dx < 0) + ((dy && dy < 0) << (dx != 0)) + ((dz && dz < 0) << ((dx != 0) + (dy != 0)));
}

// y at the points around a coarse one. `A` is an `Around` that tells which of them are `skipped`.
template <typename A>
DEVICE void load(real (&values)[A::COUNT], const int (&at)[A::COUNT], const real* y) {
    UNROLLED for (int c = 0; c < A::COUNT; ++c) values[c] = A::skipped(c) ? real(0) : y[at[c]];
}

// w[0] values[0] + w[1] values[1] + ..., in this order.
template <int COUNT>
DEVICE real sum_of(const real (&w)[COUNT], const real (&values)[COUNT]) {
    real sum = 0;
    UNROLLED for (int c = 0; c < COUNT; ++c) sum = fma(w[c], values[c], sum);
    return sum;
}
