// Table of kernels: updates and dot products of real vectors, whose items are read once.

#include "vectors/items.cuh"
#include "range.cuh"

constexpr double LARGEST = 1.7976931348623157e308;

struct Five { double diagonal, r, w, d, z; };

// x . y: 16 bytes. And the same of a double vector and a real one.
#define DOT(NAME, OF_X) \
    ENTRY NAME(In<OF_X> x, In<real> y, i64 size, double* partials, unsigned* ticket, double* out) { \
        FOLLOW_LAST() \
        double sum = 0.0; \
        for_items( \
            size, [=](i64 i) { return Two{__ldg(x + i), __ldg(y + i)}; }, \
            [&](i64, Two t) { sum = fma(t.x, t.y, sum); }); \
        grid_sum<block_sum>(sum, partials, ticket, out); \
    }
DOT(dot, real)
DOT(dot_narrowed, double)

// x . y + sign u . v: 32 bytes.
ENTRY dot_plus(
    In<real> x, In<real> y, double sign, In<real> u, In<real> v, i64 size, double* partials, unsigned* ticket,
    double* out
) {
    FOLLOW_LAST()
    double sum = 0.0;
    for_items(
        size, [=](i64 i) { return Four{__ldg(x + i), __ldg(y + i), __ldg(u + i), __ldg(v + i)}; },
        [&](i64, Four t) { sum = fma(sign * t.x, t.r, fma(t.p, t.ap, sum)); });
    grid_sum<block_sum>(sum, partials, ticket, out);
}

// x[rows] . values: 4 bytes of index, 8 scattered, 8 read.
ENTRY gathered_dot(In<int> rows, In<real> x, In<real> values, i64 size, double* partials, unsigned* ticket, double* out) {
    FOLLOW_LAST()
    double sum = 0.0;
    for_items(
        size, [=](i64 i) { return Two{__ldg(x + __ldg(rows + i)), __ldg(values + i)}; },
        [&](i64, Two t) { sum = fma(t.x, t.y, sum); });
    grid_sum<block_sum>(sum, partials, ticket, out);
}

// The sum of the slices' parts that a matrix pass left: 8 bytes a slice, which come from L2.
ENTRY sum(In<double> parts, i64 size, double* partials, unsigned* ticket, double* out) {
    FOLLOW_LAST()
    double sum = 0.0;
    for_items(size, [=](i64 i) { return __ldcg(parts + i); }, [&](i64, double part) { sum += part; });
    grid_sum<block_sum>(sum, partials, ticket, out);
}

// w = a x + b y: 24 bytes. w may be x or y.
ENTRY waxpby(double a, const real* x, double b, const real* y, real* w, i64 size) {
    FOLLOW_LAST()
    for_items(
        size, [=](i64 i) { return Two{x[i], y[i]}; },
        [=](i64 i, Two t) { w[i] = fma(a, t.x, b * t.y); });
}

// y = sign a x + b y, 24 bytes, unless a or b is not finite.
ENTRY axpby(double sign, const double* a, const real* x, const double* b, real* y, i64 size) {
    FOLLOW_LAST()
    const double of_x = sign * *a, of_y = *b;
    if (!isfinite(of_x) || !isfinite(of_y)) return;
    for_items(
        size, [=](i64 i) { return Two{x[i], y[i]}; },
        [=](i64 i, Two t) { y[i] = fma(of_x, t.x, of_y * t.y); });
}

// Unless broken down, p = z + (rz/rz_old) p: 24 bytes. The scalars stay on the device, so nothing waits for the host. And the
// same of a real z and a double p.
#define UPDATE_P(NAME, OF_P) \
    ENTRY NAME(In<real> z, const double* rz, const double* rz_old, const double* pap, Out<OF_P> p, i64 size) { \
        FOLLOW_LAST() \
        if (!sound(*rz, *pap)) return; \
        const double beta = *rz / *rz_old; \
        for_items( \
            size, [=](i64 i) { return Two{__ldcs(z + i), p[i]}; }, \
            [=](i64 i, Two t) { p[i] = fma(beta, t.y, t.x); }); \
    }
UPDATE_P(update_p, real)
UPDATE_P(update_p_narrowed, double)

