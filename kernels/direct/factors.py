"""Factors of any square matrix: scaled before, and where A is singular those that solve for its least squares."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from dsolver.kernels import Backend, load
from dsolver.kernels.direct.libraries import LIBRARIES, Factors, Kind, SingularError, Values, chosen, fits, maker
from dsolver.kernels.direct.scaling import is_weak, largest_of, scaled, with_strong_diagonal
from dsolver.kernels.direct.transversal import of_largest
from dsolver.kernels.formats.csr import Csr, of_entries
from dsolver.kernels.reductions import some

ACCURATE: Final = 0.1  # part of ‖b‖ that factors may leave of a rough right-hand side. Iterations take the rest away.
GROWTH: Final = 1e6
"""Times the length of a rough x that factors may make of A x: with more they have all but divided by zero."""
BLURRED: Final = 1e-3
"""Part of a rough x that factors in float64 miss, from which on that is told: the condition of A is 1e13 and more,
however rows and columns are scaled."""


EVEN: Final = 2.0**20
"""Ratio of the rows' scales up to which those of a singular matrix are left: with more, rows would count as zeros."""
NOTHING: Final = 2.0**200
"""Ratio from which on they do: to solve such a row, x would become as large, and others would lose all digits."""


class ScaledFactors:
    """Factors of R A C with diagonal R and C of powers of two, or of what takes its place where A is singular.

    Args:
        rows: float64 (rows,), R, where the factors are.
        columns: float64 (rows,), C.

    Attributes:
        nearby: whether they are not those of the scaled matrix itself.
        projecting: whether they solve for least squares.
        blurred: whether rounding alone changes x by more than `BLURRED`.
        gpu: whether they are on a GPU, and vectors with them.
    """

    def __init__(
        self, inner: Factors, rows: Values, columns: Values, dtype: np.dtype[Any], *, nearby: bool, gpu: bool
    ) -> None:
        self._inner, self._rows, self._columns, self._dtype = inner, rows, columns, dtype
        self.nearby, self.gpu, self.blurred = nearby, gpu, False
        self.projecting = isinstance(inner, LeastSquaresFactors)

    @property
    def nbytes(self) -> int:
        """About how many bytes they take."""
        return int(self._inner.nbytes + self._rows.nbytes + self._columns.nbytes)

    def solve(self, b: Values) -> Values:
        """x with A x = b, float64 or complex128 (rows,)."""
        return self._columns * self._inner.solve((self._rows * b).astype(self._dtype, copy=False))


class LeastSquaresFactors(Factors):
    """x of the least ‖b - A x‖² + δ² ‖x‖² by factors of (δ I, A; Aᴴ, -δ I), in which the unknown r / δ is before x.

    Singular values far above δ are inverted, those far below are left out.
    """

    def __init__(self, made: Factors) -> None:
        self._made = made
        self.nbytes = made.nbytes

    def solve(self, b: Values) -> Values:
        """x."""
        return self._made.solve(np.concatenate((b, np.zeros_like(b))))[len(b) :]


@dataclass(frozen=True, kw_only=True)
class MatrixTraits:
    """Traits of the matrix that factors are made of."""

    symmetric: bool
    mirrored: bool  # whether it has an entry (j, i) for each entry (i, j)
    singular: bool  # whether constants are known to be in its null space, and in that of its transpose
    full: bool  # whether its factors are known to have so many entries that to store zeros, too, is quicker
    least_squares: bool = False  # whether factors for least squares are wanted, without a look at others
    fine: bool = False  # whether these are to have δ = ε^(3/4), for a matrix whose singular values fall without a gap


