"""Chebyshev polynomials in D⁻¹A, and the largest eigenvalue, which they need."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Final, final

import numpy as np

from dsolver.distributed.forecast import F64, Part
from dsolver.engines.base import Field
from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.contract import CHEBYSHEV, JACOBI, LOAD
from dsolver.krylov.method import ApproximateInverse
from dsolver.multigrid.smoothers import SAFETY, chebyshev_steps
from dsolver.preconditioners.base import Capabilities, Forecast, Preconditioner, Site, is_a
from dsolver.preconditioners.relaxation.jacobi import DiagonalInverse

LANCZOS_STEPS: Final = 10
NOTHING: Final = 1e-14  # part of the largest pᵀAp / rᵀMr below which a step of Lanczos' method is rounding


@final
@dataclass(frozen=True, kw_only=True)
class Chebyshev(Preconditioner):
    """A polynomial in D⁻¹A: steps of the Chebyshev iteration from zero: ``"chebyshev"``.

    It needs neither sweeps nor levels, and between dot products it does several products with A: where latency is what
    an iteration costs, fewer iterations are faster (Saad, Iterative Methods for Sparse Linear Systems, 12.3.2; Adams,
    Brezina, Hu, Tuminaro, J. Comput. Phys. 188, 2003).

    Attributes:
        degree: products with D⁻¹A and one, so `degree` - 1 products with A each time.
        ratio: the iteration damps eigenvalues of D⁻¹A between the largest / ratio and the largest, which
            `LANCZOS_STEPS` steps of Lanczos' method estimate at set-up. Those below are left to conjugate gradients.

    Raises:
        InputError: the degree is no integer >= 1, or the ratio no finite number > 1.
    """

    setup_iterations: ClassVar[float] = 4.0
    can: ClassVar[Capabilities] = Capabilities(batched=True, diagonal=True, symmetric=True)
    degree: int = 4
    ratio: float = 30.0

    def __post_init__(self) -> None:
        if not (is_a(self.degree, Integral) and self.degree >= 1):
            raise InputError(f"degree must be an integer >= 1, not {self.degree!r}")
        if not (is_a(self.ratio, Real) and 1.0 < self.ratio < math.inf):
            raise InputError(f"ratio must be a finite number > 1, not {self.ratio!r}")

    def on(self, site: Site) -> ApproximateInverse:
        """The polynomial, for the largest eigenvalue that is estimated now, if it has not been."""
        if isinstance(site.single, _Chebyshev):
            return _Chebyshev(site, site.single.steps)
        return _Chebyshev(site, chebyshev_steps(SAFETY * largest_eigenvalue(site), self.ratio, self.degree))

    def forecast(self, part: Part) -> Forecast:
        """D⁻¹ r, its copy, and for each step a product and seven vectors; d and A z are kept."""
        a = part.stored()
        vector = F64 * a.rows
        steps = (self.degree - 1) * (a.stored(F64) + 10 * vector)
        return Forecast(levels=(a,), vectors=2 * F64 * a.size, moved=5 * vector + steps)

    def iterations(self, alone: float, rtol: float) -> float:
        """Nearly as many products with A as without it."""
        return alone / (0.9 * self.degree)


class _Chebyshev:
    def __init__(self, site: Site, steps: list[tuple[float, float]]) -> None:
        self._engine, self._matrix, self._a = site.engine, site.matrix.local, site.matrix
        self.steps = steps
        self._d, self._az = (site.engine.field(site.matrix.layout) for _ in range(2))

    def apply(self, r: Field, z: Field) -> None:
        """z = q(D⁻¹A) D⁻¹ r with the polynomial q."""
        engine = self._engine
        (_, first), *steps = self.steps
        engine.run(JACOBI, self._matrix, r, first, z)
        if steps:
            engine.copy(z, self._d)
        for keep, gain in steps:
            self._a.multiply(z, self._az)
            engine.run(CHEBYSHEV, self._matrix, r, self._az, keep, gain, self._d, z)


def largest_eigenvalue(site: Site) -> float:
    """An estimate from below of the largest eigenvalue of D⁻¹A.

    By conjugate gradients with D for M on a rough right-hand side: their coefficients are those of Lanczos' method
    (Saad, 6.7.3). b and x of `site.cg` stay what they were: a solve may go on with them. Where A or D is not positive
    definite it is 1: the first iteration of the solve finds that out and ends.
    """
    engine, cg = site.engine, site.cg
    kept = [(used, engine.field(site.matrix.layout)) for used in (cg.b, cg.x)]
    for used, copy in kept:
        engine.copy(used, copy)
    engine.run(LOAD, site.matrix.layout, engine.per_chunk(partial(noise, engine.partition)), cg.b)
    engine.fill(site.matrix.layout, 0.0, cg.x)
    cg.preconditioner = DiagonalInverse(engine, site.matrix.local)
    cg.start(0.0)
    pairs: list[tuple[float, float]] = []
    for _ in range(LANCZOS_STEPS):
        cg.step()  # not by `repeat`, which may keep a recording of it
        rz, pap = engine.read(cg.rz, cg.pap)
        if not (0.0 < rz < math.inf and -math.inf < pap < math.inf):
            break
        rounding = NOTHING * rz * max((product / norm for norm, product in pairs), default=0.0)
        if pap <= rounding:  # of few rows a null vector may be all that is left: its step counts
            pairs += [(rz, 0.0)] if pairs and pap >= -rounding else []
            break
        pairs.append((rz, pap))
    cg.preconditioner = None
    for used, copy in kept:
        engine.copy(copy, used)
    return ritz_values(pairs)[-1] if pairs else 1.0


def ritz_values(pairs: Sequence[tuple[float, float]]) -> list[float]:
    """Ascending eigenvalues of Lanczos' tridiagonal matrix from (rᵀMr, pᵀAp) of each conjugate gradient step."""
    rz, pap = np.array(pairs).T
    with np.errstate(divide="ignore"):  # the last step may have no end
        alpha, beta = rz / pap, rz[1:] / rz[:-1]
    diagonal = 1.0 / alpha
    diagonal[1:] += beta / alpha[:-1]
    beside = np.sqrt(beta) / alpha[:-1]
    return np.linalg.eigvalsh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)).tolist()


def noise(partition: Partition, backend: Backend, number: int, seed: int = 0) -> Any:
    """Rough values in -0.5 .. 0.5 at the points of a chunk, others for each seed: float64 (nx, ny, nz)."""
    return noises(partition, backend, number, range(seed, seed + 1))[0]


def noises(partition: Partition, backend: Backend, number: int, seeds: range) -> Any:
    """Rough values for each of several seeds, (seeds, nx, ny, nz): on a GPU as many launches as for one."""
    xp, box = backend.xp, partition[number].box
    x, y, z = (xp.arange(a, b, dtype=np.uint32) for a, b in zip(box.lo, box.hi, strict=True))
    turned = xp.asarray([seed * 0x9E3779B1 % 2**32 for seed in seeds], dtype=np.uint32)
    bits = (
        (x * np.uint32(73856093))[:, None, None]
        ^ (y * np.uint32(19349663))[None, :, None]
        ^ (z * np.uint32(83492791))[None, None, :]
        ^ turned[:, None, None, None]
    )
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):  # of C. Wellons' hash functions with low bias
        bits ^= bits >> np.uint32(shift)
        bits *= np.uint32(factor)
    bits ^= bits >> np.uint32(16)
    values = bits.astype(np.float64)
    values *= 2.0**-32
    values -= 0.5
    return values
