"""The history of a cluster's solves: their messages, put together for pages and reports."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

Message = dict[str, Any]

SOLVES: Final = 20  # most solves that are remembered; the oldest are forgotten first
POINTS: Final = 4000  # most residuals of a solve that are remembered; beyond, every second one is dropped


class WorkerMemory(NamedTuple):
    """Memory of one worker, on its "host" or "GPU", in bytes; limit: 0 for none."""

    where: str
    used: int
    limit: int


@dataclass(kw_only=True)
class SolveRecord:
    """The messages of one solve so far; see `dsolver.monitor.events`.

    `iterations`, `residuals`: the curve, ascending. `state`, `spans`, `end`: the newest message of each kind, or None.
    """

    start: Message  # its `start` message; of a solve that began before anyone listened, only what every message has
    iterations: list[int] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    state: Message | None = None
    spans: Message | None = None
    end: Message | None = None

    @property
    def id(self) -> str:
        """The solve's id."""
        return str(self.start["solve"])

    @property
    def title(self) -> str:
        """A line for people: when it began, what it is, and how it is doing."""
        grid = "×".join(map(str, self.start.get("grid", ())))
        status = self.end["status"] if self.end else "running"
        return f"{self.start.get('what', 'solve')} {grid} {self.start.get('problem', '')} · {self.id[:6]} · {status}"

    @property
    def running(self) -> bool:
        """Whether the solve has not ended."""
        return self.end is None

    def add(self, message: Message) -> None:
        """Add a message of this solve."""
        event = message["event"]
        if event == "start":
            self.start = message
        elif event == "spans":
            self.spans = message
        else:
            if event == "end":
                self.end = message
            else:
                self.state = message
            self._point(message)

    def _point(self, message: Message) -> None:
        """Add a point to the curve. It begins anew with each phase of the benchmark, at iteration 0."""
        iteration, residual = message["iteration"], message["residual"]
        if residual is None:
            return
        if self.iterations and iteration < self.iterations[-1]:
            self.iterations.clear()
            self.residuals.clear()
        if self.iterations and iteration == self.iterations[-1]:
            self.residuals[-1] = residual
            return
        self.iterations.append(iteration)
        self.residuals.append(residual)
        if len(self.iterations) > POINTS:
            self.iterations, self.residuals = self.iterations[::2], self.residuals[::2]


class SolveHistory:
    """All solves of which there were messages, oldest first."""

    def __init__(self) -> None:
        self.solves: OrderedDict[str, SolveRecord] = OrderedDict()

    def add(self, message: Message) -> None:
        """Add a message of any solve."""
        key = message["solve"]
        if key not in self.solves:
            self.solves[key] = SolveRecord(start={"solve": key, "time": message["time"]})
            while len(self.solves) > SOLVES:
                self.solves.popitem(last=False)
        self.solves[key].add(message)

    def worker_left(self, worker: str) -> None:
        """Note in the running solves of a worker that it has left: they will hardly say so themselves."""
        for solve in self.solves.values():
            if solve.running and worker in solve.start.get("workers", ()):
                solve.start.setdefault("lost", []).append(worker)

    def select(self, key: str | None) -> SolveRecord | None:
        """The solve of an id; without one, the newest that runs, or else the newest."""
        if key is not None and key in self.solves:
            return self.solves[key]
        running = [solve for solve in self.solves.values() if solve.running]
        everything = running or list(self.solves.values())
        return everything[-1] if everything else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {key: {**vars(solve)} for key, solve in self.solves.items()}