// A power of two near 1/sqrt(xx), or 1 where that is none: multiplying by it is exact.
DEVICE double scale_of(double xx) { return xx > 0.0 && xx <= LARGEST ? scalbn(1.0, -(ilogb(xx) >> 1)) : 1.0; }

// y = scale x: double to real, 16 bytes.
ENTRY narrow(In<double> x, const double* xx, Out<real> y, i64 size) {
    FOLLOW_LAST()
    const double scale = scale_of(*xx);
    for_items(
        size, [=](i64 i) { return __ldcs(x + i); }, [=](i64 i, double value) { y[i] = scale * value; });
}

// y = x / scale: real to double, 16 bytes.
ENTRY widen(In<real> x, const double* xx, Out<double> y, i64 size) {
    FOLLOW_LAST()
    const double scale = 1.0 / scale_of(*xx);
    for_items(
        size, [=](i64 i) { return __ldcs(x + i); }, [=](i64 i, real value) { y[i] = scale * value; });
}

// xy = xy / scale. One thread.
ENTRY unscale(const double* xx, double* xy) {
    FOLLOW_LAST()
    *xy /= scale_of(*xx);
}

// While limit < rr <= ceiling and unless broken down: x += alpha p, r -= alpha Ap with alpha = rz/pAp; always out = r . r:
// 48 bytes, where three kernels would move 56. A NaN fails the test, so x and r stay what they were.
ENTRY update_x_r(
    In<real> p, In<real> ap, const double* rz, const double* pap, const double* rr, const double* limit,
    const double* ceiling, Out<real> x, Out<real> r, double* out, i64 size, double* partials, unsigned* ticket
) {
    FOLLOW_LAST()
    double sum = 0.0;
    if (*rr > *limit && *rr <= *ceiling && sound(*rz, *pap)) {
        const double alpha = *rz / *pap;
        for_items(
            size, [=](i64 i) { return Four{p[i], __ldcs(ap + i), x[i], r[i]}; },
            [&](i64 i, Four t) {
                const real rest = fma(-alpha, t.ap, t.r);
                x[i] = fma(alpha, t.p, t.x);
                r[i] = rest;
                sum = fma(static_cast<double>(rest), static_cast<double>(rest), sum);
            });
    } else {
        for_items(size, [=](i64 i) { return r[i]; }, [&](i64, double rest) { sum = fma(rest, rest, sum); });
    }
    grid_sum<block_sum>(sum, partials, ticket, out);
}

// z = scale r / diagonal: 24 bytes.
ENTRY jacobi(In<real> diagonal, In<real> r, double scale, Out<real> z, i64 size) {
    FOLLOW_LAST()
    for_items(
        size, [=](i64 i) { return Two{__ldg(diagonal + i), __ldg(r + i)}; },
        [=](i64 i, Two t) { z[i] = scale * t.y / t.x; });
}

// A diagonal times the factors of the rows that are stored, and the reciprocals of it, if wanted: 28 bytes. `row` is -1 where
// there is no row, as in padding. Of small numbers factors are such numbers too (`early`), else products are of double.
ENTRY scaled(In<int> row, In<real> diagonal, In<double> factors, int early, Out<real> out, Out<real> weights, i64 size) {
    for_items(
        size, [=](i64 i) { return row[i]; },
        [=](i64 i, int number) {
            real made = diagonal[i];
            if (number >= 0) {
                const double factor = factors[number];
                made = early ? made * static_cast<real>(factor) : static_cast<real>(made * factor);
            }
            out[i] = made;
            if (weights != nullptr) weights[i] = real(1) / made;
        });
}

// d = keep d + gain (r - w) / diagonal, z += d: 56 bytes.
ENTRY chebyshev(In<real> diagonal, In<real> r, In<real> w, double keep, double gain, Out<real> d, Out<real> z, i64 size) {
    FOLLOW_LAST()
    for_items(
        size, [=](i64 i) { return Five{__ldg(diagonal + i), __ldg(r + i), __ldcs(w + i), d[i], z[i]}; },
        [=](i64 i, Five t) {
            const double step = fma(keep, t.d, gain * (t.r - t.w) / t.diagonal);
            d[i] = step;
            z[i] = t.z + step;
        });
}

