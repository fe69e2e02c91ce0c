// Table of kernels: vector updates and dot products. Items are read once: every kernel names its bytes an item, for a `real` of 8 bytes.
// Scalars and the arithmetic with them are double whatever `real` is: these kernels wait for memory, not for arithmetic.
//
// Dot products repeat to the last bit: the grid follows from the length alone, every thread adds its items in order,
// a block adds its threads in a fixed tree, and the block that finishes last adds the blocks' partial sums in a fixed
// tree (sums.cuh).

#include "slices.cuh"
#include "range.cuh"
#include "sums.cuh"
#include "vectors/tree.cuh"

// The launch before this one is awaited here instead of by the stream (slices.cuh): 2 us of 5 where items are few.
#define FOLLOW_LAST() next_may_start(); wait_for_last_launch();

constexpr int THREADS = 256;
constexpr int UNROLL = 4;   // loads in flight for each thread and array
constexpr double LARGEST = 1.7976931348623157e308;

// The sum over the block's threads, in thread 0.
__device__ double block_sum(double value) {
    __shared__ double of_warp[THREADS / SLICE];
    value = warp_sum(value);
    if (threadIdx.x % SLICE == 0) of_warp[threadIdx.x / SLICE] = value;
    __syncthreads();
    if (threadIdx.x < SLICE) value = warp_sum(threadIdx.x < THREADS / SLICE ? of_warp[threadIdx.x] : 0.0);
    __syncthreads();
    return value;
}

// Calls use(i) for the items of this thread, UNROLL of them at a time.
template <typename Load, typename Use>
DEVICE void for_items(long long size, Load load, Use use) {
    const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i + (UNROLL - 1) * stride < size; i += UNROLL * stride) {
        decltype(load(i)) loaded[UNROLL];
        UNROLLED for (int u = 0; u < UNROLL; ++u) loaded[u] = load(i + u * stride);
        UNROLLED for (int u = 0; u < UNROLL; ++u) use(i + u * stride, loaded[u]);
    }
    for (; i < size; i += stride) use(i, load(i));
}

struct Two { double x, y; };   // real is widened as it is read
struct Four { double p, ap, x, r; };
struct Five { double diagonal, r, w, d, z; };

// x . y: 16 bytes. And the same of a double vector and a real one.
#define DOT(NAME, OF_X) \
    ENTRY NAME(In<OF_X> x, In<real> y, long long size, double* partials, unsigned* ticket, double* out) { \
        FOLLOW_LAST() \
        double sum = 0.0; \
        for_items( \
            size, [=](long long i) { return Two{__ldg(x + i), __ldg(y + i)}; }, \
            [&](long long, Two t) { sum = fma(t.x, t.y, sum); }); \
        grid_sum<block_sum>(sum, partials, ticket, out); \
    }
DOT(dot, real)
DOT(dot_narrowed, double)

// x . y + sign u . v: 32 bytes.
ENTRY dot_plus(
    In<real> x, In<real> y, double sign, In<real> u, In<real> v, long long size, double* partials, unsigned* ticket,
    double* out
) {
    FOLLOW_LAST()
    double sum = 0.0;
    for_items(
        size, [=](long long i) { return Four{__ldg(x + i), __ldg(y + i), __ldg(u + i), __ldg(v + i)}; },
        [&](long long, Four t) { sum = fma(sign * t.x, t.r, fma(t.p, t.ap, sum)); });
    grid_sum<block_sum>(sum, partials, ticket, out);
}

