"""Facts about a system that is set up: what its program has chosen and made."""

from dsolver.engines.dask.blocks import gather_blocks
from dsolver.errors import InputError
from dsolver.multigrid.summary import Hierarchy
from dsolver.preconditioners import Preconditioner
from dsolver.program import commands as made
from dsolver.program.solve import Solve
from dsolver.session.session import Session


def closed_regions(session: Session) -> int:
    """Number of regions with a constant that nothing fixes; the whole grid may be one. InputError as of `in_use`."""
    return session.used(lambda: session.program.call(Solve.closed_regions))


def chosen(session: Session) -> Preconditioner:
    """M, and of "auto" what was chosen."""
    return session.used(lambda: session.program.call(Solve.chosen))


def hierarchy(session: Session) -> Hierarchy:
    """The levels of multigrid in numbers. InputError: M has no levels."""
    levels, m = session.used(lambda: (session.program.call(made.hierarchy), session.program.call(Solve.chosen)))
    if not levels:
        raise InputError(f"M={m.asked} has no levels to show: M='mg' and M='amg' have")
    return Hierarchy(levels=levels)


def formats(session: Session) -> tuple[str, ...]:
    """The format in which each chunk's rows of a general matrix are stored, and why; empty for grids."""
    if session.problem.lattice:
        return ()

    def brought() -> dict[int, str]:
        blocks = session.program.unload(made.formats)
        return dict(gather_blocks(session.runtime.client, blocks, session.runtime.workers))

    return tuple(found for _, found in sorted(session.used(brought).items()))
