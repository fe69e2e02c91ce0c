"""Functions of arrays that stand for a matrix or a preconditioner: of whole arrays, or of a chunk and its halo."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from dsolver.errors import InputError, in_a_line
from dsolver.grid.box import Offsets, Triple

if TYPE_CHECKING:
    from dsolver.problems.problem import Problem


@dataclass(frozen=True)
class ByChunk:
    """A function of a chunk and so many layers of points around it. Make it with `dsolver.by_chunk`."""

    function: Callable[[Any, tuple[slice, ...]], Any]
    halo: int = 0


def by_chunk(function: Callable[[Any, tuple[slice, ...]], Any], *, halo: int = 0) -> ByChunk:
    """A function that is called for each chunk of a grid where the chunk lies, as M, or as A in `dsolver.operator`.

    On a cluster it is sent to the workers, nothing but layers around chunks travels between them, and its arrays are
    those of their devices: NumPy's on CPUs, CuPy's on GPUs.

    Args:
        function: y = function(x, where). x has the chunk's values with `halo` layers of points around them along every
            axis of the grid: those of neighbors, zero outside the grid, and around the end along periodic axes. y has
            the shape of the chunk alone. where: slices of the chunk in arrays of the whole grid, one for each axis.
        halo: how many layers.

    Raises:
        InputError: the function is none, or the halo no integer >= 0.
    """
    called: Any = function
    layers: Any = halo
    if not callable(called) or isinstance(called, type):
        raise InputError(f"by_chunk needs a function y = f(x, where), not {in_a_line(called)}")
    if not isinstance(layers, Integral) or int(layers) < 0:
        raise InputError(f"halo must be an integer >= 0, not {in_a_line(layers)}")
    return ByChunk(function, int(layers))


@dataclass(kw_only=True)
class UserFunction:
    """A function of the user's, with what is known of the vectors that it is called with."""

    name: str  # of the argument that it came as, "A" or "M"
    function: Callable[..., Any]  # y = function(x) of whole arrays, or as of `ByChunk`
    shape: tuple[int, ...]  # of whole arrays
    grid: Triple  # theirs to engines
    halo: int | None = None  # as of `ByChunk`; None for whole arrays
    numbers: Any = None  # the user's number of each row to engines; None where that is its own
    host: bool = True  # whether whole arrays are to be NumPy's, and not the device's
    fixed: bool = False  # whether that is known of the function, whatever b is
    asymmetry: str = ""  # of a matrix, as of `Problem`
    alone: bool = False  # whether there are no rows from which preconditioners could be made
    # an empty array of the kind that it was last called with.
    kind: Any = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def offsets(self) -> Offsets:
        """Steps from a row of a chunk to the rows around it that are read."""
        steps = sorted({-(self.halo or 0), 0, self.halo or 0})
        return tuple((i, j, k) for k in steps for j in steps for i in steps)

    def expect(self, *, host: bool) -> None:
        """Expect arrays of the kind that b is, unless the function takes one kind alone."""
        self.host = self.host if self.fixed else host

    def of_whole(self, values: Any) -> Any:
        """y = function(x) of arrays of the grid's shape. InputError: the function returns something else than y."""
        self.kind = np.empty_like(values, shape=0)
        flat = values.reshape(-1)
        if self.numbers is not None:
            sorted_back = np.empty_like(flat)
            sorted_back[np.asarray(self.numbers, like=flat)] = flat
            flat = sorted_back
        found = self._checked(self.function(flat.reshape(self.shape)), values, self.shape)
        if self.numbers is not None:
            found = found.reshape(-1)[np.asarray(self.numbers, like=found)]
        return found.reshape(self.grid)

    def difference(self) -> float:
        """|xᵀFy - yᵀFx| for random x and y, over what such a product comes to, of a function F of whole arrays."""
        random = np.random.default_rng(0)
        x, y = (np.asarray(random.standard_normal(self.shape), like=self.kind) for _ in range(2))
        f_x, f_y = (self._shaped(self.function(each.copy()), self.shape).copy() for each in (x, y))  # perhaps one array
        size = math.sqrt(float((abs(f_x) ** 2).sum()) * float((y * y).sum()) / x.size)
        return abs(complex((x * f_y).sum()) - complex((y * f_x).sum())) / size if size else 0.0

    def of_chunk(self, padded: Any, where: tuple[slice, slice, slice]) -> Any:
        """y = function(x, where) of a chunk's block (nx, ny, nz) with layers around it. Raises as `of_whole`."""
        own, width, dimensions = where[: len(self.shape)], self.halo or 0, len(self.shape)
        padded = padded[(..., *[width] * (3 - dimensions))]  # without the axes that the user's grid does not have
        expected = tuple(each.stop - each.start for each in own)
        found = self._checked(self.function(padded, own), padded, expected, f"the chunk's shape {expected}")
        return found.reshape(tuple(each.stop - each.start for each in where))

    def _shaped(self, found: Any, expected: tuple[int, ...], meant: str = "") -> Any:
        """Result of the function, an array of this shape."""
        shape = getattr(found, "shape", None)
        if shape is None or tuple(shape) != expected:
            told = type(found).__name__ if shape is None else f"an array of shape {tuple(shape)}"
            meant = meant or f"b's shape {expected}"
            raise InputError(f"{self.name} returned {told}: it must return an array of {meant}")
        return found

    def _checked(self, found: Any, given: Any, expected: tuple[int, ...], meant: str = "") -> Any:
        self._shaped(found, expected, meant)
        if np.dtype(found.dtype).kind not in ("fiuc" if given.dtype.kind == "c" else "fiu"):
            if np.dtype(found.dtype).kind == "c" and self.name == "A":
                raise InputError(
                    f"A returned an array of dtype {found.dtype} for real numbers: a function that is complex needs "
                    f"M_from=, a complex matrix near it, or dtype=complex of a LinearOperator"
                )
            raise InputError(f"{self.name} returned an array of dtype {found.dtype}: real numbers are needed")
        return found