// Both parts of a product of complex vectors, as dot_plus adds them: 32 bytes. And the same of a double vector and a real one.
#define COMPLEX_DOT(NAME, OF_X) \
    ENTRY NAME( \
        In<OF_X> x, In<OF_X> xi, double sign, In<real> y, In<real> yi, long long size, double* partials, unsigned* ticket, \
        double* out, double* out_im \
    ) { \
        FOLLOW_LAST() \
        double sum = 0.0, sum_im = 0.0; \
        for_items( \
            size, [=](long long i) { return Four{__ldg(x + i), __ldg(xi + i), __ldg(y + i), __ldg(yi + i)}; }, \
            [&](long long, Four t) { \
                sum = fma(sign * t.ap, t.r, fma(t.p, t.x, sum)); \
                sum_im = fma(-sign * t.ap, t.x, fma(t.p, t.r, sum_im)); \
            }); \
        sum = block_sum(sum), sum_im = block_sum(sum_im); \
        if (threadIdx.x == 0) partials[blockIdx.x] = sum, partials[gridDim.x + blockIdx.x] = sum_im; \
        if (!comes_last(ticket)) return; \
        sum = sum_of_parts<block_sum>(partials), sum_im = sum_of_parts<block_sum>(partials + gridDim.x); \
        if (threadIdx.x == 0) *out = sum, *out_im = sum_im; \
    }
COMPLEX_DOT(complex_dot, real)
COMPLEX_DOT(complex_dot_narrowed, double)

// x[rows] . values: 4 bytes of index, 8 scattered, 8 read.
ENTRY gathered_dot(
    In<int> rows, In<real> x, In<real> values, long long size, double* partials, unsigned* ticket, double* out
) {
    FOLLOW_LAST()
    double sum = 0.0;
    for_items(
        size, [=](long long i) { return Two{__ldg(x + __ldg(rows + i)), __ldg(values + i)}; },
        [&](long long, Two t) { sum = fma(t.x, t.y, sum); });
    grid_sum<block_sum>(sum, partials, ticket, out);
}

// The sum of the slices' parts that a matrix pass left: 8 bytes a slice, which come from L2.
ENTRY sum(In<double> parts, long long size, double* partials, unsigned* ticket, double* out) {
    FOLLOW_LAST()
    double sum = 0.0;
    for_items(size, [=](long long i) { return __ldcg(parts + i); }, [&](long long, double part) { sum += part; });
    grid_sum<block_sum>(sum, partials, ticket, out);
}

// w = a x + b y: 24 bytes. w may be x or y.
ENTRY waxpby(double a, const real* x, double b, const real* y, real* w, long long size) {
    FOLLOW_LAST()
    for_items(
        size, [=](long long i) { return Two{x[i], y[i]}; },
        [=](long long i, Two t) { w[i] = fma(a, t.x, b * t.y); });
}

// y = sign a x + b y, 24 bytes, unless a or b is not finite.
ENTRY axpby(double sign, const double* a, const real* x, const double* b, real* y, long long size) {
    FOLLOW_LAST()
    const double of_x = sign * *a, of_y = *b;
    if (!isfinite(of_x) || !isfinite(of_y)) return;
    for_items(
        size, [=](long long i) { return Two{x[i], y[i]}; },
        [=](long long i, Two t) { y[i] = fma(of_x, t.x, of_y * t.y); });
}

// y + i yi = sign (a + i ai) (x + i xi) + (b + i bi) (y + i yi), 48 bytes, unless a number is not finite. And the same with y of
// double.
#define COMPLEX_AXPBY(NAME, OF_Y) \
    ENTRY NAME( \
        double sign, const double* a, const double* ai, const real* x, const real* xi, const double* b, const double* bi, \
        OF_Y* y, OF_Y* yi, long long size \
    ) { \
        FOLLOW_LAST() \
        const double p = sign * *a, pi = sign * *ai, q = *b, qi = *bi; \
        if (!isfinite(p) || !isfinite(pi) || !isfinite(q) || !isfinite(qi)) return; \
        for_items( \
            size, [=](long long i) { return Four{x[i], xi[i], y[i], yi[i]}; }, \
            [=](long long i, Four t) { \
                y[i] = fma(p, t.p, -(pi * t.ap)) + fma(q, t.x, -(qi * t.r)); \
                yi[i] = fma(p, t.ap, pi * t.p) + fma(q, t.r, qi * t.x); \
            }); \
    }
COMPLEX_AXPBY(complex_axpby, real)
COMPLEX_AXPBY(complex_axpby_narrowed, double)