// z = x + (r - z) / diagonal: 40 bytes.
ENTRY jacobi_step(In<real> diagonal, In<real> r, In<real> x, Out<real> z, i64 size) {
    FOLLOW_LAST()
    for_items(
        size, [=](i64 i) { return Four{__ldg(diagonal + i), __ldg(r + i), __ldg(x + i), z[i]}; },
        [=](i64 i, Four t) { z[i] = t.x + (t.ap - t.r) / t.p; });
}

// y = x: 16 bytes. In a CUDA graph the driver's own copy took 1.4 times as long.
ENTRY copy(In<real> x, Out<real> y, i64 size) {
    FOLLOW_LAST()
    for_items(size, [=](i64 i) { return __ldg(x + i); }, [=](i64 i, real value) { y[i] = value; });
}

// buffer = x[rows]: 4 bytes of index, 8 scattered, 8 written.
ENTRY gather(In<int> rows, In<real> x, Out<real> buffer, i64 size) {
    FOLLOW_LAST()
    for_items(
        size, [=](i64 i) { return __ldg(x + __ldg(rows + i)); },
        [=](i64 i, real value) { buffer[i] = value; });
}

// y[rows] = values: the opposite.
ENTRY scatter(In<int> rows, In<real> values, Out<real> y, i64 size) {
    FOLLOW_LAST()
    for_items(
        size, [=](i64 i) { return __ldg(values + i); },
        [=](i64 i, real value) { y[__ldg(rows + i)] = value; });
}

// y[rows] += sign values: 4 bytes of index, 8 read, 16 scattered. No row is twice among them.
ENTRY scatter_add(In<int> rows, double sign, In<real> values, Out<real> y, i64 size) {
    FOLLOW_LAST()
    for_items(
        size, [=](i64 i) { return __ldg(values + i); },
        [=](i64 i, real value) { const int p = __ldg(rows + i); y[p] = static_cast<real>(y[p] + sign * value); });
}

// c = P xc: 4 bytes of index and 16 of values for each coarse point, which lie side by side in both vectors where they
// are of one color.
ENTRY prolong(In<int> fine_of, In<real> xc, Out<real> c, i64 size) {
    FOLLOW_LAST()
    for_items(
        size, [=](i64 q) { return __ldg(fine_of + q); },
        [=](i64 q, int target) { if (target >= 0) c[target] = __ldg(xc + q); });
}

// x = value on every row, padding untouched: 4 bytes read, 8 written.
ENTRY fill(In<int> row, double value, Out<real> x, i64 size) {
    FOLLOW_LAST()
    for_items(
        size, [=](i64 i) { return __ldg(row + i); },
        [=](i64 i, int number) { if (number >= 0) x[i] = value; });
}

// x = block on every row, for a block of any strides (counted in items): 4 bytes of row, 8 read, 8 written.
ENTRY load(In<int> row, In<double> block, i64 nx, i64 ny, i64 stride_x, i64 stride_y, i64 stride_z, Out<real> x, i64 size) {
    FOLLOW_LAST()
    for_items(
        size, [=](i64 i) { return __ldg(row + i); },
        [=](i64 i, int number) {
            if (number < 0) return;
            const i64 line = number / nx;
            x[i] = __ldg(block + number % nx * stride_x + line % ny * stride_y + line / ny * stride_z);
        });
}

constexpr int TILE = 32;

