"""Facts about a matrix from a file, for `dsolver info FILE`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dsolver
from dsolver.cluster.devices import find_gpu, planned
from dsolver.cluster.runtime import DeviceName
from dsolver.errors import InputError
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.choice import DENSE
from dsolver.kernels.formats.statistics import Statistics
from dsolver.kernels.general.selection import chosen
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners.auto import usual_preconditioner
from dsolver.preconditioners.registry import preconditioner_of
from dsolver.program.spec import method_for
from dsolver.units import amount

CSR_BYTES = 12
"""Bytes of an entry of compressed rows with columns of 32 bits."""


def facts(path: Path, workers: int, device: DeviceName) -> Iterator[tuple[str, str]]:
    """Names and values of what is known of a matrix before it is solved with. InputError: the file holds none."""
    a = dsolver.read_matrix(path)
    rows, lengths = a.shape[0], np.diff(a.indptr)
    yield "rows", f"{rows}"
    yield "entries", f"{a.nnz}, {amount(CSR_BYTES * a.nnz)} with their columns"
    yield "entries of a row", f"{lengths.min()} at least, {a.nnz / rows:.3g} on average, {lengths.max()} at most"
    yield "bandwidth", f"{bandwidth(a)}"
    try:
        problem = dsolver.matrix(a).planned(workers)
    except InputError as error:
        yield "not solved", str(error)
        return
    assert isinstance(problem, MatrixProblem)
    if problem.complex:
        yield "numbers", "complex; what follows is of the real matrix that M is made of, but for the memory"
    yield "symmetric", f"no: {problem.asymmetry}" if problem.asymmetry else "Hermitian" if problem.hermitian else "yes"
    yield "diagonal", problem.hollow or ("not positive everywhere" if problem.indefinite else "positive")
    yield "constants", "solve A x = 0: solutions have mean zero" if problem.singular else "do not solve A x = 0"
    known = [counts.local for counts in problem.counts]
    yield "blocks", blocks(known)
    for name, gpu in (("format on GPUs", True), ("format on CPUs", False)):
        yield name, "; ".join(dict.fromkeys(str(chosen(None, each, gpu=gpu)) for each in known))
    usual = usual_preconditioner(problem, None, planned(device, find_gpu()))
    yield "solved by", f"{method_for(problem, None, preconditioner_of(usual))} with M={usual!r}"
    yield "memory", str(dsolver.estimate(problem, workers=workers, device=device, bandwidth=1.0)).partition("\n")[0]


def blocks(known: Sequence[Statistics]) -> str:
    """The largest dense blocks of which the rows of all chunks mostly consist."""
    fills = {b: min(each.stored[b].fill if b in each.stored else 0.0 for each in known) for b in BLOCKS if b > 1}
    full = [b for b, fill in fills.items() if fill >= DENSE]
    return f"{max(full)} x {max(full)}, {100.0 * fills[max(full)]:.0f} % full" if full else "none that are mostly full"


def bandwidth(a: Any) -> int:
    """Largest distance of an entry of compressed rows from the diagonal; the columns of each row ascend."""
    filled = np.flatnonzero(np.diff(a.indptr))
    first, last = a.indices[a.indptr[filled]], a.indices[a.indptr[filled + 1] - 1]
    return int(max((filled - first).max(initial=0), (last - filled).max(initial=0)))
