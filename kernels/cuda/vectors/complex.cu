// Updates and products of complex vectors, whose real and imaginary parts are vectors each.

#include "vectors/items.cuh"

// Both parts of a product of complex vectors, as dot_plus adds them: 32 bytes. And the same of a double vector and a real one.
#define COMPLEX_DOT(NAME, OF_X) \
    ENTRY NAME( \
        In<OF_X> x, In<OF_X> xi, double sign, In<real> y, In<real> yi, i64 size, double* partials, unsigned* ticket, \
        double* out, double* out_im \
    ) { \
        FOLLOW_LAST() \
        double sum = 0.0, sum_im = 0.0; \
        for_items( \
            size, [=](i64 i) { return Four{__ldg(x + i), __ldg(xi + i), __ldg(y + i), __ldg(yi + i)}; }, \
            [&](i64, Four t) { \
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

// y + i yi = sign (a + i ai) (x + i xi) + (b + i bi) (y + i yi), 48 bytes, unless a number is not finite. And the same with y of
// double.
#define COMPLEX_AXPBY(NAME, OF_Y) \
    ENTRY NAME( \
        double sign, const double* a, const double* ai, const real* x, const real* xi, const double* b, const double* bi, \
        OF_Y* y, OF_Y* yi, i64 size \
    ) { \
        FOLLOW_LAST() \
        const double p = sign * *a, pi = sign * *ai, q = *b, qi = *bi; \
        if (!isfinite(p) || !isfinite(pi) || !isfinite(q) || !isfinite(qi)) return; \
        for_items( \
            size, [=](i64 i) { return Four{x[i], xi[i], y[i], yi[i]}; }, \
            [=](i64 i, Four t) { \
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
    Out<real> r, Out<real> ri, double* out, i64 size, double* partials, unsigned* ticket
) {
    FOLLOW_LAST()
    const double b = *a, bi = *ai;
    double sum = 0.0;
    if (isfinite(b) && isfinite(bi)) {
        for_items(
            size,
            [=](i64 i) { return Eight{Four{p[i], pi[i], ap[i], api[i]}, Four{x[i], xi[i], r[i], ri[i]}}; },
            [&](i64 i, Eight t) {
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
            size, [=](i64 i) { return Two{r[i], ri[i]}; },
            [&](i64, Two t) { sum = fma(t.y, t.y, fma(t.x, t.x, sum)); });
    }
    grid_sum<block_sum>(sum, partials, ticket, out);
}

// x + i xi = keep (x + i xi) + (w + i wi) (r + i ri): 48 bytes, and 16 more with keep.
ENTRY complex_step(int keep, In<real> w, In<real> wi, In<real> r, In<real> ri, Out<real> x, Out<real> xi, i64 size) {
    FOLLOW_LAST()
    for_items(
        size, [=](i64 i) { return Four{__ldg(w + i), __ldg(wi + i), __ldg(r + i), __ldg(ri + i)}; },
        [=](i64 i, Four t) {
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