def function_for(name: str, function: Any, problem: "Problem") -> UserFunction:
    """A function of arrays, `ByChunk` or SciPy's kind, for a problem's vectors. InputError: it cannot be called so."""
    known: dict[str, Any] = {"name": name, "shape": problem.shape, "grid": problem.grid, "numbers": problem.numbers}
    if isinstance(function, ByChunk):
        if not problem.lattice:
            raise InputError(
                f"{name} is a function by chunk, which is for grids, and {problem.name} is none: give one of whole "
                f"arrays"
            )
        return UserFunction(function=function.function, halo=function.halo, **known)
    function = as_function(function)
    on_gpu = False
    if isinstance(function, OperatorProduct):
        _check_size(name, function.operator, problem)
        on_gpu = any(base.__module__.startswith("cupyx") for base in type(function.operator).__mro__)
    return UserFunction(function=function, host=not on_gpu, fixed=on_gpu, **known)


def is_operator(given: Any) -> bool:
    """Whether it is an object of SciPy's kind, (n, n) with `matvec` or ``@``."""
    return hasattr(given, "shape") and (hasattr(given, "matvec") or hasattr(given, "__matmul__"))


@dataclass(frozen=True, eq=False)
class OperatorProduct:
    """An object of SciPy's kind as a function of arrays."""

    operator: Any

    def __call__(self, x: Any) -> Any:
        """The product with the raveled array, in its shape."""
        product = getattr(self.operator, "matvec", None) or self.operator.__matmul__
        return product(x.reshape(-1)).reshape(x.shape)

    def __repr__(self) -> str:
        return f"<{type(self.operator).__name__} {self.operator.shape}>"


def as_function(given: Any) -> Any:
    """An object of SciPy's kind as a function of arrays; a function as it is."""
    return OperatorProduct(given) if is_operator(given) else given


def _check_size(name: str, operator: Any, problem: "Problem") -> None:
    grid, size = problem.grid, math.prod(problem.grid)
    if tuple(operator.shape) != (size, size):
        of, rows = ("A", "row of A") if grid[1:] == (1, 1) else (f"the grid {grid}", "point, in the order of b.ravel()")
        raise InputError(
            f"{name} has shape {tuple(operator.shape)}, but for {of} it must be ({size}, {size}): a row for each {rows}"
        )
