"""Rows of a grid with a flow or a full tensor, made by a cluster's workers: each makes those of its slab of the grid.

So no worker and not this process ever has the whole of a coefficient that is a Dask array, or of A.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dsolver.cluster.devices import workers_of
from dsolver.cluster.rows.row_blocks import matrix_from_blocks, results_of
from dsolver.matrices.chunks.row_block import FED
from dsolver.matrices.composed.grids import alone_cells, as_matrix
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.properties import POSITIVE
from dsolver.problems import Problem
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.fluxes.rows import Anchors, FluxRows, flux_rows
from dsolver.problems.fluxes.slabs import Slab, slab_of, slabs

if TYPE_CHECKING:
    from distributed import Client, Future


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
    anchors: list[Anchors] = results_of(client, [client.submit(_anchors, made) for made in asked], held)
    made = matrix_from_blocks([client.submit(_matrix, rows) for rows in asked], client=client, name=problem.name)
    fed = {FED[0]: _vector(client, asked, parts, "volumes")}
    if any(found.feeds for found in anchors):
        fed[FED[1]] = _vector(client, asked, parts, "right")
    positive, count = sum(found.positive for found in anchors), math.prod(problem.grid)
    tensor = isinstance(problem.rule, Diffusion) and bool(problem.rule.cross)
    singular = not any(found.anchored for found in anchors) and all(found.balanced for found in anchors)
    return replace(
        made,
        coefficients={**made.coefficients, **{name: vector.reshape(made.grid) for name, vector in fed.items()}},
        of_grid=problem,
        dimensions=problem.dimensions,
        singular=singular or (None if tensor and problem.masked else False),  # None: its pieces are looked at
        known=problem.masked,
        notes=(*made.notes, *alone_cells(sum(found.alone for found in anchors))),
        elliptic=tensor or positive <= POSITIVE * count,
    )


def _on_cluster(client: Client, part: Any) -> Future[Any]:
    """A future of a slab's part of a coefficient."""
    if type(part).__module__.partition(".")[0] == "dask":
        return client.compute(part)
    (found,) = client.scatter([part.get() if hasattr(part, "get") else part], hash=False)
    return found


def _vector(client: Client, asked: list[Future[FluxRows]], parts: list[Slab], name: str) -> Any:
    """A Dask array of a vector that slabs were made with."""
    import dask.array as da

    blocks = [client.submit(_part, rows, name) for rows in asked]
    key = f"{name}-{blocks[0].key}"
    sizes = tuple(slab.rows for slab in parts)
    return da.Array({(key, i): block for i, block in enumerate(blocks)}, key, (sizes,), dtype=np.float64)


# -- tasks -------------------------------------------------------------------------------------------------------------


def _slab_rows(problem: Problem, slab: Slab, names: list[str], *arrays: Any) -> FluxRows:
    there = [array.get() if hasattr(array, "get") else np.asarray(array) for array in arrays]
    return flux_rows(slab_of(problem, slab, dict(zip(names, there, strict=True)))).of_slab(slab)


def _matrix(rows: FluxRows) -> Any:
    return rows.matrix


def _anchors(rows: FluxRows) -> Anchors:
    return rows.anchors


def _part(rows: FluxRows, name: str) -> Any:
    found = getattr(rows, name)
    return np.zeros(rows.matrix.shape[0]) if found is None else found
