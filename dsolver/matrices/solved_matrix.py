"""The matrix that is solved in place of the one that was given: -A, A without known unknowns, A made symmetric.

Four things hide from a method what a matrix is: its sign, boundary rows set to those of the identity whose columns
are left, what rounding leaves between an entry and its mirror image, and rows of zeros, as of a vertex without edges or
a node without elements. They are taken out here, where the rows are looked at. Residuals stay those of the matrix that
was given (`KrylovMethod.given`): a solve refines its x until they are small.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError
from dsolver.kernels.general.look import Look
from dsolver.kernels.reductions import some
from dsolver.matrices.canonical import imported
from dsolver.matrices.checked import RowsOnGpu, entry, look_at, on_host
from dsolver.matrices.multipliers import multipliers
from dsolver.units import counted

ROUNDING: Final = 2e-6
"""Difference of mirrored entries, as a part of √(a_ii a_jj), up to which it is taken for rounding: that of an assembly
in float32 is 1e-7 to 1e-6."""
COLUMNS: Final = 1e3
"""Entry over its row's diagonal from which on columns differ in size: errors of small unknowns are so much larger than
what the residual divided by the diagonal tells. Beside a penalty no entry is larger than the diagonal."""
ALIKE: Final = 2.0**53  # largest entry over the least one on the diagonal up to which a sum of both has a digit of each
UNITS: Final = 1e6  # the same where columns alone differ: errors of x are so much larger than the tolerance
UNTOLD: Final = "a residual that is small beside b may tell nothing of unknowns in such small rows"
"""Mark of the note of `of_sizes`, which solves look for."""
FAR: Final = 300
"""Exponents of two beyond which, up or down, the largest entry is brought to about 1: r · A r has its third power."""


@dataclass(frozen=True, kw_only=True)
class SolvedMatrix:
    """A matrix as it is solved."""

    rows: Any  # in canonical form; those that were given where nothing hides what they are
    look: Look  # what their entries tell
    # the matrix that was given, negated where `negated` says so, if `rows` has other entries; else None.
    given: Any = None
    negated: bool = False  # whether signs are turned, so that -A x = -b is solved
    exponent: int = 0  # of two, by which entries were multiplied that are all too small or too large to have squares
    # rows that alone tell their unknown, and were taken out of the others: it is set before a solve begins.
    known: int = 0
    empty: int = 0  # rows of zeros in `given` that have a diagonal
    notes: tuple[str, ...] = ()  # what was changed, for `Solution.notes`


def solved_matrix(rows: Any, look: Look, symmetric: bool | None = None, *, held: bool = True) -> SolvedMatrix:
    """The matrix that is solved for one of `checked`.

    `symmetric`: whether A counts as symmetric, however its entries differ; None to tell by their difference. `held`:
    whether rows of zeros may have a diagonal.
    InputError: `symmetric` is none of these.
    """
    if symmetric not in (None, True, False):
        raise InputError(f"symmetric must be True, False or None, not {symmetric!r}")
    made = _in_range(SolvedMatrix(rows=rows, look=look))
    full = _with_diagonal(made) if held else None
    if full is not None and (found := _found(full, symmetric)).look.place is None and not found.look.negative:
        return found
    return _found(made, symmetric)


def _found(made: SolvedMatrix, symmetric: bool | None) -> SolvedMatrix:
    """As `solved_matrix`, of a matrix in range."""
    look = made.look
    if look.negative > look.hollow[0]:
        made = _signed(made)
    if look.place is None or symmetric is False:
        return made
    return _without_known(made, symmetric) or _mirrored(made, symmetric) or made


def _has_single(rows: Any) -> bool:
    """Whether a row may have one entry that is not zero, told without much work."""
    return some(rows.indptr[1:] - rows.indptr[:-1] == 1) or some(rows.data == 0.0)


def is_uneven(rows: Any, look: Look) -> bool:
    """Whether rows, or columns, differ so much in size that a residual tells nothing of small ones.

    A diagonal of both signs tells no row's size: that of a saddle point has what rounding leaves of zeros.
    """
    both = 0 < look.negative - look.hollow[0] < rows.shape[0] - look.hollow[0]
    if both or look.least == math.inf:
        return False
    return look.largest > ALIKE * look.least or (
        look.place is not None and look.largest > UNITS * look.least and _has_columns_of(rows)
    )


def _has_columns_of(rows: Any) -> bool:
    """Whether the diagonal tells how large each column is."""
    return not some(abs(rows.data) > COLUMNS * abs(rows.diagonal())[rows.indices])


def of_sizes(rows: Any, look: Look, parts: tuple[Any, ...] = ()) -> tuple[str, ...]:
    """A note where dividing rows by their diagonal is no help: columns differ in size as well.

    parts: of a complex matrix, for which `rows` stand.
    """
    if not look.largest > ALIKE * look.least or not is_uneven(rows, look):
        return ()
    found = [on_host(part) for part in parts or (rows,)]
    diagonal = sum(abs(part.diagonal()) for part in found)
    if not any((abs(part.data) > COLUMNS * np.repeat(diagonal, np.diff(part.indptr))).any() for part in found):
        return ()
    note = (
        f"the diagonal of A has {look.least:.1e}, and A entries of {look.largest:.1e}: {UNTOLD}, and these may be "
        "wrong in all digits: scale rows and columns so that the diagonal is about 1"
    )
    return (note,)


def with_all_rows(rows: Any, look: Look) -> tuple[Any, Look, tuple[str, ...]]:
    """Rows as of `filled`, and a look at them."""
    if not look.empty[0]:
        return rows, look, ()
    made, notes = filled(on_host(rows))
    return made, look_at(made), notes


def filled(rows: Any) -> tuple[Any, tuple[str, ...]]:
    """Rows of SciPy with a stored zero on the diagonal of each that is empty, and a note if there are any."""
    empty = np.flatnonzero(np.diff(rows.indptr) == 0)
    if not len(empty):
        return rows, ()
    start = rows.indptr + np.searchsorted(empty, np.arange(len(rows.indptr)), side="left").astype(rows.indptr.dtype)
    places = rows.indptr[empty]
    arrays = np.insert(rows.data, places, 0.0), np.insert(rows.indices, places, empty), start
    made = imported("sparse").csr_array(arrays, shape=rows.shape)
    made.has_canonical_format = True
    few = f"{counted(len(empty), 'empty row')}, the first is row {empty[0]}"
    return made, (f"A has {few}: no x reaches b there, where it is not zero",)


def _in_range(made: SolvedMatrix) -> SolvedMatrix:
    """This matrix with entries whose squares are numbers, and so are those of their inverses."""
    exponent = math.frexp(made.look.largest)[1]
    if abs(exponent) <= FAR or made.look.largest == 0.0:
        return made
    half = -exponent // 2
    rows = made.rows
    values = rows.data * math.ldexp(1.0, half) * math.ldexp(1.0, -exponent - half)
    rows = replace(rows, data=values) if isinstance(rows, RowsOnGpu) else _with(rows, values)
    return replace(made, rows=rows, look=look_at(rows), exponent=-exponent)


# -- rows of zeros -----------------------------------------------------------------------------------------------------


def _with_diagonal(made: SolvedMatrix) -> SolvedMatrix | None:
    """This matrix with a diagonal in its rows and columns of zeros, the least of the others, which all have one.

    None where there are none, or one of the others lacks it. Such a row is a piece of its own: neither b nor x has a
    value there.
    """
    count, first = made.look.hollow
    if not 0 < count < made.rows.shape[0]:
        return None
    start, end = (int(made.rows.indptr[first + more]) for more in (0, 1))
    if some(made.rows.data[start:end] != 0.0):  # as of most saddle points
        return None
    rows = on_host(made.rows)
    entries = rows.data != 0.0
    empty = np.bincount(_places(rows)[entries], minlength=rows.shape[0]) == 0
    others = rows.diagonal()[~empty]
    signed = (others > 0.0).all() or (others < 0.0).all()
    if int(empty.sum()) != count or not signed or empty[rows.indices[entries]].any():
        return None
    here = (_places(rows) == rows.indices) & empty[rows.indices]
    full = _with(rows, np.where(here, math.copysign(made.look.least, others[0]), rows.data))
    return replace(made, rows=full, look=look_at(full), given=rows, empty=count)


# -- signs -------------------------------------------------------------------------------------------------------------


def _signed(made: SolvedMatrix) -> SolvedMatrix:
    """This matrix with a positive diagonal, where that can be had: signs of all coupled rows must be the same."""
    rows, look = made.rows, made.look
    if (look.negative == rows.shape[0] and not look.hollow[0]) or _has_multipliers(made):
        rows, given = _negative(rows), None if made.given is None else _negative(made.given)
        return replace(made, rows=rows, look=look_at(rows), given=given, negated=True)
    if not _has_single(rows):
        return made
    rows = on_host(rows)
    diagonal, single = rows.diagonal(), _singles(rows)
    coupled = diagonal[~single]
    if not len(coupled) or not ((coupled > 0.0).all() or (coupled < 0.0).all()):
        return made
    negated = bool(coupled[0] < 0.0)
    given = _negative(rows) if negated else rows
    turned = _with(given, np.where(single[_places(given)], np.abs(given.data), given.data))
    return replace(made, rows=turned, look=look_at(turned), given=given, negated=negated, known=int(single.sum()))


def _has_multipliers(made: SolvedMatrix) -> bool:
    """Whether -A is a matrix of SciPy with multipliers."""
    here = made.look.place is None and isinstance(made.rows.data, np.ndarray)
    return here and bool(made.rows.diagonal()[0] < 0.0) and multipliers(_negative(made.rows)) > 0


def _negative(rows: Any) -> Any:
    return replace(rows, data=-rows.data) if isinstance(rows, RowsOnGpu) else _with(rows, -rows.data)


# -- known unknowns ----------------------------------------------------------------------------------------------------


def _without_known(made: SolvedMatrix, symmetric: bool | None) -> SolvedMatrix | None:
    """This matrix without the columns of unknowns that one row tells alone, where the rest is symmetric; else None."""
    if not _has_single(made.rows):
        return None
    rows = on_host(made.rows)
    single, row = _singles(rows), _places(rows)
    read = single[rows.indices] & (row != rows.indices) & (rows.data != 0.0)
    if not read.any():
        return None
    left = _with(rows, np.where(read | (single[row] & (row != rows.indices)), 0.0, rows.data), copy=True)
    left.eliminate_zeros()
    given = rows if made.given is None else made.given
    found = replace(made, rows=left, look=look_at(left), given=given, known=int(single.sum()) - made.empty)
    if found.look.place is not None:
        mirrored = _mirrored(found, symmetric)
        if mirrored is None:
            return None
        found = mirrored
    note = (
        f"the unknowns of {counted(found.known, 'row')} of A with nothing but a diagonal were taken out of the other "
        f"rows, which are symmetric without them"
    )
    return replace(found, notes=(note, *found.notes))


def _singles(rows: Any) -> npt.NDArray[np.bool_]:
    """Rows of which the diagonal is the only entry that is not zero: bool (rows,)."""
    filled = np.bincount(_places(rows)[rows.data != 0.0], minlength=rows.shape[0])
    return (filled == 1) & (rows.diagonal() != 0.0)


# -- symmetry ----------------------------------------------------------------------------------------------------------


def _mirrored(made: SolvedMatrix, symmetric: bool | None) -> SolvedMatrix | None:
    """(A + Aᵀ) / 2, where the difference is rounding, or is not to count; else None."""
    if symmetric is None and made.look.difference > ROUNDING * made.look.largest:
        return None
    rows = on_host(made.rows)
    transposed = rows.T.tocsr()
    difference = (rows - transposed).tocoo()
    size = np.abs(rows.diagonal())
    size = np.sqrt(np.where(size > 0.0, size, abs(rows).max(axis=1).toarray().ravel()))
    parts = np.abs(difference.data) / (size[difference.row] * size[difference.col])
    if symmetric is None and not parts.max(initial=0.0) <= ROUNDING:
        return None
    worst = int(np.argmax(parts))
    i, j = int(difference.row[worst]), int(difference.col[worst])
    mean = imported("sparse").csr_array((rows + transposed) * 0.5)
    mean.sum_duplicates()
    why = "as rounding leaves it" if parts[worst] <= ROUNDING else "and symmetric=True was given"
    note = (
        f"A is not symmetric, {why}: A[{i}, {j}] = {entry(rows, i, j):.6g} and A[{j}, {i}] differ by "
        f"{parts[worst]:.1e} of the diagonal. (A + Aᵀ)/2 is solved with, until the residual of A is small"
    )
    given = rows if made.given is None else made.given
    return replace(made, rows=mean, look=look_at(mean), given=given, notes=(*made.notes, note))


# -- rows of SciPy -----------------------------------------------------------------------------------------------------


def _places(rows: Any) -> npt.NDArray[np.int64]:
    """The row of each entry."""
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def _with(rows: Any, values: npt.NDArray[np.float64], *, copy: bool = False) -> Any:
    """Other values in the same places; copy: with arrays of its own, which may be changed."""
    made = imported("sparse").csr_array((values, rows.indices, rows.indptr), shape=rows.shape, copy=copy)
    made.has_canonical_format = True
    return made