// x += a p and r -= a Ap as complex_axpby makes them, unless a is not finite, and r . r as dot_plus does: 96 bytes in place of 128.
struct Eight {
    Four update, from;
};
ENTRY complex_update_x_r(
    const double* a, const double* ai, In<real> p, In<real> pi, In<real> ap, In<real> api, Out<real> x, Out<real> xi,
    Out<real> r, Out<real> ri, double* out, long long size, double* partials, unsigned* ticket
) {
    FOLLOW_LAST()
    const double b = *a, bi = *ai;
    double sum = 0.0;
    if (isfinite(b) && isfinite(bi)) {
        for_items(
            size,
            [=](long long i) { return Eight{Four{p[i], pi[i], ap[i], api[i]}, Four{x[i], xi[i], r[i], ri[i]}}; },
            [&](long long i, Eight t) {
                const real re = fma(-b, t.update.x, bi * t.update.r) + t.from.x;
                const real im = fma(-b, t.update.r, -(bi * t.update.x)) + t.from.r;
                x[i] = fma(b, t.update.p, -(bi * t.update.ap)) + t.from.p;
                xi[i] = fma(b, t.update.ap, bi * t.update.p) + t.from.ap;
                r[i] = re;
                ri[i] = im;
                sum = fma(static_cast<double>(im), static_cast<double>(im), fma(static_cast<double>(re), static_cast<double>(re), sum));
            });
    } else {
        for_items(
            size, [=](long long i) { return Two{r[i], ri[i]}; },
            [&](long long, Two t) { sum = fma(t.y, t.y, fma(t.x, t.x, sum)); });
    }
    grid_sum<block_sum>(sum, partials, ticket, out);
}

// x + i xi = keep (x + i xi) + (w + i wi) (r + i ri): 48 bytes, and 16 more with keep.
ENTRY complex_step(
    int keep, In<real> w, In<real> wi, In<real> r, In<real> ri, Out<real> x, Out<real> xi, long long size
) {
    FOLLOW_LAST()
    for_items(
        size, [=](long long i) { return Four{__ldg(w + i), __ldg(wi + i), __ldg(r + i), __ldg(ri + i)}; },
        [=](long long i, Four t) {
            const double re = fma(t.p, t.x, -(t.ap * t.r)), im = fma(t.p, t.r, t.ap * t.x);
            x[i] = keep ? x[i] + re : re;
            xi[i] = keep ? xi[i] + im : im;
        });
}

// (a + i ai) / (b + i bi) without an intermediate result out of range (Smith, Commun. ACM 5, 1962).
DEVICE void divide(double a, double ai, double b, double bi, double& q, double& qi) {
    if (fabs(b) >= fabs(bi)) {
        const double part = bi / b, whole = b + bi * part;
        q = (a + ai * part) / whole, qi = (ai - a * part) / whole;
    } else {
        const double part = b / bi, whole = b * part + bi;
        q = (a * part + ai) / whole, qi = (ai * part - a) / whole;
    }
}

// As `quotient`, of complex numbers. One thread.
ENTRY complex_quotient(
    const double* a, const double* ai, const double* b, const double* bi, const double* c, const double* ci,
    const double* d, const double* di, const double* rr, const double* limit, const double* ceiling, double* q, double* qi
) {
    FOLLOW_LAST()
    const bool on = *rr > *limit && *rr <= *ceiling;
    double x, xi, y, yi;
    divide(*a, *ai, *b, *bi, x, xi);
    divide(*c, *ci, *d, *di, y, yi);
    *q = on ? x * y - xi * yi : nan("");
    *qi = on ? x * yi + xi * y : nan("");
}

// q = (a/b) (c/d) while limit < rr <= ceiling, else NaN. One thread.
ENTRY quotient(
    const double* a, const double* b, const double* c, const double* d, const double* rr, const double* limit,
    const double* ceiling, double* q
) {
    FOLLOW_LAST()
    *q = *rr > *limit && *rr <= *ceiling ? (*a / *b) * (*c / *d) : nan("");
}

