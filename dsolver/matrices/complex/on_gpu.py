"""Complex symmetric matrices on a GPU: looked at there, by their two real parts, and taken apart there."""

import math
from functools import partial
from typing import Any, Final

import numpy as np

from dsolver.engines.out_of_memory import if_memory_suffices
from dsolver.kernels.formats.choice import Choice
from dsolver.matrices.canonical import check_form
from dsolver.matrices.checked import ASYMMETRY, RowsOnGpu, backend_of, compressed_rows
from dsolver.matrices.complex.parts import ComplexParts, quadrant_of
from dsolver.matrices.sent import CompressedOnGpu, sent

SUMS: Final = Choice(name="rows", threads=4, why="sums of rows")


def parts_on_gpu(name: str, A: Any) -> ComplexParts | None:
    """Parts of compressed rows of SciPy or CuPy, on the GPU of this process.

    None for other formats, and where the host has to mend, to tell or to choose: where rows are not in canonical form,
    A is not symmetric, is real, or its signs differ; or where memory does not suffice. InputError: A is not square.
    """
    check_form(name, A, complex_too=True)
    return if_memory_suffices(lambda: _parts(A)) if A.format == "csr" else None


def _parts(A: Any) -> ComplexParts | None:
    there = sent(A)
    assert isinstance(there, CompressedOnGpu)
    count = min(len(there.indices), len(there.data))
    whole = there.data[:count].astype(np.complex128, copy=False)
    found = []
    for part in (whole.real, whole.imag):
        rows = compressed_rows(_with(there, part.copy()))
        look = None if rows is None else backend_of(part).general.look(rows, ASYMMETRY)
        if rows is None or look is None or look.faults.some or look.empty[0]:
            return None
        found.append((rows, look))
    (re, of_re), (im, of_im) = found
    allowed = ASYMMETRY * math.hypot(of_re.largest, of_im.largest)
    if math.hypot(of_re.difference, of_im.difference) > allowed or 2.0 * of_im.largest <= allowed:
        return None
    general = backend_of(whole).general
    diagonals, sums = ([make(rows) for rows in (re, im)] for make in (general.diagonal, partial(_sums, general)))
    quadrant = quadrant_of(*diagonals, *sums)
    if quadrant is None:
        return None
    stand_in = quadrant[0] * re.values + quadrant[1] * im.values
    return ComplexParts(
        # in the same places, zeros too, so that products read both in one pass
        parts=(_rows(re, re.values), _rows(re, im.values)),
        symmetric=True,
        hermitian=False,
        real_valued=False,
        stand_in=_rows(re, stand_in),
        quadrant=quadrant,
        waves=False,
    )


def _with(there: CompressedOnGpu, values: Any) -> CompressedOnGpu:
    return CompressedOnGpu(
        format=there.format, indptr=there.indptr, indices=there.indices, data=values, shape=there.shape
    )


def _sums(general: Any, rows: Any) -> Any:
    """The sum of each row."""
    out = np.empty_like(rows.values, shape=rows.size)
    general.product(rows, rows.size, SUMS).spmv(np.ones_like(out), out)
    return out


def _rows(places: Any, values: Any) -> RowsOnGpu:
    return RowsOnGpu(indptr=places.start, indices=places.columns, data=values)
