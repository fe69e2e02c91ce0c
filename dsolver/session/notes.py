"""Notes of a session on choices that are not as a rule, for `Solution.notes`."""

from collections.abc import Mapping
from typing import Final

from dsolver.multigrid.reuse import Outcome
from dsolver.session.session import Session
from dsolver.session.vectors import functions

REUSED: Final[Mapping[Outcome | None, str]] = {
    "used": "M has the interpolation of an earlier matrix: update(reuse='interpolation') has kept it",
    "first": "M was set up anew: the next update(reuse='interpolation') keeps its interpolation",
    "pattern": "M was set up anew, as A has entries in other places, or is stored in another order: the next "
    "update(reuse='interpolation') keeps its interpolation",
    "none": "M was set up anew: it has no interpolation that update(reuse='interpolation') could keep; M='amg' has",
    "kept": "M is that of an earlier matrix, which is cheaper, or was asked for: update(reuse=None) sets one up",
    "anew": "M was set up anew: update(reuse='preconditioner') keeps levels of multigrid, while unknowns are stored in "
    "one order, the same regions are closed, and A is real and symmetric",
    None: "",
}
"""Notes on what an update has used of the set-up before."""

TAKEN: Final = (
    "no client= was given, and a client is open: its cluster was taken, {}; client=False is for this process alone"
)
"""Note on a cluster that was not named."""

GATHERED: Final = (
    "{name} is a function of whole arrays: each vector is gathered on one worker for it. A function by chunk, as "
    "dsolver.by_chunk makes, is called where the chunks are"
)
"""Note on a function that a cluster has no use for."""

WAVES: Final = (
    "A is of waves, as Helmholtz' equation is, and M of the shifted Laplacian: iterations grow with the number of "
    "waves, and as damping falls; M='direct' has factors of A itself"
)
"""Note on a system for which no M but factors is good."""


def notes_of(session: Session) -> tuple[str, ...]:
    """Choices that are not as a rule, for `Solution.notes`."""
    taken = TAKEN.format(session.unnamed) if session.unnamed else ""
    kept = (_waves(session), REUSED[session.system.reused], taken, session.refused, session.factored)
    return (*_method(session), *session.problem.notes, *filter(None, kept), *_gathered(session))


def _method(session: Session) -> tuple[str, ...]:
    """A note on a method that is not the usual one of its kind, where none was asked for."""
    problem = session.problem
    if problem.complex and problem.unsymmetric:
        why = f"A is complex, neither symmetric nor Hermitian ({problem.unsymmetric})"
    elif differs := problem.unsymmetric:
        why = f"A is not symmetric ({differs})"
    elif problem.indefinite and not problem.complex:
        why = "A has a diagonal that is not positive everywhere"
    else:
        return ()
    return () if session.first.method else (f"{why}: it is solved by {session.spec.traits.title}",)


def _waves(session: Session) -> str:
    """A note on waves, whose stand-in for A is the one that counts as indefinite though its diagonal is positive."""
    problem = session.problem
    waves = problem.complex and not problem.hermitian and problem.indefinite
    return WAVES if waves and not session.spec.preconditioner.can.complex else ""


def _gathered(session: Session) -> tuple[str, ...]:
    """Notes on functions for which whole vectors are brought to one worker."""
    if session.runtime.client is None or len(session.partition) == 1:
        return ()
    return tuple(GATHERED.format(name=each.name) for each in functions(session) if each.halo is None)