// A Givens rotation and what the step takes of it: see the contract. One thread.
ENTRY rotation(
    const double* delta, const double* square, const double* rr, const double* limit, const double* ceiling,
    const double* flat, double* beta, double* phi, double* c, double* s, double* c_old, double* s_old, double* size,
    double* scale, double* w1, double* w2, double* w3, double* tau, double* keep, double* move, double* on,
    double* normal
) {
    FOLLOW_LAST()
    *scale = *w1 = *w2 = *w3 = *tau = *keep = *move = *on = *normal = nan("");
    if (!(*rr > *limit && *rr <= *ceiling && *square >= 0.0)) return;
    const double below = sqrt(*square);
    const double d1 = *c * *delta - *c_old * *s * *beta, d2 = *s * *delta + *c_old * *c * *beta, d3 = *s_old * *beta;
    const double rho = sqrt(d1 * d1 + *square);
    *size = fmax(*size, sqrt(*delta * *delta + *square));
    *normal = *size > 0.0 ? sqrt(d1 * d1 + *c * *c * *square) / *size : 0.0;
    if (*normal <= *flat) return;
    *c_old = *c, *s_old = *s;
    *c = d1 / rho, *s = below / rho;
    const double step = *c * *phi;
    *scale = 1.0 / below, *w1 = 1.0 / rho, *w2 = -d2 / rho, *w3 = -d3 / rho;
    *tau = step, *keep = *s * *s, *move = -step / rho, *on = 1.0;
    *beta = below, *phi = -*s * *phi;
}

// norm = sqrt(square), inverse = 1/norm, back = -norm/other. One thread.
ENTRY half_step(const double* square, const double* other, double* norm, double* inverse, double* back) {
    FOLLOW_LAST()
    const double found = sqrt(*square);
    *norm = found, *inverse = 1.0 / found, *back = -found / *other;
}

// c, s and r of the rotation that turns (a, b) into (r, 0).
DEVICE void turned(double a, double b, double& c, double& s, double& r) {
    r = sqrt(a * a + b * b);
    c = r > 0.0 ? a / r : 1.0, s = r > 0.0 ? b / r : 0.0;
}

// A column of the bidiagonal matrix and what an iteration of LSMR takes of it: see the contract. One thread.
ENTRY bidiagonal_rotations(
    const double* alpha, const double* beta, const double* damp, const double* stop, double* alpha_bar, double* rho,
    double* rho_bar, double* c_bar, double* s_bar, double* zeta, double* zeta_bar, double* beta_dd, double* beta_d,
    double* rho_d, double* tau, double* theta, double* d, double* aa_next, double* most, double* least, double* keep,
    double* move, double* turn, double* rr, double* ss, double* aa, double* cond
) {
    FOLLOW_LAST()
    if (*stop != 0.0) {
        *keep = *move = *turn = *rr = *ss = *aa = *cond = nan("");
        return;
    }
    double c_hat, s_hat, alpha_hat, c, s, c_tilde, s_tilde, rho_tilde;
    const double rho_old = *rho, rho_bar_old = *rho_bar, zeta_old = *zeta, theta_old = *theta;
    turned(*alpha_bar, *damp, c_hat, s_hat, alpha_hat);
    turned(alpha_hat, *beta, c, s, *rho);
    const double theta_new = s * *alpha, theta_bar = *s_bar * *rho, rho_hat = *c_bar * *rho;
    *alpha_bar = c * *alpha;
    turned(rho_hat, theta_new, *c_bar, *s_bar, *rho_bar);
    *zeta = *c_bar * *zeta_bar, *zeta_bar = -*s_bar * *zeta_bar;
    *keep = -(theta_bar * *rho) / (rho_old * rho_bar_old);
    *move = *zeta / (*rho * *rho_bar);
    *turn = -theta_new / *rho;
    const double acute = c_hat * *beta_dd, check = -s_hat * *beta_dd, beta_hat = c * acute;
    *beta_dd = -s * acute;
    turned(*rho_d, theta_bar, c_tilde, s_tilde, rho_tilde);
    *theta = s_tilde * *rho_bar, *rho_d = c_tilde * *rho_bar;
    *beta_d = c_tilde * beta_hat - s_tilde * *beta_d;
    *tau = (zeta_old - theta_old * *tau) / rho_tilde;
    const double gap = *beta_d - (*zeta - *theta * *tau) / *rho_d;
    *d += check * check;
    *rr = *d + gap * gap + *beta_dd * *beta_dd;
    *ss = *zeta_bar * *zeta_bar;
    *aa = *aa_next + *beta * *beta;
    *aa_next = *aa + *alpha * *alpha;
    *cond = fmax(*most, rho_hat) / fmin(*least, rho_hat);
    *most = fmax(*most, *rho_bar), *least = fmin(*least, *rho_bar);
}