def factors_of(a: Csr, backend: Backend, library: str | None, traits: MatrixTraits) -> ScaledFactors:
    """Factors of a matrix on a backend's device, of which no row is empty, in the backend's value type.

    Where constants are known to be in the null space, √ε is added to the diagonal of the scaled matrix, ε being that of
    the type: right-hand sides have no part of them. Where pivots vanish otherwise, or the factors show that they all
    but have, `LeastSquaresFactors` with δ = √ε take their place: a smaller δ leaves out less, and rounds more along
    null vectors, by ε/δ². Where a library of GPUs fails, the host's serves.

    Args:
        library: its name; None for the one that suits the matrix best.

    Raises:
        NoLibraryError: the library is not there, or none is.
        SingularError: no factors are of use.
        MemoryError: there is not enough.
    """
    if backend.name == "cuda" and not traits.least_squares and _may_be_there(library, np.dtype(backend.dtype)):
        there = _Scaled(a, backend, traits)
        name = _library(library, there)
        if LIBRARIES[name].gpu:
            with suppress(SingularError, MemoryError):
                return there.factors(name)
            if library is not None:
                raise SingularError(name)
        del there
    here = _Scaled(Csr(*map(backend.to_host, a)), load("numpy", dtype=str(backend.dtype)), traits)
    name = _library(library, here)
    if not traits.least_squares:
        with suppress(SingularError):
            return here.factors(name)
    return here.least_squares(name)


class NoLibraryError(LookupError):
    """Error where no library makes the factors; its argument is what to install."""


def _may_be_there(asked: str | None, dtype: np.dtype[Any]) -> bool:
    """Whether a library of GPUs may make the factors."""
    names = LIBRARIES if asked is None else (asked,)
    return any(LIBRARIES[name].gpu and fits(name, dtype, gpu=True) for name in names)


def _library(asked: str | None, made: "_Scaled") -> str:
    name = asked or chosen(made.dtype, made.kind, made.entries, gpu=made.gpu)
    if name is None or not fits(name, made.dtype, gpu=made.gpu):
        raise NoLibraryError(LIBRARIES[name or "superlu"].name)
    return name


