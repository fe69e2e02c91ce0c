"""Search for constants that nothing fixes: on all cells, on the regions that a mask closes, on pieces of a matrix."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from dsolver.discretize.closed_regions import ClosedRegions, closed_cells
from dsolver.discretize.coefficients import Coefficients
from dsolver.discretize.components import is_grounded, kept, labelled, seen
from dsolver.discretize.pieces import closed_pieces
from dsolver.distributed.loaded_rows import LoadedRows
from dsolver.engines.base import Engine, PerChunk
from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.matrices.problem import MatrixProblem
from dsolver.problems import Problem
from dsolver.problems.discretization import Patch
from dsolver.problems.finite_volumes import Diffusion


@dataclass(frozen=True, kw_only=True)
class Unfixed:
    """Constants that nothing fixes."""

    # blocks with ones on all cells that are not left out, where one constant is open; else None.
    ones: PerChunk | None = None
    closed: ClosedRegions | None = None
    sealed: bool = False  # whether a mask keeps all cells from the conditions that would fix the constant
    kept: tuple[int, ...] | None = None  # by chunk, the number of cells that are not left out; None where none are


def unfixed(
    engine: Engine, problem: Problem, partition: Partition, given: Coefficients | LoadedRows | None, *volumes: PerChunk
) -> Unfixed:
    """Constants that nothing fixes in a problem whose coefficients are prepared. InputError: every cell is left out.

    volumes: of the cells of a grid whose rows are those of a matrix.
    """
    rule, singular = problem.rule, problem.singular
    if rule is not None and isinstance(given, Coefficients):
        view = given.engine
        if isinstance(rule, Diffusion) and rule.masked:
            if singular is not False:
                return _in_regions(view, given, rule)
            counts = kept(view, given, rule)
            _check_kept(rule, sum(counts))
            return Unfixed(kept=tuple(counts))
        singular = singular is not False and not is_grounded(view, given, rule)
    if isinstance(given, LoadedRows) and not problem.asymmetry:
        rows, senders = given.blocks, problem.senders
        if isinstance(problem, MatrixProblem) and problem.empty and given.given is not None:
            rows, senders, singular = given.given, problem.given_senders, None
        if singular is not False:
            view = engine.lowered("float64")  # labels and sums that travel, whatever A is in
            found = closed_pieces(view, rows, senders or [()], *volumes)
            singular = found.whole
            if found.count and not found.whole:
                return Unfixed(closed=found)
    return Unfixed(ones=engine.per_chunk(partial(_ones, partition=partition)) if singular else None)


def _in_regions(engine: Engine, coefficients: Coefficients, rule: Diffusion) -> Unfixed:
    """Constants of the regions that a mask leaves; raises InputError where it leaves no cell."""
    labels = labelled(engine, coefficients, rule)
    cells, counts = seen(engine, labels)
    open_cells = tuple(int(closed + free) for closed, free in counts)
    _check_kept(rule, sum(open_cells))
    free = int(sum(each for _, each in counts))
    if free == sum(open_cells):
        return Unfixed(kept=open_cells)
    found = closed_cells(engine, coefficients, rule, labels, cells, free)
    return Unfixed(
        kept=open_cells,
        ones=coefficients.per_chunk(partial(_unmasked, rule=rule)) if found.whole else None,
        closed=found if found.count and not found.whole else None,
        sealed=rule.grounds and found.free == 0,
    )


def _check_kept(rule: Diffusion, kept: int) -> None:
    """Refuse a mask that leaves out every cell; kept: 0 where it does."""
    if not kept:
        fixed = " or fixed" if rule.fixed else ""
        raise InputError(f"every cell is left out{fixed}: mask is true at cells to leave out, active at those to keep")


def _ones(backend: Backend, number: int, *, partition: Partition) -> Any:
    return backend.xp.ones(partition[number].box.shape)


def _unmasked(backend: Backend, _: int, patch: Patch, *, rule: Diffusion) -> Any:
    """Ones at the cells that are not left out and zeros elsewhere."""
    solid, ones = rule.solid(patch), backend.xp.ones(patch.shape)
    return (ones if solid is None else ones * ~solid).T