// alpha = ss / (qq + damp^2 pp), aa = max(aa, qq / pp). One thread.
ENTRY normal_step(
    const double* ss, const double* qq, const double* pp, const double* damp, const double* stop, double* aa,
    double* alpha
) {
    FOLLOW_LAST()
    const bool on = *stop == 0.0;
    *alpha = on ? *ss / (*qq + *damp * *damp * *pp) : nan("");
    if (on && *pp > 0.0) *aa = fmax(*aa, *qq / *pp);
}

// The reason why iterations for least squares end: see the contract. One thread.
ENTRY settle(
    const double* rr, const double* ss, const double* aa, const double* cond, const double* xx, const double* bb,
    const double* atol, const double* btol, const double* ctol, double* stop
) {
    FOLLOW_LAST()
    if (*stop != 0.0) return;
    const double r = sqrt(*rr), s = sqrt(*ss), a = sqrt(*aa), x = sqrt(*xx), b = sqrt(*bb);
    if (!isfinite(r + s + a + x)) {
        *stop = 8.0;
        return;
    }
    const double share = r / b, size = a * x / b, inverse = 1.0 / *cond;
    const bool normal = a * r > 0.0;
    if (share <= *btol + *atol * size) *stop = 1.0;
    else if (normal && s / (a * r) <= *atol) *stop = 2.0;
    else if (inverse <= *ctol) *stop = 3.0;
    else if (1.0 + share / (1.0 + size) <= 1.0) *stop = 4.0;
    else if (normal && 1.0 + s / (a * r) <= 1.0) *stop = 5.0;
    else if (1.0 + inverse <= 1.0) *stop = 6.0;
}

// Unless broken down, p = z + (rz/rz_old) p: 24 bytes. The scalars stay on the device, so nothing waits for the host. And the
// same of a real z and a double p.
#define UPDATE_P(NAME, OF_P) \
    ENTRY NAME(In<real> z, const double* rz, const double* rz_old, const double* pap, Out<OF_P> p, long long size) { \
        FOLLOW_LAST() \
        if (!sound(*rz, *pap)) return; \
        const double beta = *rz / *rz_old; \
        for_items( \
            size, [=](long long i) { return Two{__ldcs(z + i), p[i]}; }, \
            [=](long long i, Two t) { p[i] = fma(beta, t.y, t.x); }); \
    }
UPDATE_P(update_p, real)
UPDATE_P(update_p_narrowed, double)

// A power of two near 1/sqrt(xx), or 1 where that is none: multiplying by it is exact.
DEVICE double scale_of(double xx) { return xx > 0.0 && xx <= LARGEST ? scalbn(1.0, -(ilogb(xx) >> 1)) : 1.0; }

// y = scale x: double to real, 16 bytes.
ENTRY narrow(In<double> x, const double* xx, Out<real> y, long long size) {
    FOLLOW_LAST()
    const double scale = scale_of(*xx);
    for_items(
        size, [=](long long i) { return __ldcs(x + i); }, [=](long long i, double value) { y[i] = scale * value; });
}

