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

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from dsolver.errors import check_compiler
from dsolver.kernels import usable_cpus
from dsolver.kernels.cpu.csr.complex_look import mirrors, real_part, row_parts
from dsolver.kernels.cpu.csr.gauge import in_gauge
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.reductions import some
from dsolver.matrices.canonical import canonical, imported
from dsolver.matrices.checked import ASYMMETRY

WAVES: Final = 0.25
"""Part of the rows whose real parts may add up to less than zero, as those of a Helmholtz equation do. Where there are
more, twice that is added to the diagonal: the shifted Laplacian of Laird and Giles (2002) with real numbers."""
CANCELED: Final = 1e-10
"""Sum of a row, as a part of its diagonal, that counts as zero."""


@final
@dataclass(frozen=True, kw_only=True)
class ComplexParts:
    """A complex matrix in canonical form."""

    parts: tuple[Any, Any]  # Re A and Im A of `checked`; on hosts without zeros, but for one in each row
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


def complex_parts(name: str, A: Any, *, in_place: bool = False) -> ComplexParts:
    """Parts of a complex matrix in any format of `scipy.sparse`; raises as `dsolver.matrices.canonical.canonical`.

    `in_place`: keep their zeros, as GPUs want them, which read two parts in the same places at once.
    """
    whole = canonical(name, A, complex_too=True)
    check_compiler()
    team, turned = Team(usable_cpus()), None
    beside = mirrors(whole.indptr, whole.indices, whole.data, team)
    allowed = ASYMMETRY * beside.largest
    symmetric = not beside.difference > allowed
    conjugate = not beside.conjugate > allowed
    hermitian = conjugate and not symmetric
    quadrant = _quadrant(whole) if symmetric and not conjugate else None
    if hermitian:
        (turned, values), waves = in_gauge(whole.indptr, whole.indices, whole.data, team), False
        stand_in = _with(whole, values)
    elif quadrant is not None:
        stand_in, waves = _with(whole, quadrant[0] * whole.data.real + quadrant[1] * whole.data.imag), False
    else:
        stand_in, waves = _stand_in(whole, team)
    return ComplexParts(
        parts=(_part(whole, imaginary=False, in_place=in_place), _part(whole, imaginary=True, in_place=in_place)),
        symmetric=symmetric,
        hermitian=hermitian,
        real_valued=symmetric and conjugate,
        asymmetry="" if symmetric or hermitian else _difference(whole, *beside.place),
        stand_in=stand_in,
        phases=turned,
        quadrant=quadrant,
        waves=waves,
    )


def quadrant_of(re: Any, im: Any, re_sums: Any, im_sums: Any) -> tuple[float, float] | None:
    """Signs of both parts, as of `MatrixProblem.quadrant`, of their diagonals and the sums of their rows."""
    least, signs = -CANCELED * (abs(re) + abs(im)), []
    for own, sums in ((re, re_sums), (im, im_sums)):
        sign = -1.0 if some(own < 0.0) else 1.0
        if some(sign * own < 0.0) or some(sign * sums < least):
            return None
        signs.append(sign)
    return signs[0], signs[1]


def _quadrant(whole: Any) -> tuple[float, float] | None:
    diagonal, sums = whole.diagonal(), whole @ np.ones(whole.shape[1])
    return quadrant_of(diagonal.real, diagonal.imag, sums.real, sums.imag)


def _difference(whole: Any, i: int, j: int) -> str:
    return f"A[{i}, {j}] = {whole[i, j]:.6g}, but A[{j}, {i}] = {whole[j, i]:.6g}"


def _stand_in(whole: Any, team: Team) -> tuple[Any, bool]:
    """Re A + |Im A| with the diagonal |Re a_ii| + |Im a_ii|, and whether that was raised for waves.

    Off the diagonal parts keep their signs where the diagonals of both rows are positive, and turn them where these are
    negative, as -L turns those of L. Between rows of different signs they count by the sum of both diagonals; such rows
    are made dominant, for what their diagonals have lost to each other is still in their couplings.
    """
    parts, diagonal = row_parts(whole.indptr, whole.indices, whole.data, team), whole.diagonal()
    size = np.abs(diagonal.real) + np.abs(diagonal.imag)
    below = parts.sums < -CANCELED * size
    waves = bool(below.mean() > WAVES)
    raised = size + np.where(below, -2.0 * parts.sums, 0.0) if waves else size
    raised = np.where(parts.mixed, np.maximum(raised, parts.around), raised)
    there = parts.diagonal >= 0
    parts.values[parts.diagonal[there]] = raised[there]
    return _with(whole, parts.values), waves


def _part(whole: Any, *, imaginary: bool, in_place: bool) -> Any:
    """A part of a matrix without its zeros, but for the first entry of each row: formats know no empty rows."""
    if in_place:
        return _with(whole, np.ascontiguousarray(whole.data.imag if imaginary else whole.data.real))
    start, columns, values = real_part(whole.indptr, whole.indices, whole.data, imaginary=imaginary)
    made = imported("sparse").csr_array((values, columns, start), shape=whole.shape)
    made.has_canonical_format = True
    return made


def _with(whole: Any, values: npt.NDArray[np.float64]) -> Any:
    """Real values in the same places."""
    made = imported("sparse").csr_array((values, whole.indices, whole.indptr), shape=whole.shape)
    made.has_canonical_format = True
    return made