class _Scaled:
    """R A C, entries at most about 1, as a CSR matrix of SciPy or CuPy; dtype: of factors."""

    def __init__(self, a: Csr, backend: Backend, traits: MatrixTraits) -> None:
        xp, self._backend, self._singular = backend.xp, backend, traits.singular
        self.dtype = np.result_type(backend.dtype, np.complex64 if a.values.dtype.kind == "c" else backend.dtype)
        self.rows, self.entries, self.gpu = a.size, len(a.columns), backend.name == "cuda"
        row = of_entries(a.start, len(a.columns))
        left, right, values = scaled(xp, a, row, symmetric=traits.symmetric)
        diagonal, on = xp.zeros(self.rows, a.values.dtype), row == a.columns
        diagonal[row[on]] = values[on]
        weak = traits.mirrored and not self.gpu and is_weak(diagonal.real, row, values)
        if weak and (found := with_strong_diagonal(a, row, symmetric=traits.symmetric)):
            (left, right, values), weak = found, False
            diagonal[row[on]] = values[on]
        eps = float(np.finfo(self.dtype).eps)
        delta, self._cut = eps**0.5, eps ** (0.75 if traits.fine else 0.5)
        self._left, self._right, self._diagonal = left, right, diagonal
        index = np.int32 if len(a.columns) < 2**31 else np.int64
        sparse = backend.sparse
        arrays = values, a.columns.astype(index), a.start.astype(index)
        self._matrix = sparse.csr_matrix(arrays, shape=(self.rows, self.rows))
        if traits.singular:
            self._matrix = (self._matrix + delta * sparse.identity(self.rows, format="csr")).tocsr()
        self.kind = Kind(
            symmetric=traits.symmetric,
            mirrored=traits.mirrored,
            positive=not (weak or some(diagonal.real <= 0.0)),
            full=traits.full,
        )

    def factors(self, name: str) -> ScaledFactors:
        """Factors of the matrix by a library. SingularError: they are of no use."""
        if not self._has_pivots():
            raise SingularError("rows and columns cannot be paired")
        made = maker(name)(self._typed(self._matrix), self.kind)
        missed = self._missed(made)
        if missed == math.inf:
            raise SingularError("A is singular to working precision")
        found = self._with(made, nearby=self._singular)
        found.blurred = missed > BLURRED and np.finfo(self.dtype).eps <= np.finfo(np.float64).eps
        return found

    def least_squares(self, name: str) -> ScaledFactors:
        """`LeastSquaresFactors` by a host library. Rows have one scale, if they can: the residual is that of A then.

        Rows of next to nothing count as zeros. SingularError: there are none.
        """
        row = np.repeat(np.arange(self.rows), np.diff(self._matrix.indptr))
        filled = largest_of(np, np.abs(self._matrix.data), row, self.rows) > 0.0
        least = self._left[filled].min(initial=np.inf)
        counted = filled & (self._left < NOTHING * least)
        before = np.where(counted, self._left, np.inf)
        self._left = np.where(counted, self._left, 0.0)
        if self._left.max() <= EVEN * least:
            self._left = np.full(self.rows, least)
        self._matrix.data = self._matrix.data * (self._left / before)[row]  # they may be those of A
        kind = replace(self.kind, symmetric=True, mirrored=True, positive=False, steep=True)
        augmented = self._typed(_augmented(self._matrix, self._cut))
        return self._with(LeastSquaresFactors(maker(name)(augmented, kind)), nearby=True)

    def _typed(self, matrix: Any) -> Any:
        """A matrix in the value type of the factors, with columns in ascending order."""
        made = matrix if matrix.dtype == self.dtype else matrix.astype(self.dtype)
        return made if made.has_sorted_indices else made.sorted_indices()  # values may be those of A

    def _with(self, made: Factors, *, nearby: bool) -> ScaledFactors:
        return ScaledFactors(made, self._left, self._right, self.dtype, nearby=nearby, gpu=self.gpu)

    def _has_pivots(self) -> bool:
        """Whether rows and columns can be paired by entries beside zero: without, libraries may run into the wild.

        On a GPU they are taken to need a diagonal without zeros.
        """
        if not some(self._diagonal == 0.0):
            return True
        if self.gpu:
            return False
        return of_largest(self._matrix) is not None

    def _missed(self, made: Factors) -> float:
        """Part of a rough x that factors miss with A x for b; infinite where A x, too, or x becomes much larger.

        Where it is much, of a second step: pivots that are too small lose digits that iterations have again.
        """
        rough = self._backend.asarray(np.random.default_rng(self.rows).uniform(-1.0, 1.0, self.rows))
        b = self._matrix @ rough
        with np.errstate(all="ignore"):
            found = made.solve(b.astype(self.dtype)).astype(b.dtype)
            left = b - self._matrix @ found
            of_left, of_b, of_found, of_rough = (self._length(v) for v in (left, b, found, rough))
            if not (of_left <= ACCURATE * of_b and of_found <= GROWTH * of_rough):
                return math.inf
            missed = self._length(found - rough) / of_rough
            if missed > BLURRED:
                missed = self._length(found + made.solve(left.astype(self.dtype)) - rough) / of_rough
        return missed

    def _length(self, v: Any) -> float:
        """‖v‖ without BLAS, whose threads then wait for more on all cores for 20 ms."""
        return math.sqrt(float(self._backend.to_host((abs(v) ** 2).sum())))


def complex_rows(re: Csr, im: Csr) -> Csr:
    """Rows of re + i im, complex128."""
    from scipy.sparse import csr_array

    shape = (re.size, re.size)
    parts = [csr_array((part.values, part.columns, part.start), shape=shape) for part in (re, im)]
    made = csr_array(parts[0] + 1j * parts[1])
    made.sort_indices()
    return Csr(made.indptr.astype(np.int64), made.indices, made.data)


def _augmented(matrix: Any, delta: float) -> Any:
    """(δ I, A; Aᴴ, -δ I), a SciPy CSR matrix."""
    from scipy.sparse import bmat, csr_matrix, identity

    unit = delta * identity(matrix.shape[0])
    made = csr_matrix(bmat([[unit, matrix], [matrix.conjugate().T, -unit]], format="csr"))
    made.indices, made.indptr = made.indices.astype(matrix.indices.dtype), made.indptr.astype(matrix.indptr.dtype)
    return made