// y = x / scale: real to double, 16 bytes.
ENTRY widen(In<real> x, const double* xx, Out<double> y, long long size) {
    FOLLOW_LAST()
    const double scale = 1.0 / scale_of(*xx);
    for_items(
        size, [=](long long i) { return __ldcs(x + i); }, [=](long long i, real value) { y[i] = scale * value; });
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
    const double* ceiling, Out<real> x, Out<real> r, double* out, long long size, double* partials, unsigned* ticket
) {
    FOLLOW_LAST()
    double sum = 0.0;
    if (*rr > *limit && *rr <= *ceiling && sound(*rz, *pap)) {
        const double alpha = *rz / *pap;
        for_items(
            size, [=](long long i) { return Four{p[i], __ldcs(ap + i), x[i], r[i]}; },
            [&](long long i, Four t) {
                const real rest = fma(-alpha, t.ap, t.r);
                x[i] = fma(alpha, t.p, t.x);
                r[i] = rest;
                sum = fma(static_cast<double>(rest), static_cast<double>(rest), sum);
            });
    } else {
        for_items(size, [=](long long i) { return r[i]; }, [&](long long, double rest) { sum = fma(rest, rest, sum); });
    }
    grid_sum<block_sum>(sum, partials, ticket, out);
}

// z = scale r / diagonal: 24 bytes.
ENTRY jacobi(In<real> diagonal, In<real> r, double scale, Out<real> z, long long size) {
    FOLLOW_LAST()
    for_items(
        size, [=](long long i) { return Two{__ldg(diagonal + i), __ldg(r + i)}; },
        [=](long long i, Two t) { z[i] = scale * t.y / t.x; });
}

