"""Kernels on scalars alone, on the host: coefficients of Krylov methods, float64 (1,) each, in the contract's order."""

import math

import numpy as np
import numpy.typing as npt

Scalar = npt.NDArray[np.float64]


def scale_of(xx: npt.NDArray[np.float64]) -> float:
    """The factor of `narrow`: a power of two near 1/√xx, or 1 where xx is zero or not finite.

    Exact, so that narrowing rounds as it would without it; and so near that neither the vector nor what a
    preconditioner makes of it leaves the range of float32 as long as the matrix does not.
    """
    square = float(xx[0])
    if not (square > 0.0 and math.isfinite(square)):
        return 1.0
    return math.ldexp(1.0, -((math.frexp(square)[1] - 1) >> 1))


def unscale(xx: Scalar, xy: Scalar) -> None:
    xy[0] /= scale_of(xx)


def sound(rz: npt.NDArray[np.float64], pap: npt.NDArray[np.float64]) -> bool:
    """Whether conjugate gradients can go on: both are positive and finite."""
    return bool(0.0 < rz[0] < np.inf and 0.0 < pap[0] < np.inf)


def finite(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> bool:
    """Whether both are finite."""
    return bool(np.isfinite(a[0]) and np.isfinite(b[0]))


def ratio(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    """a[0] / b[0] by IEEE rules: a breakdown shows as inf or NaN in the residual and is judged there."""
    with np.errstate(all="ignore"):
        return float(a[0] / b[0])


def quotient(a: Scalar, b: Scalar, c: Scalar, d: Scalar, rr: Scalar, limit: Scalar, ceiling: Scalar, q: Scalar) -> None:
    q[0] = ratio(a, b) * ratio(c, d) if limit[0] < rr[0] <= ceiling[0] else np.nan


def complex_quotient(*scalars: Scalar) -> None:
    a, ai, b, bi, c, ci, d, di, rr, limit, ceiling, q, qi = scalars
    if not limit[0] < rr[0] <= ceiling[0]:
        q[0] = qi[0] = np.nan
        return
    pairs = ((a, ai), (b, bi), (c, ci), (d, di))
    first, second, third, fourth = (np.complex128(complex(part[0], other[0])) for part, other in pairs)
    with np.errstate(all="ignore"):
        found = (first / second) * (third / fourth)
    q[0], qi[0] = found.real, found.imag


def rotation(*scalars: Scalar) -> None:
    delta, square, rr, limit, ceiling, flat, beta, phi, c, s, c_old, s_old, size, *written = scalars
    scale, w1, w2, w3, tau, keep, move, on, normal = written
    for scalar in written:
        scalar[0] = np.nan
    if not (limit[0] < rr[0] <= ceiling[0] and square[0] >= 0.0):
        return
    with np.errstate(all="ignore"):
        new = np.sqrt(square[0])
        d1 = c[0] * delta[0] - c_old[0] * s[0] * beta[0]
        d2 = s[0] * delta[0] + c_old[0] * c[0] * beta[0]
        d3 = s_old[0] * beta[0]
        rho = np.sqrt(d1 * d1 + square[0])
        size[0] = max(size[0], np.sqrt(delta[0] * delta[0] + square[0]))
        normal[0] = np.sqrt(d1 * d1 + c[0] * c[0] * square[0]) / size[0] if size[0] > 0.0 else 0.0
        if normal[0] <= flat[0]:
            return
        c_old[0], s_old[0] = c[0], s[0]
        c[0], s[0] = d1 / rho, new / rho
        scale[0], w1[0], w2[0], w3[0] = 1.0 / new, 1.0 / rho, -d2 / rho, -d3 / rho
        tau[0], keep[0], on[0] = c[0] * phi[0], s[0] * s[0], 1.0
        move[0] = -tau[0] / rho
        beta[0], phi[0] = new, -s[0] * phi[0]


def half_step(square: Scalar, other: Scalar, norm: Scalar, inverse: Scalar, back: Scalar) -> None:
    with np.errstate(all="ignore"):
        norm[0] = np.sqrt(square[0])
        inverse[0], back[0] = 1.0 / norm[0], -norm[0] / other[0]


def bidiagonal_rotations(*scalars: Scalar) -> None:
    alpha, beta, damp, stop, alpha_bar, rho, rho_bar, c_bar, s_bar, zeta, zeta_bar, *norms = scalars
    beta_dd, beta_d, rho_d, tau, theta, d, aa_next, most, least, *written = norms
    keep, move, turn, rr, ss, aa, cond = written
    if stop[0] != 0.0:
        for scalar in written:
            scalar[0] = np.nan
        return
    with np.errstate(all="ignore"):
        c_hat, s_hat, alpha_hat = _turned(alpha_bar[0], damp[0])
        rho_old, rho_bar_old, zeta_old = rho[0], rho_bar[0], zeta[0]
        c, s, rho[0] = _turned(alpha_hat, beta[0])
        theta_new, alpha_bar[0] = s * alpha[0], c * alpha[0]
        theta_bar, rho_hat = s_bar[0] * rho[0], c_bar[0] * rho[0]
        c_bar[0], s_bar[0], rho_bar[0] = _turned(rho_hat, theta_new)
        zeta[0], zeta_bar[0] = c_bar[0] * zeta_bar[0], -s_bar[0] * zeta_bar[0]
        keep[0] = -(theta_bar * rho[0]) / (rho_old * rho_bar_old)
        move[0] = zeta[0] / (rho[0] * rho_bar[0])
        turn[0] = -theta_new / rho[0]
        # ‖r‖, of the same rotations from the other side.
        acute, check = c_hat * beta_dd[0], -s_hat * beta_dd[0]
        beta_hat, beta_dd[0] = c * acute, -s * acute
        theta_old = theta[0]
        c_tilde, s_tilde, rho_tilde = _turned(rho_d[0], theta_bar)
        theta[0], rho_d[0] = s_tilde * rho_bar[0], c_tilde * rho_bar[0]
        beta_d[0] = c_tilde * beta_hat - s_tilde * beta_d[0]
        tau[0] = (zeta_old - theta_old * tau[0]) / rho_tilde
        gap = beta_d[0] - (zeta[0] - theta[0] * tau[0]) / rho_d[0]
        d[0] += check * check
        rr[0] = d[0] + gap * gap + beta_dd[0] * beta_dd[0]
        ss[0] = zeta_bar[0] * zeta_bar[0]
        aa[0] = aa_next[0] + beta[0] * beta[0]
        aa_next[0] = aa[0] + alpha[0] * alpha[0]
        cond[0] = max(most[0], rho_hat) / min(least[0], rho_hat)
        most[0], least[0] = max(most[0], rho_bar[0]), min(least[0], rho_bar[0])


def _turned(a: float, b: float) -> tuple[float, float, float]:
    """c, s and r of the rotation that turns (a, b) into (r, 0)."""
    r = np.sqrt(a * a + b * b)
    return (a / r, b / r, r) if r > 0.0 else (1.0, 0.0, 0.0)


def normal_step(ss: Scalar, qq: Scalar, pp: Scalar, damp: Scalar, stop: Scalar, aa: Scalar, alpha: Scalar) -> None:
    alpha[0] = np.nan
    if stop[0] != 0.0:
        return
    with np.errstate(all="ignore"):
        alpha[0] = ss[0] / (qq[0] + damp[0] * damp[0] * pp[0])
        aa[0] = max(aa[0], qq[0] / pp[0]) if pp[0] > 0.0 else aa[0]


def settle(*scalars: Scalar) -> None:
    rr, ss, aa, cond, xx, bb, atol, btol, ctol, stop = scalars
    if stop[0] != 0.0:
        return
    with np.errstate(all="ignore"):
        r, s, a, x, b = (np.sqrt(square[0]) for square in (rr, ss, aa, xx, bb))
        if not np.isfinite(r + s + a + x):
            stop[0] = 8.0
            return
        share, normal, inverse = r / b, s / (a * r) if a * r > 0.0 else np.inf, 1.0 / cond[0]
        size = a * x / b
        reasons = (
            share <= btol[0] + atol[0] * size,
            normal <= atol[0],
            inverse <= ctol[0],
            1.0 + share / (1.0 + size) <= 1.0,
            1.0 + normal <= 1.0,
            1.0 + inverse <= 1.0,
        )
        stop[0] = next((number for number, met in enumerate(reasons, 1) if met), 0.0)
