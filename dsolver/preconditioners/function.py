"""Preconditioners of the user's own: functions, and objects of SciPy's kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, final

import numpy as np

from dsolver.distributed.forecast import F64, Part
from dsolver.engines.base import Field
from dsolver.errors import InputError
from dsolver.grid.partition import Partition, Triple
from dsolver.krylov.method import ApproximateInverse
from dsolver.preconditioners.base import Built, Capabilities, Forecast, Preconditioner, Site
from dsolver.preconditioners.builder import Builder
from dsolver.problems import Problem

BLOCK_BYTES: Final = 34
"""Bytes of each row: those of any solve (`base.BLOCK_BYTES`), a residual and what the function makes of it."""


@final
@dataclass(kw_only=True)
class Function(Preconditioner):
    """A function of the user, called with whole arrays in this process.

    Attributes:
        function: z = function(r), both of the shape of right-hand sides.
        host: whether it wants NumPy arrays, and not the device's.
        problem: whose right-hand sides it is called with.
        kind: an empty array of the kind that it was last called with.
    """

    can: ClassVar[Capabilities] = Capabilities(everywhere=False, recorded=False, complex=True)
    function: Callable[[Any], Any]
    host: bool = field(default=True)
    problem: Problem = field(init=False, repr=False, compare=False)
    kind: Any = field(default_factory=lambda: np.empty(0), init=False, repr=False, compare=False)

    def check(self, problem: Problem, partition: Partition) -> None:
        """Take notice of what right-hand sides are."""
        self.problem = problem

    def build(self, builder: Builder) -> Built:
        """A for products alone."""
        return builder.products(), ()

    def on(self, site: Site) -> ApproximateInverse:
        """The function, as a preconditioner."""
        return _Function(self, site)

    def forecast(self, part: Part) -> Forecast:
        """Bytes of A, r and z; those of the function itself are not known."""
        a = part.products()
        return Forecast(levels=(a,), blocks=BLOCK_BYTES, moved=2 * F64 * a.rows)

    def asymmetry(self) -> float:
        """|xᵀMy - yᵀMx| for random x and y, over what such a product comes to; it is called twice for that."""
        random = np.random.default_rng(0)
        x, y = (np.asarray(random.standard_normal(self.problem.shape), like=self.kind) for _ in range(2))
        m_x = self.function(x.copy()).copy()  # it may return the same array each time
        m_y = self.function(y.copy())
        size = math.sqrt(float((m_x * m_x).sum()) * float((y * y).sum()) / x.size)
        return abs(float((x * m_y).sum()) - float((y * m_x).sum())) / size if size else 0.0

    def expect(self, *, host: bool) -> None:
        """It is called with the kind of array that b is."""
        self.host = host


@final
class _Function:
    def __init__(self, function: Function, site: Site) -> None:
        self._function, self._engine, self._layout = function, site.engine, site.matrix.layout

    def apply(self, r: Field, z: Field) -> None:
        """z = function(r)."""
        engine, partition = self._engine, self._engine.partition
        problem = self._function.problem
        expected = problem.shape
        whole = problem.from_grid(self._whole(engine.unload(r, self._layout)))
        self._function.kind = np.empty_like(whole, shape=0)
        result = self._function.function(whole)
        shape = getattr(result, "shape", None)
        if shape is None or tuple(shape) != expected:
            found = type(result).__name__ if shape is None else f"an array of shape {tuple(shape)}"
            raise InputError(f"M returned {found}: it must return an array of b's shape {expected}")
        if np.dtype(result.dtype).kind not in ("fiuc" if engine.is_complex else "fiu"):
            raise InputError(f"M returned an array of dtype {result.dtype}: real numbers are needed")
        result = problem.to_grid(result)
        engine.load({chunk.number: result[chunk.box.slices] for chunk in partition}, self._layout, z)

    def _whole(self, blocks: Mapping[int, Any]) -> Any:
        host = self._function.host
        found = {number: block.get() if host and hasattr(block, "get") else block for number, block in blocks.items()}
        if len(found) == 1:
            return found[0]
        like, partition = found[0], self._engine.partition
        whole = np.empty_like(like, shape=partition.grid)  # of the blocks' kind: NumPy asks the array
        for chunk in partition:
            whole[chunk.box.slices] = found[chunk.number]
        return whole


def of_operator(operator: Any, grid: Triple) -> Callable[[Any], Any]:
    """An object of SciPy's kind, (n, n) with `matvec` or ``@``, as a function of arrays of the grid's shape."""
    size = math.prod(grid)
    if tuple(operator.shape) != (size, size):
        of, rows = ("A", "row of A") if grid[1:] == (1, 1) else (f"the grid {grid}", "point, in the order of b.ravel()")
        raise InputError(
            f"M has shape {tuple(operator.shape)}, but for {of} it must be ({size}, {size}): a row for each {rows}"
        )
    product = getattr(operator, "matvec", None) or operator.__matmul__

    def apply(r: Any) -> Any:
        return product(r.reshape(size)).reshape(r.shape)

    return apply