// A diagonal times the factors of the rows that are stored, and the reciprocals of it, if wanted: 28 bytes. `row` is -1 where
// there is no row, as in padding. Of small numbers factors are such numbers too (`early`), else products are of double.
ENTRY scaled(
    In<int> row, In<real> diagonal, In<double> factors, int early, Out<real> out, Out<real> weights, long long size
) {
    for_items(
        size, [=](long long i) { return row[i]; },
        [=](long long i, int number) {
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
ENTRY chebyshev(
    In<real> diagonal, In<real> r, In<real> w, double keep, double gain, Out<real> d, Out<real> z, long long size
) {
    FOLLOW_LAST()
    for_items(
        size, [=](long long i) { return Five{__ldg(diagonal + i), __ldg(r + i), __ldcs(w + i), d[i], z[i]}; },
        [=](long long i, Five t) {
            const double step = fma(keep, t.d, gain * (t.r - t.w) / t.diagonal);
            d[i] = step;
            z[i] = t.z + step;
        });
}

// z = x + (r - z) / diagonal: 40 bytes.
ENTRY jacobi_step(In<real> diagonal, In<real> r, In<real> x, Out<real> z, long long size) {
    FOLLOW_LAST()
    for_items(
        size, [=](long long i) { return Four{__ldg(diagonal + i), __ldg(r + i), __ldg(x + i), z[i]}; },
        [=](long long i, Four t) { z[i] = t.x + (t.ap - t.r) / t.p; });
}

// y = x: 16 bytes. In a CUDA graph the driver's own copy took 1.4 times as long.
ENTRY copy(In<real> x, Out<real> y, long long size) {
    FOLLOW_LAST()
    for_items(size, [=](long long i) { return __ldg(x + i); }, [=](long long i, real value) { y[i] = value; });
}

// buffer = x[rows]: 4 bytes of index, 8 scattered, 8 written.
ENTRY gather(In<int> rows, In<real> x, Out<real> buffer, long long size) {
    FOLLOW_LAST()
    for_items(
        size, [=](long long i) { return __ldg(x + __ldg(rows + i)); },
        [=](long long i, real value) { buffer[i] = value; });
}

// y[rows] = values: the opposite.
ENTRY scatter(In<int> rows, In<real> values, Out<real> y, long long size) {
    FOLLOW_LAST()
    for_items(
        size, [=](long long i) { return __ldg(values + i); },
        [=](long long i, real value) { y[__ldg(rows + i)] = value; });
}

// y[rows] += sign values: 4 bytes of index, 8 read, 16 scattered. No row is twice among them.
ENTRY scatter_add(In<int> rows, double sign, In<real> values, Out<real> y, long long size) {
    FOLLOW_LAST()
    for_items(
        size, [=](long long i) { return __ldg(values + i); },
        [=](long long i, real value) { const int p = __ldg(rows + i); y[p] = static_cast<real>(y[p] + sign * value); });
}

// c = P xc: 4 bytes of index and 16 of values for each coarse point, which lie side by side in both vectors where they
// are of one color.
ENTRY prolong(In<int> fine_of, In<real> xc, Out<real> c, long long size) {
    FOLLOW_LAST()
    for_items(
        size, [=](long long q) { return __ldg(fine_of + q); },
        [=](long long q, int target) { if (target >= 0) c[target] = __ldg(xc + q); });
}

// x = value on every row, padding untouched: 4 bytes read, 8 written.
ENTRY fill(In<int> row, double value, Out<real> x, long long size) {
    FOLLOW_LAST()
    for_items(
        size, [=](long long i) { return __ldg(row + i); },
        [=](long long i, int number) { if (number >= 0) x[i] = value; });
}

// x = block on every row, for a block of any strides (counted in items): 4 bytes of row, 8 read, 8 written.
ENTRY load(
    In<int> row, In<double> block, long long nx, long long ny, long long stride_x, long long stride_y,
    long long stride_z, Out<real> x, long long size
) {
    FOLLOW_LAST()
    for_items(
        size, [=](long long i) { return __ldg(row + i); },
        [=](long long i, int number) {
            if (number < 0) return;
            const long long line = number / nx;
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
    real* x, long long size
) {
    FOLLOW_LAST()
    for_items(
        size, [=](long long item) { return __ldg(row + item); },
        [=](long long item, int cell) {
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
    In<int> position, In<double> block, long long nx, long long ny, long long nz, long long stride_x,
    long long stride_y, long long stride_z, Out<real> x, int end
) {
    __shared__ double tile[TILE][TILE + 1];
    FOLLOW_LAST()
    const long long across = (nx + TILE - 1) / TILE, along = (nz + TILE - 1) / TILE, number = blockIdx.x;
    const long long first_x = number % across * TILE, first_z = number / across % along * TILE, j = number / (across * along);
    const int lane = threadIdx.x % TILE;
    for (int n = threadIdx.x / TILE; n < TILE; n += blockDim.x / TILE) {
        const long long i = first_x + n, k = first_z + lane;
        if (i < nx && k < nz) tile[n][lane] = __ldg(block + i * stride_x + j * stride_y + k * stride_z);
    }
    __syncthreads();
    for (int n = threadIdx.x / TILE; n < TILE; n += blockDim.x / TILE) {
        const long long i = first_x + lane, k = first_z + n;
        if (i >= nx || k >= nz) continue;
        const int place = __ldg(position + i + nx * (j + ny * k));
        if (place < end) x[place] = tile[lane][n];
    }
}

// The opposite of `load_turned`, to a block in C order, as NumPy has arrays: 20 bytes a row.
ENTRY unload_turned(In<int> position, In<real> x, long long nx, long long ny, long long nz, Out<real> block) {
    __shared__ real tile[TILE][TILE + 1];
    FOLLOW_LAST()
    const long long across = (nx + TILE - 1) / TILE, along = (nz + TILE - 1) / TILE, number = blockIdx.x;
    const long long first_x = number % across * TILE, first_z = number / across % along * TILE, j = number / (across * along);
    const int lane = threadIdx.x % TILE;
    for (int n = threadIdx.x / TILE; n < TILE; n += blockDim.x / TILE) {
        const long long i = first_x + lane, k = first_z + n;
        if (i < nx && k < nz) tile[lane][n] = x[__ldg(position + i + nx * (j + ny * k))];
    }
    __syncthreads();
    for (int n = threadIdx.x / TILE; n < TILE; n += blockDim.x / TILE) {
        const long long i = first_x + n, k = first_z + lane;
        if (i < nx && k < nz) block[k + nz * (j + ny * i)] = tile[n][lane];
    }
}

// The sum of the chunks' parts by the fixed tree of the contract's kernel `total`.
ENTRY total(In<double> parts, Out<double> out, int count) {
    FOLLOW_LAST()
    *out = tree_sum(parts, count);
}

// Values in another type, those of a diagonal checked: 12 bytes each.
ENTRY cast(In<double> wide, long long count, int checked, Out<real> out) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) out[i] = checked ? in_range(wide[i]) : static_cast<real>(wide[i]);
}
