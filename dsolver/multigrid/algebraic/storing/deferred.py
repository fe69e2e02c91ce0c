"""Storing of a level's rows and of the transfers to the next one, as work that may be put off."""

from collections.abc import Callable
from functools import partial

from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels.deferred import Deferred
from dsolver.multigrid.algebraic.coarser_level import CoarserLevel
from dsolver.multigrid.algebraic.galerkin_numeric import Again
from dsolver.multigrid.algebraic.placement import Place
from dsolver.multigrid.algebraic.reuse import KeptLevel
from dsolver.multigrid.algebraic.rows.window import Bounds
from dsolver.multigrid.algebraic.storage import asked_rows, measured_rows, stored_rows, stored_transfer
from dsolver.multigrid.correction import StoredTransfer
from dsolver.multigrid.replicate import row_replication


def storing_of(
    view: Engine,
    layout: PerChunk,
    depth: int,
    made: CoarserLevel,
    place: Place,
    parts: PerChunk,
    bounds: Bounds,
    again: Again,
    sizes: Deferred[PerChunk] | None,
    coarse: PerChunk | None,
) -> Callable[[], KeptLevel]:
    """Storing of the transfer from the level of this depth. Only here R and P are kept in float64.

    Args:
        view: the engine in the value type of what is stored.
        sizes: what storing P takes, where that was asked for ahead.
        coarse: of every chunk, own rows that are coarse points, where these are swept in turn.
    """
    gathered = place.gather is not None
    store = partial(stored_transfer, depth=depth, bounds=bounds, replicated=gathered)

    def stored() -> KeptLevel:
        measured = () if sizes is None else (sizes(),)
        chunks = view.per_chunk(store, layout, parts, made.chunks, *measured).at(depth)
        replication = row_replication(view, place.view, bounds, parts, place.layout) if gathered else None
        return KeptLevel(
            transfer=StoredTransfer(
                chunks=chunks, replication=replication, restricted=made.partners, prolonged=made.partners
            ),
            place=place,
            again=again,
            coarse=coarse,
        )

    return stored


def measures_ahead(view: Engine, rows: PerChunk) -> Deferred[PerChunk]:
    """The `Ahead` of a level's rows, asked for now and waited for when it is called."""
    asked = view.per_chunk(asked_rows, rows)
    return Deferred(lambda: view.per_chunk(measured_rows, rows, asked))


def storing_of_rows(
    view: Engine, rows: PerChunk, layout: PerChunk, depth: int, choices: PerChunk | Deferred[PerChunk] | None
) -> Callable[[], PerChunk]:
    """Storing of a level's rows; choices: of every chunk's format, or the `Ahead` that they follow from."""
    store = partial(stored_rows, depth=depth)

    def stored() -> PerChunk:
        found = choices() if isinstance(choices, Deferred) else choices
        return view.per_chunk(store, rows, layout, *(() if found is None else (found,))).at(depth)

    return stored
