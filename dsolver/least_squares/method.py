"""Interface of methods for least squares at work: vectors of two lengths, a step, and what ends the iterations."""

from abc import ABC, abstractmethod
from typing import Any

from dsolver.engines.base import Engine, Field, PerChunk, Scalar
from dsolver.engines.repetition import Repetition, Samples
from dsolver.kernels.contract import AXPBY, SETTLE, WAXPBY


class LeastSquaresMethod(ABC):
    """A method for the x with least ‖b - A x‖² + damp² ‖x‖², where A is rectangular.

    A step is the same operations on the same handles each time, and no scalar leaves the device. Once a reason to stop
    was met, a step no longer changes x: steps may be launched ahead of knowing whether they are needed.

    Args:
        rows: the `Layout` of every chunk of vectors with an item for each row of A.
        columns: that of vectors with an item for each column.
        a, a_t: multiply with A and Aᵀ.

    Attributes:
        b, r: right-hand side; work space of its length.
        x, s: iterate; work space of its length.
    """

    def __init__(self, engine: Engine, rows: PerChunk, columns: PerChunk, a: Any, a_t: Any, damp: float) -> None:
        self._engine, self._rows, self._columns = engine, rows, columns
        self._forward, self._backward, self._damp_value = a, a_t, damp
        self.b, self.r = engine.field(rows), engine.field(rows)
        self.x, self.s = engine.field(columns), engine.field(columns)
        self._parts = engine.partial_sums()
        self._one, self._zero, self._damp = engine.scalar(1.0), engine.scalar(0.0), engine.scalar(damp)
        self._stop, self._rr, self._ss, self._aa, self._cond, self._xx = (engine.scalar(0.0) for _ in range(6))
        self._bb = engine.scalar(0.0)
        self._limits = tuple(engine.scalar(0.0) for _ in range(3))

    @abstractmethod
    def step(self) -> None:
        """One iteration."""

    @abstractmethod
    def _begin(self) -> tuple[float, float]:
        """Begin from r = b - A x, which is set; ‖r‖² and ‖Aᵀr - damp² x‖²."""

    @abstractmethod
    def damped(self) -> Field:
        """The vector that is damped, once the iterations have ended."""

    def begin(self, atol: float, btol: float, ctol: float) -> tuple[float, float, float]:
        """Begin from the x and b that are set: ‖b‖², ‖r‖², ‖Aᵀr - damp² x‖². Limits: as of `contract.SETTLE`."""
        engine = self._engine
        self._dot(self.b, self.b, self._bb)
        for scalar, value in zip((self._stop, *self._limits), (0.0, atol, btol, ctol), strict=True):
            engine.set(scalar, value)
        self._residual()
        (bb,) = engine.read(self._bb)
        return (bb, *self._begin())

    def advance(self, steps: int, *, measured: bool = False) -> Samples:
        """The watched scalars after each of so many steps: why to stop, the squares of ‖r‖, ‖Aᵀr‖, ‖A‖, cond, ‖x‖²."""
        return self._engine.repeat(self.step, steps, self._watched, Repetition(measured=measured))

    # -- operations of both methods ------------------------------------------------------------------------------------

    @property
    def _watched(self) -> tuple[Scalar, ...]:
        return self._stop, self._rr, self._ss, self._aa, self._cond, self._xx

    def _residual(self) -> None:
        """r = b - A x."""
        self._forward.multiply(self.x, self.r)
        self._engine.run(WAXPBY, 1.0, self.b, -1.0, self.r, self.r)

    def _dot(self, x: Field, y: Field, out: Scalar) -> None:
        """out = x . y."""
        self._engine.dot(x, y, self._parts, out)

    def _settle(self) -> None:
        """Look whether the iterations are to end here."""
        self._dot(self.x, self.x, self._xx)
        norms = self._rr, self._ss, self._aa, self._cond, self._xx, self._bb
        self._engine.calculate(SETTLE, *norms, *self._limits, self._stop)

    def _combine(self, a: Scalar, x: Field, b: Scalar, y: Field) -> None:
        """y = a x + b y, unless a or b is not finite."""
        self._engine.run(AXPBY, 1.0, a, x, b, y)
