"""A matrix on a cluster, given as blocks of rows: what is planned of it is planned by tasks, where the blocks are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from dsolver.cluster.devices import of_cluster, workers_of
from dsolver.cluster.rows.block_tasks import Findings, brought, cut_block, findings_of, placed_block, shape_of
from dsolver.cluster.runtime import check_client
from dsolver.dask_types import Client
from dsolver.engines.dask.attended import SILENCE, attended
from dsolver.engines.dask.connection import secede_if_task
from dsolver.errors import ClusterError, DsolverError, InputError
from dsolver.grid.partition import Partition
from dsolver.grid.row_partition import RowPartition
from dsolver.matrices.checked import ASYMMETRY
from dsolver.matrices.chunks.row_block import ROWS, ChunkCounts, ChunkRows, RowBlock
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.solved_matrix import ALIKE, UNITS
from dsolver.units import counted

if TYPE_CHECKING:
    from distributed import Future


class PlacedRows(ChunkRows):
    """Row blocks on a cluster, futures, and those that they are made from: a lost one is made again."""

    def __init__(self, blocks: Sequence[Future[RowBlock]], sources: Sequence[Future[Any]], kernels: str) -> None:
        self._blocks, self._sources, self._kernels = tuple(blocks), tuple(sources), kernels

    def blocks(self, partition: Partition, *, host: bool, owners: Sequence[str]) -> Mapping[int, Any]:  # noqa: ARG002
        """The future of every chunk's rows, by number."""
        assert len(partition) == len(self._blocks)
        away = host and self._kernels == "cuda"
        return {i: block.client.submit(brought, block) if away else block for i, block in enumerate(self._blocks)}


def matrix_from_blocks(blocks: Iterable[Any], *, client: Client | None = None, name: str = "matrix") -> MatrixProblem:
    """A linear system whose matrix lies on a Dask cluster as blocks of rows, which stay where they are.

    Each block is a chunk. Columns are numbered, checked and planned by tasks beside the blocks; this process gets the
    columns that blocks read of each other, and no rows. Whether A is symmetric is told by products with two random
    vectors, in which a difference of single entries may be lost to rounding. A block that a lost worker had is computed
    again, if Dask knows from what.

    Args:
        blocks: delayed objects, futures, or other Dask objects that compute to sparse matrices of SciPy or CuPy: the
            rows of A one after the other, each with all n columns; or a Dask array of such blocks, cut along its rows.
        client: the cluster's; by default the newest one. Solve with it, too.
        name: for reports.

    Returns:
        A problem as of `dsolver.matrix`. Its b and x may be Dask arrays, which are not brought here either.

    Raises:
        InputError: blocks are no such objects, cannot be computed, or have not the columns of one square matrix; A has
            values that are not real and finite, or an empty row.
        ClusterError: there is no cluster or it has no workers, or a block was lost.
    """
    client = running(client)
    held = [_future(client, number, block) for number, block in enumerate(_listed(blocks))]
    if not held:
        raise InputError("blocks has no block: A needs one or more rows")
    _check_apart(held)
    asked = [client.submit(shape_of, block, number) for number, block in enumerate(held)]
    shapes = results_of(client, asked, held, silence=math.inf)  # blocks are computed first, as long as that takes
    partition, kept = _partition(shapes)
    held = [held[number] for number in kept]
    kernels, firsts = of_cluster(client, "auto").device, partition.bounds[:-1]
    rows = [client.submit(placed_block, *block, kernels) for block in zip(held, kept, firsts, strict=True)]
    findings: list[Findings] = results_of(client, [client.submit(findings_of, each, kernels) for each in rows], held)
    hollow, at = _checked(findings)
    asymmetry, negative = _asymmetry(findings), sum(found.negative for found in findings)
    negated = negative == partition.rows and not hollow
    plans, places = partition.halo_plans([found.ghosts for found in findings]), _places(client, rows)
    made = [
        client.submit(cut_block, *of_chunk, kernels, negated=negated, workers=[place], allow_other_workers=True)
        for *of_chunk, place in zip(rows, plans, places, strict=True)
    ]
    counts: list[ChunkCounts] = results_of(client, [client.submit(attrgetter("counts"), block) for block in made], held)
    return MatrixProblem(
        name=name,
        grid=(partition.rows, 1, 1),
        chunks=partition.sizes,
        singular=not asymmetry and all(found.closed for found in findings),
        asymmetry=asymmetry,
        hollow=f"A has {hollow} zeros on its diagonal, the first in row {at}" if hollow else "",
        indefinite=not negated and negative > 0,
        negative=0 if negated else negative,
        negated=negated,
        uneven=_differs(findings, UNITS if asymmetry else ALIKE),
        coefficients={ROWS: PlacedRows(made, held, kernels)},
        senders=tuple(tuple(source for source, _ in plan.receives) for plan in plans),
        counts=tuple(counts),
        places=places,
    )


def _checked(findings: Sequence[Findings]) -> tuple[int, int]:
    """Zeros on the diagonal: how many, and the first one's row. InputError: rows are empty."""
    empty, first = _total([found.empty for found in findings])
    if empty:
        few = f"{counted(empty, 'empty row')}, the first is row {first}"
        raise InputError(f"A has {few}: take such rows out, or pass A whole, as a matrix of SciPy")
    return _total([found.hollow for found in findings])


