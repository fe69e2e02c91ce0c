"""Preconditioners of the user's own: functions of whole arrays or by chunk, and objects of SciPy's kind."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, final

from dsolver.distributed.called import CalledFunction
from dsolver.distributed.forecast import F64, Part
from dsolver.grid.partition import Partition
from dsolver.krylov.method import ApproximateInverse
from dsolver.preconditioners.base import Built, Capabilities, Forecast, Preconditioner, Site
from dsolver.preconditioners.builder import Builder
from dsolver.problems import Problem
from dsolver.problems.functions import UserFunction, function_for

BLOCK_BYTES: Final = 34
"""Bytes of each row: those of any solve (`base.BLOCK_BYTES`), a residual and what the function makes of it."""


@dataclass(kw_only=True)
class _OfUser(Preconditioner):
    """A function of the user's. Its `called` is set when a problem is known."""

    function: Any
    called: UserFunction = field(init=False, repr=False, compare=False)

    def check(self, problem: Problem, partition: Partition) -> None:
        """Take notice of what right-hand sides are. InputError: the function is for others."""
        self.called = function_for("M", self.function, problem)

    def build(self, builder: Builder) -> Built:
        """A for products alone."""
        return builder.products(), ()

    def on(self, site: Site) -> ApproximateInverse:
        """The function, as a preconditioner."""
        return CalledFunction(site.engine, site.matrix.layout, self.called)

    def forecast(self, part: Part) -> Forecast:
        """Bytes of A, r and z; those of the function itself are not known."""
        a = part.products()
        return Forecast(levels=(a,), blocks=BLOCK_BYTES, moved=2 * F64 * a.rows)


@final
@dataclass(kw_only=True)
class Function(_OfUser):
    """A function of the user, called with whole arrays: in this process, or on a worker of a cluster that was named.

    Attributes:
        function: z = function(r), both of the shape of right-hand sides; or an object of SciPy's kind.
    """

    can: ClassVar[Capabilities] = Capabilities(everywhere=False, recorded=False, complex=True)

    def asymmetry(self) -> float:
        """|xᵀMy - yᵀMx| for random x and y, over what such a product comes to; it is called twice for that."""
        return self.called.difference()


@final
@dataclass(kw_only=True)
class FunctionByChunk(_OfUser):
    """A function of the user, called with a chunk and its halo on the owner of the chunk: see `dsolver.by_chunk`.

    Whether it is symmetric is not looked at.

    Attributes:
        function: as of `dsolver.by_chunk`.
    """

    can: ClassVar[Capabilities] = Capabilities(recorded=False, complex=True)