// A source becomes the right-hand side of cells: times sizes along z, y and x, plus the parts of faces (null for none), in this order;
// zero in cells that are left out. 16 bytes an item, its row, and a byte of `solid`, which may be null. Sums round products first, as
// those of whole arrays do.
ENTRY assemble(
    In<int> row, In<double> sizes_z, In<double> sizes_y, In<double> sizes_x, In<bool> solid, In<double> low_x,
    In<double> high_x, In<double> low_y, In<double> high_y, In<double> low_z, In<double> high_z, int nx, int ny, int nz,
    real* x, i64 size
) {
    FOLLOW_LAST()
    for_items(
        size, [=](i64 item) { return __ldg(row + item); },
        [=](i64 item, int cell) {
            if (cell < 0) return;
            if (solid && solid[cell]) {
                x[item] = 0.0;
                return;
            }
            const int line = cell / nx, i = cell - line * nx, j = line % ny, k = line / ny;
            double sum = x[item] * __ldg(sizes_z + k) * __ldg(sizes_y + j) * __ldg(sizes_x + i);
            if (low_x && i == 0) sum = __dadd_rn(sum, low_x[line]);
            if (high_x && i == nx - 1) sum = __dadd_rn(sum, high_x[line]);
            if (low_y && j == 0) sum = __dadd_rn(sum, low_y[i + nx * k]);
            if (high_y && j == ny - 1) sum = __dadd_rn(sum, high_y[i + nx * k]);
            if (low_z && k == 0) sum = __dadd_rn(sum, low_z[i + nx * j]);
            if (high_z && k == nz - 1) sum = __dadd_rn(sum, high_z[i + nx * j]);
            x[item] = sum;
        });
}

// As `load`, of a block whose items lie closer along z than along x, as NumPy has them: blocks of threads turn TILE x TILE of them.
// position: of each row, x fastest; from `end` on that of rows which are not stored. 20 bytes a row.
ENTRY load_turned(
    In<int> position, In<double> block, i64 nx, i64 ny, i64 nz, i64 stride_x,
    i64 stride_y, i64 stride_z, Out<real> x, int end
) {
    __shared__ double tile[TILE][TILE + 1];
    FOLLOW_LAST()
    const i64 across = (nx + TILE - 1) / TILE, along = (nz + TILE - 1) / TILE, number = blockIdx.x;
    const i64 first_x = number % across * TILE, first_z = number / across % along * TILE, j = number / (across * along);
    const int lane = threadIdx.x % TILE;
    for (int n = threadIdx.x / TILE; n < TILE; n += blockDim.x / TILE) {
        const i64 i = first_x + n, k = first_z + lane;
        if (i < nx && k < nz) tile[n][lane] = __ldg(block + i * stride_x + j * stride_y + k * stride_z);
    }
    __syncthreads();
    for (int n = threadIdx.x / TILE; n < TILE; n += blockDim.x / TILE) {
        const i64 i = first_x + lane, k = first_z + n;
        if (i >= nx || k >= nz) continue;
        const int place = __ldg(position + i + nx * (j + ny * k));
        if (place < end) x[place] = tile[lane][n];
    }
}

// The opposite of `load_turned`, to a block in C order, as NumPy has arrays: 20 bytes a row.
ENTRY unload_turned(In<int> position, In<real> x, i64 nx, i64 ny, i64 nz, Out<real> block) {
    __shared__ real tile[TILE][TILE + 1];
    FOLLOW_LAST()
    const i64 across = (nx + TILE - 1) / TILE, along = (nz + TILE - 1) / TILE, number = blockIdx.x;
    const i64 first_x = number % across * TILE, first_z = number / across % along * TILE, j = number / (across * along);
    const int lane = threadIdx.x % TILE;
    for (int n = threadIdx.x / TILE; n < TILE; n += blockDim.x / TILE) {
        const i64 i = first_x + lane, k = first_z + n;
        if (i < nx && k < nz) tile[lane][n] = x[__ldg(position + i + nx * (j + ny * k))];
    }
    __syncthreads();
    for (int n = threadIdx.x / TILE; n < TILE; n += blockDim.x / TILE) {
        const i64 i = first_x + n, k = first_z + lane;
        if (i < nx && k < nz) block[k + nz * (j + ny * i)] = tile[n][lane];
    }
}

// The sum of the chunks' parts by the fixed tree of the contract's kernel `total`.
ENTRY total(In<double> parts, Out<double> out, int count) {
    FOLLOW_LAST()
    *out = tree_sum(parts, count);
}

// Values in another type, those of a diagonal checked: 12 bytes each.
ENTRY cast(In<double> wide, i64 count, int checked, Out<real> out) {
    const i64 i = thread_number();
    if (i < count) out[i] = checked ? in_range(wide[i]) : static_cast<real>(wide[i]);
}
