"""Solutions of least squares."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, final

from dsolver.monitor.pages.curve import curve
from dsolver.monitor.pages.notebook import facts, view
from dsolver.solution import SolutionSequence
from dsolver.status import Status
from dsolver.units import counted


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LeastSquaresSolution:
    """The result of `dsolver.lsmr` and `dsolver.cgls`. It unpacks as what `scipy.sparse.linalg.lsmr` returns.

    Attributes:
        x: shape (n,), float64, in the kind of container that b came in.
        status: how the solve ended: `Status.CONVERGED` where x solves A x = b or is that of least squares, to the
            tolerances.
        istop: the reason in SciPy's numbers: 0 the first guess is the solution, 1 A x = b to the tolerances, 2 least
            squares to the tolerance, 3 conlim was reached, 4 to 6 as 1 to 3 up to rounding, 7 maxiter was reached; 8
            a number was not finite.
        advice: what to do where it did not converge.
        iterations: that were made.
        residuals: ‖b - A x_k‖₂ by the recursion, k = 0 .. iterations; of LSMR with damp and SciPy alike
            √(‖b - A x‖² + damp² ‖x‖²).
        normal_residuals: ‖Aᵀ(b - A x_k) - damp² x_k‖₂ of each; with scale="columns" of A with scaled columns.
        true_residual: ‖b - A x‖₂, computed anew from x.
        true_normal_residual: ‖Aᵀ(b - A x) - damp² x‖₂, computed anew.
        b_norm: ‖b‖₂.
        matrix_norm: ‖A‖, estimated on the way.
        condition: condition number of A, estimated on the way; 1 of CGLS, which does not estimate it.
        x_norm: ‖x‖₂.
        timings: seconds of "setup", "solve" and "total".
        engine: the engine, device and number of workers that ran it.
        notes: what went another way than asked for, in sentences; empty as a rule.
    """

    x: Any
    status: Status
    istop: int
    iterations: int
    residuals: tuple[float, ...]
    normal_residuals: tuple[float, ...]
    true_residual: float
    true_normal_residual: float
    b_norm: float
    matrix_norm: float
    condition: float
    x_norm: float
    timings: Mapping[str, float]
    engine: str
    advice: str = field(default="", repr=False)
    notes: tuple[str, ...] = ()

    @property
    def converged(self) -> bool:
        """Whether a tolerance was reached."""
        return self.status.converged

    def __iter__(self) -> Iterator[Any]:
        """Items of SciPy's tuple: x, istop, itn, normr, normar, norma, conda, normx."""
        norms = self.residuals[-1], self.normal_residuals[-1], self.matrix_norm, self.condition, self.x_norm
        return iter((self.x, self.istop, self.iterations, *norms))

    def __getitem__(self, index: int) -> Any:
        return tuple(self)[index]

    def _repr_html_(self) -> str:
        about = {
            "advice": "" if self.converged else self.advice,
            "‖b − A x‖": f"{self.true_residual:.3e}",
            "‖Aᵀ(b − A x)‖": f"{self.true_normal_residual:.3e}",
            "condition number": f"{self.condition:.1e}",
            "seconds": ", ".join(f"{name} {value:.3f}" for name, value in self.timings.items()),
            "engine": self.engine,
            "notes": " ".join(self.notes),
        }
        took = counted(self.iterations, "iteration")
        title = f"Least squares, {self.x.shape[0]} unknowns: {self.status} after {took}"
        return view(title, facts(about), curve(range(len(self.normal_residuals)), self.normal_residuals, 0.0))

    def __repr__(self) -> str:
        return (
            f"<LeastSquaresSolution {self.x.shape[0]}: {self.status} after {counted(self.iterations, 'iteration')}, "
            f"‖b - Ax‖ = {self.true_residual:.2e}, {self.timings['total']:.2f} s on {self.engine}>"
        )


@final
class LeastSquaresSolutions(SolutionSequence[LeastSquaresSolution]):
    """The results of `dsolver.lsmr` and `dsolver.cgls` for several right-hand sides: x is (n, k), or a list."""
