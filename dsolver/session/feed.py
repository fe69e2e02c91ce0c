"""Feed of a session: events of its solves, of which the first one begins with the set-up."""

from weakref import ref

from dsolver.cost.traffic import description, of_iteration, place
from dsolver.monitor.events import SolveEvents
from dsolver.monitor.watch import open_page
from dsolver.program.spec import SolveSpec
from dsolver.session.running import RunningSystem


class Feed:
    """Events of the solves of a system, on its cluster and in this process; no solve waits for them.

    what: as of a `start`; bytes of iterations are counted of a "solve" alone.
    """

    def __init__(self, system: RunningSystem, what: str) -> None:
        self._system, self._what = system, what
        self._set_up: SolveEvents | None = None
        self._newest: SolveEvents | None = None
        self._counted: tuple[ref[SolveSpec], int] | None = None

    def begin_set_up(self) -> None:
        """Tell a cluster of the start of the first solve, which begins with the set-up."""
        client = self._system.runtime.client
        if client is not None and self._set_up is None:
            open_page(client)
            self._set_up = self._started()

    def end_set_up(self, status: str, error: str | None = None) -> None:
        """Tell of the end of a set-up with which nothing was solved."""
        if self._set_up is not None:
            self._set_up.end(status, 0, None, error)
            self._set_up.flush()
            self._set_up = None

    def begin(self) -> SolveEvents:
        """Events of the next solve, whose start is told."""
        self._newest, self._set_up = self._set_up or self._started(), None
        return self._newest

    def close(self) -> None:
        """Bring what is left to the cluster."""
        self.end_set_up("closed")
        if self._newest is not None:
            self._newest.flush()

    def _started(self) -> SolveEvents:
        runtime, spec = self._system.runtime, self._system.plan.spec
        events = SolveEvents(runtime.client)
        if self._what == "solve":
            about = description(runtime, spec, self._iteration_bytes)
        else:
            about = place(runtime, spec.partition, spec.problem.places)
        events.start(what=self._what, problem=spec.problem.name, **about)
        return events

    def _iteration_bytes(self, spec: SolveSpec) -> int:
        """Bytes of an iteration: to count them takes a millisecond, once for a matrix."""
        if self._counted is None or self._counted[0]() is not spec:
            self._counted = ref(spec), of_iteration(spec)
        return self._counted[1]
