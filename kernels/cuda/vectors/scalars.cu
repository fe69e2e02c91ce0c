// Numbers of methods, which stay on the device, so nothing waits for the host. One thread makes them.

#include "vectors/items.cuh"

// q = (a/b) (c/d) while limit < rr <= ceiling, else NaN.
ENTRY quotient(
    const double* a, const double* b, const double* c, const double* d, const double* rr, const double* limit,
    const double* ceiling, double* q
) {
    FOLLOW_LAST()
    *q = *rr > *limit && *rr <= *ceiling ? (*a / *b) * (*c / *d) : nan("");
}

// A Givens rotation and what the step takes of it: see the contract.
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

// norm = sqrt(square), inverse = 1/norm, back = -norm/other.
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

// A column of the bidiagonal matrix and what an iteration of LSMR takes of it: see the contract.
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

// alpha = ss / (qq + damp^2 pp), aa = max(aa, qq / pp).
ENTRY normal_step(
    const double* ss, const double* qq, const double* pp, const double* damp, const double* stop, double* aa,
    double* alpha
) {
    FOLLOW_LAST()
    const bool on = *stop == 0.0;
    *alpha = on ? *ss / (*qq + *damp * *damp * *pp) : nan("");
    if (on && *pp > 0.0) *aa = fmax(*aa, *qq / *pp);
}

// The reason why iterations for least squares end: see the contract.
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
