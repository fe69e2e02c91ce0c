"""Result of a run of the benchmark: checks, speeds, seconds."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, final

from dsolver.grid.box import Triple
from dsolver.monitor.spans import Exposure, Span

CG_TOLERANCE: Final = 1e-12
CG_LIMIT: Final = 50
CG_EXPECTED: Final = {"plain": 12, "preconditioned": 2}
"""TestCG: the most iterations to `CG_TOLERANCE` without and with the preconditioner; `CG_LIMIT` are tried."""
DEPARTURE_LIMIT: Final = 1.0
ITERATIONS_LIMIT: Final = 500
VARIANCE_LIMIT: Final = 1e-6


@dataclass(frozen=True, kw_only=True)
class CgTest:
    """TestCG: iterations on a nearly diagonal matrix, with and without M, or None if `CG_LIMIT` were not enough."""

    plain: int | None
    preconditioned: int | None

    @property
    def problem(self) -> str | None:
        """Why it failed; None if it passed."""
        for name, allowed in CG_EXPECTED.items():
            used = getattr(self, name)
            if used is None or used > allowed:
                took = f"more than {CG_LIMIT}" if used is None else str(used)
                return f"TestCG ({name}) took {took} iterations, {allowed} are allowed"
        return None


@dataclass(frozen=True, kw_only=True)
class SymmetryTest:
    """TestSymmetry: |xᵀA y - yᵀA x| in units of the bound for rounding, and the same for the preconditioner M."""

    spmv: float
    mg: float

    @property
    def problem(self) -> str | None:
        """Why it failed; None if it passed."""
        for name, departure in (("matrix", self.spmv), ("preconditioner", self.mg)):
            if not departure <= DEPARTURE_LIMIT:  # NaN fails
                return f"TestSymmetry: the {name} is {departure:.2e} times as far from symmetric as rounding explains"
        return None


@dataclass(frozen=True, kw_only=True)
class IterationsTest:
    """The optimized CG reaches what the reference CG reached."""

    tolerance: float  # ‖r‖/‖r0‖ after the reference's 50 iterations in natural order
    needed: int | None  # iterations in the wanted order down to that, or None if `ITERATIONS_LIMIT` were not enough

    @property
    def problem(self) -> str | None:
        """Why it failed; None if it passed."""
        if self.needed is None:
            return f"{ITERATIONS_LIMIT} iterations do not reach the reference's residual {self.tolerance:.3e}"
        return None


@dataclass(frozen=True, kw_only=True)
class VarianceTest:
    """Sets with the same number of iterations end at the same residual: mean and variance of their last ‖r‖/‖r0‖."""

    sets: int
    mean: float
    variance: float

    @property
    def problem(self) -> str | None:
        """Why it failed; None if it passed."""
        if not self.variance < VARIANCE_LIMIT:  # NaN fails
            return f"the sets' residuals vary by {self.variance:.2e}, allowed is {VARIANCE_LIMIT:g}"
        return None


@dataclass(frozen=True, kw_only=True)
class Checks:
    """The checks of a full run; all None when only iterations were asked for."""

    cg: CgTest | None = None
    symmetry: SymmetryTest | None = None
    iterations: IterationsTest | None = None
    variance: VarianceTest | None = None

    @property
    def valid(self) -> bool | None:
        """Whether every check passed; None if none was made."""
        made = self.made
        return None if not made else all(test.problem is None for test in made.values())

    @property
    def made(self) -> dict[str, CgTest | SymmetryTest | IterationsTest | VarianceTest]:
        """The checks that were made, by name."""
        every = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: test for name, test in every.items() if test is not None}

    @property
    def problems(self) -> list[str]:
        """Why the run is not valid; empty if it is."""
        return [test.problem for test in self.made.values() if test.problem is not None]

    def to_dict(self) -> dict[str, Any]:
        """Numbers and `passed` of every check."""
        every: dict[str, Any] = {f.name: None for f in fields(self)}
        return every | {name: {"passed": test.problem is None} | asdict(test) for name, test in self.made.items()}


@dataclass(frozen=True, kw_only=True)
class Gflops:
    """Speed in GF/s (1e9 counted operations a second); ddot, waxpby, spmv, mg: alone, in loops of their own."""

    raw: float | None  # of all sets, without deductions
    rating: float | None = None  # with the deductions of the rules
    ddot: float | None = None
    waxpby: float | None = None
    spmv: float | None = None
    mg: float | None = None


@final
@dataclass(frozen=True, kw_only=True)
class HpcgResult:
    """A run of the benchmark."""

    grid: Triple  # points along x, y, z
    chunks: Triple  # how many chunks along x, y, z
    engine: str  # "reference", "graph" or "resident"
    kernels: str  # "numpy", "cpu" or "cuda"
    order: str  # of the smoother
    device: str  # "cpu" or "cuda"
    iterations: int  # CG iterations of a set
    residuals: list[float]  # ‖r_k‖/‖r_0‖ of the last set, k = 0 .. iterations.
    gflops: Gflops  # speeds; only `raw` when just iterations were asked for
    # by phase. setup: of the plain, natural-order set-up (of the wanted order when just iterations were asked for);
    # optimize: of the set-up in the wanted order, all of it; total: everything.
    seconds: Mapping[str, float | None]
    tests: Checks
    versions: Mapping[str, str | None]  # of what took part; None where a package is missing
    precond_dtype: str = "float64"  # the value type of multigrid in the wanted order
    # how much communication an iteration leaves exposed: of some that were measured beside the timed sets.
    exposure: Exposure | None = None
    spans: tuple[Span, ...] = field(default=(), repr=False)  # what ran when in those; not in the JSON

    @property
    def scaled_residual(self) -> float:
        """The last residual."""
        return self.residuals[-1]

    @property
    def valid(self) -> bool | None:
        """Whether all checks passed and the rules were kept; None if no check was made."""
        return None if self.tests.valid is None else not self.problems

    @property
    def problems(self) -> list[str]:
        """Why the run is not valid; empty if it is."""
        lowered = self.precond_dtype != "float64"
        broken = [f"the preconditioner ran in {self.precond_dtype}, and the rules want float64"] if lowered else []
        return broken + self.tests.problems

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts."""
        exposed, names = self.exposure, ("engine", "kernels", "order", "precond_dtype", "device", "iterations")
        return {
            "grid": list(self.grid),
            "chunks": list(self.chunks),
            **{name: getattr(self, name) for name in names},
            "residuals": list(self.residuals),
            "scaled_residual": self.scaled_residual,
            "gflops": asdict(self.gflops),
            "seconds": dict(self.seconds),
            "tests": self.tests.to_dict(),
            "valid": self.valid,
            "versions": dict(self.versions),
            "exposed_ms": None if exposed is None else exposed.total.ms,
            "exposed_percent": None if exposed is None else exposed.total.percent,
            "exposed": None if exposed is None else exposed.to_dict(),
        }

    def to_json(self) -> str:
        """JSON of `to_dict`. A number that is not finite becomes null, which JSON can say."""
        return json.dumps(_finite(self.to_dict()), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
