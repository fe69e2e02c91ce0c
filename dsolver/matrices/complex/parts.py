"""Complex matrices: their parts, what kind they are, and the real matrix that preconditioners are made of.

Algebraic multigrid takes coarse points and P from the real matrix, and products of A itself where signs allow it
(`dsolver.multigrid.complex.levels`). Other preconditioners serve both parts by it alone.

Of Hermitian A it is Re Dᴴ A D with phases D that turn couplings to negative real numbers, and M = D M(Re Dᴴ A D) Dᴴ. As
A = D B Dᴴ and its conjugate are semidefinite together, B <= 2 Re B; and where A is small, x is near d. The magnetic
Laplacian of `bench/complex_systems.py` is a Laplacian in that gauge and takes its iterations at any size, in place of
46 (64³) and 85 (128³) by Re A. Phases of 0.1 around each face take 34 (40³) in place of 52, and 23 by products of
Dᴴ A D on all levels, whose cycle takes 1.7 times as long.

Else it is Re A + |Im A|, entry by entry where both parts couple as an elliptic equation does: a V-cycle on it
serves both parts of a complex vector at once. That it is nearly as good as A itself follows from |z| <= |Re z| + |Im z|
<= √2 |z| for the numbers x̄ᵀA x / x̄ᵀx of complex symmetric A whose parts are positive definite. Its exact inverse takes
COCG to 1e-8 in 22 iterations for AC conduction with jumps (`bench/complex_systems.py`, 24³), a V-cycle in 32. Moduli
|a_ij| in its place change little: 21, and with a V-cycle 37 for 64³ as here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.errors import check_compiler
from dsolver.kernels import Backend
from dsolver.kernels.cpu.csr.complex_look import RowSums, real_part
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.reductions import some
from dsolver.matrices.canonical import imported
from dsolver.matrices.checked import ASYMMETRY, RowsOnGpu, backend_of, csr_of, entry
from dsolver.matrices.complex.gauge import in_gauge

WAVES: Final = 0.25
"""Part of the rows whose real parts may add up to less than zero, as those of a Helmholtz equation do. Where there are
more, twice that is added to the diagonal: the shifted Laplacian of Laird and Giles (2002) with real numbers."""
CANCELED: Final = 1e-10  # sum of a row, as a part of its diagonal, that counts as zero


@dataclass(frozen=True, kw_only=True)
class ComplexParts:
    """A complex matrix in canonical form."""

    parts: tuple[Any, ...]  # Re A and Im A of `checked`; on hosts without zeros, but for one in each row
    symmetric: bool  # whether A = Aᵀ
    hermitian: bool  # whether A = Aᴴ, and not Aᵀ
    real_valued: bool  # whether it is both, so that entries are complex by their type alone
    asymmetry: str = ""  # the entries that differ most from those of the transpose, for messages, where A is neither
    stand_in: Any  # the real matrix that preconditioners are made of, in A's places; Re Dᴴ A D where A is Hermitian
    # d, complex128 (rows,), D = diag(d), of a Hermitian matrix; None for ones.
    phases: npt.NDArray[np.complex128] | None = None
    quadrant: tuple[float, float] | None  # as of `MatrixProblem`
    waves: bool  # whether its diagonal was raised, since many rows of Re A add up to less than zero


def is_complex(A: Any) -> bool:
    """Whether the entries of a matrix of SciPy or CuPy are complex."""
    return bool(np.dtype(A.dtype).kind == "c")


def complex_parts(whole: Any, *, in_place: bool = False) -> ComplexParts:
    """Parts of a complex matrix in canonical form, of SciPy or `RowsOnGpu`, where it lies.

    `in_place`: keep their zeros, as GPUs want them, which read two parts in the same places at once.
    """
    check_compiler()
    backend, rows = backend_of(whole.data), csr_of(whole)
    ops = backend.complex_rows
    beside, sums = ops.mirrors(rows), ops.row_sums(rows)
    allowed = ASYMMETRY * beside.largest
    symmetric, conjugate = not beside.difference > allowed, not beside.conjugate > allowed
    hermitian, turned, waves = conjugate and not symmetric, None, False
    quadrant = _quadrant(backend, sums) if symmetric and not conjugate else None
    kept = in_place or isinstance(whole, RowsOnGpu)
    both: Sequence[Array] = _both(backend, rows.values) if kept or quadrant is not None else ()
    if hermitian:
        turned, values = in_gauge(backend, rows, beside.largest, sums)
    elif quadrant is not None:
        values = quadrant[0] * both[0] + quadrant[1] * both[1]
    else:
        values, waves = _stand_in(backend, rows, sums)
    parts = (_with(whole, part) for part in both) if kept else (_part(rows, imaginary=im) for im in (False, True))
    return ComplexParts(
        parts=tuple(parts),
        symmetric=symmetric,
        hermitian=hermitian,
        real_valued=symmetric and conjugate,
        asymmetry="" if symmetric or hermitian else _difference(whole, *beside.place),
        stand_in=_with(whole, values),
        phases=None if turned is None else backend.to_host(turned).view(np.complex128)[:, 0],
        quadrant=quadrant,
        waves=waves,
    )


def _quadrant(backend: Backend, rows: RowSums) -> tuple[float, float] | None:
    """Signs of both parts, as of `MatrixProblem.quadrant`."""
    own, of_rows = (_both(backend, each) for each in (rows.diagonal, rows.sums))
    least, signs = -CANCELED * (abs(own[0]) + abs(own[1])), []
    for diagonal, sums in zip(own, of_rows, strict=True):
        sign = -1.0 if some(diagonal < 0.0) else 1.0
        if some(sign * diagonal < 0.0) or some(sign * sums < least):
            return None
        signs.append(sign)
    return signs[0], signs[1]


def _difference(whole: Any, i: int, j: int) -> str:
    return f"A[{i}, {j}] = {entry(whole, i, j):.6g}, but A[{j}, {i}] = {entry(whole, j, i):.6g}"


def _stand_in(backend: Backend, rows: Csr, sums: RowSums) -> tuple[Array, bool]:
    """Re A + |Im A| with the diagonal |Re a_ii| + |Im a_ii|, and whether that was raised for waves.

    Off the diagonal parts keep their signs where the diagonals of both rows are positive, and turn them where these are
    negative, as -L turns those of L. Between rows of different signs they count by the sum of both diagonals; such rows
    are made dominant, for what their diagonals have lost to each other is still in their couplings.
    """
    xp, parts = backend.xp, backend.complex_rows.row_parts(rows, sums.diagonal)
    size = sum(map(abs, _both(backend, sums.diagonal)))
    below = parts.sums < -CANCELED * size
    waves = float(below.astype(np.float64).sum()) > WAVES * rows.size
    raised = size + xp.where(below, -2.0 * parts.sums, 0.0) if waves else size
    raised = xp.where(parts.mixed, xp.maximum(raised, parts.around), raised)
    there = xp.flatnonzero(sums.places >= 0)
    parts.values[sums.places[there]] = raised[there]
    return parts.values, waves


def _both(backend: Backend, values: Array) -> tuple[Array, Array]:
    """Real and imaginary parts of complex128 numbers, float64, each by itself."""
    numbers = values.view(np.float64)
    return backend.xp.ascontiguousarray(numbers[::2]), backend.xp.ascontiguousarray(numbers[1::2])


def _part(rows: Csr, *, imaginary: bool) -> Any:
    """A part of a matrix without its zeros, but for the first entry of each row: formats know no empty rows."""
    return _of_scipy(real_part(rows, imaginary=imaginary), rows.size)


def _with(whole: Any, values: Array) -> Any:
    """Real values in the same places."""
    if isinstance(whole, RowsOnGpu):
        return replace(whole, data=values)
    return _of_scipy(Csr(whole.indptr, whole.indices, values), whole.shape[0])


def _of_scipy(rows: Csr, size: int) -> Any:
    made = imported("sparse").csr_array((rows.values, rows.columns, rows.start), shape=(size, size))
    made.has_canonical_format = True
    return made