def _differs(findings: Sequence[Findings], times: float) -> bool:
    """Whether rows, or columns, differ so much in size; which column has large entries, no chunk knows."""
    least = min(found.least for found in findings)
    return max(found.largest for found in findings) > times * least and least < math.inf


def running(client: Client | None) -> Client:
    """The client, or the newest one, of a cluster with workers. InputError: it is none; ClusterError: there is none."""
    from distributed import default_client

    check_client(client)
    if client is None:
        try:
            client = default_client()
        except ValueError as error:
            raise ClusterError("there is no client of a cluster: pass client=Client(address_or_cluster)") from error
    workers_of(client)
    secede_if_task()
    return client


def _listed(blocks: Iterable[Any]) -> list[Any]:
    """The blocks one by one: of a Dask array, not row by row. InputError: it is cut along columns, or no list."""
    from dask.base import is_dask_collection
    from distributed import Future

    array: Any = blocks
    cut = getattr(array, "numblocks", None)
    if not isinstance(cut, tuple):  # a Delayed has any attribute
        if isinstance(array, Future) or is_dask_collection(array) or not isinstance(array, Iterable):
            raise InputError(f"blocks is a {type(array).__name__}, but must be a list of blocks: [block] for one")
        return list(array)
    if cut[1:] != (1,):
        raise InputError(f"blocks is a Dask array in {cut} pieces: each must have whole rows")
    return list(array.to_delayed().ravel())


def _future(client: Client, number: int, block: Any) -> Future[Any]:
    """The future of a block, which begins to be computed."""
    from distributed import Future

    if isinstance(block, Future):
        return block
    if not hasattr(block, "__dask_graph__"):
        raise InputError(
            f"block {number} is a {type(block).__name__}, but must be a delayed object or a future of a sparse matrix; "
            f"dsolver.matrix is for matrices in this process"
        )
    return client.compute(block)


def _check_apart(blocks: Sequence[Future[Any]]) -> None:
    """Refuse a block that is there twice; raises InputError."""
    first: dict[Any, int] = {}
    for number, block in enumerate(blocks):
        other = first.setdefault(block.key, number)
        if other != number:
            raise InputError(
                f"block {number} is the same object as block {other}: A would have its rows twice, and be singular; "
                f"make a block for each part of the rows"
            )


def results_of(
    client: Client, asked: Sequence[Future[Any]], blocks: Sequence[Future[Any]] = (), *, silence: float = SILENCE
) -> list[Any]:
    """Results of tasks, which may follow from blocks of users.

    Args:
        silence: as of `dsolver.engines.dask.attended`.

    Raises:
        InputError: what a task has found wrong with a block, or that the computation of one has failed.
        ClusterError: a block was canceled or lost, a worker hangs, or the cluster does not answer.
    """
    from distributed import CancelledError, KilledWorker

    async def gathered() -> Any:
        return await attended(client, client.gather(asked, asynchronous=True), silence=silence)

    try:
        found: list[Any] = client.sync(gathered)
    except DsolverError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        states = [block.status for block in blocks]
        if isinstance(error, KilledWorker):
            raise ClusterError(f"a block cannot be computed, for workers die of it: {why}") from error
        if "error" in states:  # in the user's function, such as a file that is missing
            raise InputError(f"block {states.index('error')} cannot be computed: {why}") from error
        if client.status != "running":
            raise ClusterError(f"the cluster does not answer any more: {why}") from error
        if isinstance(error, CancelledError | OSError):
            gone = [f"block {n} was {state}" for n, state in enumerate(states) if state in ("cancelled", "lost")]
            what = ", ".join(gone[:3]) or "blocks were lost"
            raise ClusterError(f"{what}: make them anew, with the client that is to solve ({why})") from error
        raise
    return found


def _places(client: Client, rows: Sequence[Future[Any]]) -> tuple[str, ...]:
    """The worker that has each block of rows; any, where one is made again. ClusterError: there are none."""
    there, scheduler = workers_of(client), cast("Any", client.scheduler)

    async def asked() -> Any:
        return await attended(client, scheduler.who_has(keys=[a.key for a in rows]), silence=SILENCE)

    where = client.sync(asked)
    return tuple((where.get(a.key) or there)[0] for a in rows)


def _partition(shapes: Sequence[tuple[int, int]]) -> tuple[RowPartition, list[int]]:
    """Row ranges of blocks with these shapes, and numbers of those that have rows. InputError: A is not square."""
    bounds, kept = [0], [number for number, (rows, _) in enumerate(shapes) if rows]
    size = sum(rows for rows, _ in shapes)
    if not kept:
        raise InputError("blocks have no rows: A needs one or more")
    for number in kept:
        rows, columns = shapes[number]
        if columns != size:
            raise InputError(f"block {number} has {columns} columns, but the blocks have {size} rows: make them equal")
        bounds.append(bounds[-1] + rows)
    return RowPartition(bounds=tuple(bounds)), kept


def _total(counts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Number in all blocks, and the first one."""
    return sum(count for count, _ in counts), next((first for count, first in counts if count), 0)


def _asymmetry(findings: Sequence[Findings]) -> str:
    """As `Problem.asymmetry`."""
    one, other, size = (sum(part) for part in zip(*(found.products for found in findings), strict=True))
    if abs(one - other) <= ASYMMETRY * size:
        return ""
    return f"xᵀA y = {one:.6g}, but yᵀA x differs from it by {abs(other - one):.1e}, for two random vectors"
