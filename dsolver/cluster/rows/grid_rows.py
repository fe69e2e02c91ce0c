"""Rows of a grid with a flow or a full tensor, made by a cluster's workers: each makes those of its slab of the grid.

So no worker and not this process ever has the whole of a coefficient that is a Dask array, or of A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from dsolver.cluster.devices import workers_of
from dsolver.cluster.rows.row_blocks import matrix_from_blocks, results_of
from dsolver.kernels.general.look import Look
from dsolver.matrices.checked import look_at
from dsolver.matrices.chunks.row_block import FED
from dsolver.matrices.composed.grids import alone_cells, as_matrix
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.properties import told_by
from dsolver.problems import Problem
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.fluxes.rows import Anchors, FluxRows, flux_rows
from dsolver.problems.fluxes.slabs import Slab, slab_of, slabs

if TYPE_CHECKING:
    from distributed import Client, Future


@dataclass(frozen=True, kw_only=True)
class _Slab:
    """Rows of a slab, and findings about them, for those who do not have them."""

    rows: FluxRows
    look: Look  # of mirrored entries, counts and sums alone
    singles: int  # rows of one entry

    @property
    def findings(self) -> tuple[Anchors, Look, int, int]:
        """Findings about the rows, rows of one entry, and entries."""
        return self.rows.anchors, self.look, self.singles, self.rows.matrix.nnz


def matrix_of(problem: Any, client: Client | None, chunks: int | None = None, *, gpu: bool = False) -> Any:
    """`as_matrix`, where the workers of a cluster make rows of a grid with a flow or a full tensor, if there is one.

    Args:
        chunks: how many chunks of rows there are to be; by default one for each worker, or as many as the problem has.
        gpu: as of `as_matrix`.

    Raises:
        InputError: a coefficient makes no sense.
        ClusterError: a worker was lost.
    """
    if not (isinstance(problem, Problem) and problem.by_rows):
        return problem
    if client is None or not problem.by_fluxes or problem.complex:
        return as_matrix(problem, gpu=gpu)
    if chunks is None:
        given = problem.chunks
        chunks = (
            len(workers_of(client)) if given is None else math.prod(n if isinstance(n, int) else len(n) for n in given)
        )
    return _placed(problem, client, slabs(problem, chunks))


def _placed(problem: Problem, client: Client, parts: list[Slab]) -> MatrixProblem:
    asked, held = [], []
    for slab in parts:
        arrays = {name: _on_cluster(client, part) for name, part in slab.arrays(problem).items()}
        held += list(arrays.values())
        asked.append(client.submit(_slab_rows, problem.without_arrays, slab, list(arrays), *arrays.values()))
    found = results_of(client, [client.submit(attrgetter("findings"), made) for made in asked], held)
    anchors: tuple[Anchors, ...]
    anchors, looks, singles, entries = zip(*found, strict=True)
    made = matrix_from_blocks([client.submit(_matrix, rows) for rows in asked], client=client, name=problem.name)
    fed = {FED[0]: _vector(client, asked, parts, "volumes")}
    if any(found.feeds for found in anchors):
        fed[FED[1]] = _vector(client, asked, parts, "right")
    tensor = isinstance(problem.rule, Diffusion) and bool(problem.rule.cross)
    singular = not any(found.anchored for found in anchors) and all(found.balanced for found in anchors)
    told = told_by(_together(looks, made), math.prod(problem.grid), sum(entries), lambda: sum(singles))
    return replace(
        made,
        **{**told, "elliptic": tensor or told["elliptic"]},
        coefficients={**made.coefficients, **{name: vector.reshape(made.grid) for name, vector in fed.items()}},
        of_grid=problem,
        dimensions=problem.dimensions,
        singular=singular or (None if tensor and problem.masked else False),  # None: its pieces are looked at
        known=problem.masked,
        notes=(*made.notes, *alone_cells(sum(found.alone for found in anchors))),
    )


def _together(looks: Sequence[Look], made: MatrixProblem) -> Look:
    """Findings about all slabs, as far as what is told by them needs."""
    return Look(
        negative=made.negative,
        opened=sum(look.opened for look in looks),
        unmatched=sum(look.unmatched for look in looks),
        skewness=max(look.skewness for look in looks),
        place=(0, 0) if made.asymmetry else None,
        positive=math.fsum(look.positive for look in looks),
        dominance=math.fsum(look.dominance for look in looks),
    )


def _on_cluster(client: Client, part: Any) -> Future[Any]:
    """A future of a slab's part of a coefficient."""
    if type(part).__module__.partition(".")[0] == "dask":
        return client.compute(part)
    (found,) = client.scatter([part.get() if hasattr(part, "get") else part], hash=False)
    return found


def _vector(client: Client, asked: list[Future[_Slab]], parts: list[Slab], name: str) -> Any:
    """A Dask array of a vector that slabs were made with."""
    import dask.array as da

    blocks = [client.submit(_part, rows, name) for rows in asked]
    key = f"{name}-{blocks[0].key}"
    sizes = tuple(slab.rows for slab in parts)
    return da.Array({(key, i): block for i, block in enumerate(blocks)}, key, (sizes,), dtype=np.float64)


# -- tasks -------------------------------------------------------------------------------------------------------------


def _slab_rows(problem: Problem, slab: Slab, names: list[str], *arrays: Any) -> _Slab:
    there = [array.get() if hasattr(array, "get") else np.asarray(array) for array in arrays]
    whole = flux_rows(slab_of(problem, slab, dict(zip(names, there, strict=True))))
    rows = whole.of_slab(slab)
    singles = int((np.diff(rows.matrix.indptr) == 1).sum())
    return _Slab(rows=rows, look=_look(whole.matrix, slab.own), singles=singles)


def _look(whole: Any, own: range) -> Look:
    """Findings about a slab's own rows; images of their entries may lie in the layers beside it, which `whole` has."""
    mirrors, bounds = look_at(whole), whole.indptr[[own.start, own.stop]]
    entries = slice(*bounds.tolist())
    places = whole.data[entries], whole.indices[entries], np.clip(whole.indptr, *bounds) - bounds[0]
    found = look_at(type(whole)(places, shape=whole.shape))  # rows beside it are empty, and count as dominant
    dominance = found.dominance - (whole.shape[0] - len(own))
    return replace(found, unmatched=mirrors.unmatched, skewness=mirrors.skewness, dominance=dominance)


def _matrix(made: _Slab) -> Any:
    return made.rows.matrix


def _part(made: _Slab, name: str) -> Any:
    found = getattr(made.rows, name)
    return np.zeros(made.rows.matrix.shape[0]) if found is None else found
