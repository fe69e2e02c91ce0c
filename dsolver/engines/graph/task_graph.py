"""Tasks that wait to be submitted, and handles whose values are wanted: one graph for all views of an engine."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Final, TypeVar
from weakref import WeakSet

from dask._task_spec import Task, TaskRef

from dsolver.engines.eager.handles import part_of
from dsolver.engines.graph.handles import GraphPartialSums, GraphScalar, Key, Variable, Vector, Version
from dsolver.engines.graph.labels import KEPT, PARTIAL, REDUCE
from dsolver.engines.graph.results import Results
from dsolver.engines.graph.tasks import Path, add_parts, pick
from dsolver.kernels.contract import FAN_IN

FORGET_AFTER: Final = 1000
"""Tasks after which the history of the current results is forgotten: about a second of a scheduler's work."""

V = TypeVar("V", bound=Variable)
Node = tuple[int, Key, Path]  # a node of a reduction tree: its first chunk, the key of a result, and the path into it


class TaskGraph:
    """Tasks of operations, submitted when a value is asked for."""

    def __init__(self, results: Results, name: str, chunks: range) -> None:
        self.results, self.name = results, name
        self.serials = count(1)
        self.variables: WeakSet[Variable] = WeakSet()
        self._chunks = chunks
        self._tasks: dict[Key, Task] = {}

    def known(self, variable: V) -> V:
        """The handle, whose value is wanted as long as it is in use."""
        self.variables.add(variable)
        return variable

    def version(self, label: str, level: int | None = None, place: int | None = None) -> Version:
        """A new version of a handle; place: the chunk at whose owner its only result is."""
        name = label if level is None else f"{label}-L{level}"
        return Version(f"{name}-{self.name}", next(self.serials), place=place)

    def add(self, key: Key, function: Callable[..., Any], *arguments: Any, needs: Iterable[Any]) -> None:
        """Add the task function(*arguments, *results of the keys that it needs)."""
        self._tasks[key] = Task(key, function, *arguments, *map(TaskRef, needs))

    def reduce(self, nodes: Sequence[Node], place: int | None) -> Node:
        """Add the tree that sums parts; its root."""
        while True:
            version = self.version(REDUCE, place=place)
            reduced: list[Node] = []
            for i in range(0, len(nodes), FAN_IN):
                first = nodes[i][0]
                near = [self._near(node, first) for node in nodes[i : i + FAN_IN]]
                paths = tuple(path for _, path in near)
                self.add(version.key(first), add_parts, paths, needs=[key for key, _ in near])
                reduced.append((first, version.key(first), ()))
            if len(reduced) == 1:
                return reduced[0]
            nodes = reduced

    def _near(self, node: Node, place: int) -> tuple[Key, Path]:
        """The key and path of a part for the owner of a place; a remote part comes without the vectors beside it."""
        chunk, key, path = node
        owners = self.results.owners
        if not path or owners[chunk] == owners[place]:
            return key, path
        picked = f"{PARTIAL}-{self.name}-{'-'.join(map(str, path))}", key[1], chunk  # one task may make several
        self.add(picked, pick, path, needs=[key])
        return picked, ()

    def submit(self, extra: Iterable[Version] = ()) -> None:
        """Send the tasks that the live handles' current versions and some others need."""
        live = {v.version for v in self.variables if v.version is not None}
        self.results.submit(self._tasks, {v.key(chunk) for v in live.union(extra) for chunk in self._chunks})
        self._tasks.clear()

    def evaluate(self, rows: Sequence[Sequence[Version | float]]) -> list[tuple[float, ...]]:
        """The values of scalars, row by row."""
        versions = list(dict.fromkeys(s for row in rows for s in row if isinstance(s, Version)))
        self.submit(versions)
        known = dict(zip(versions, self._values(versions), strict=True))
        if self.results.task_count > FORGET_AFTER:
            self._forget_past()
        return [tuple(known[s] if isinstance(s, Version) else s for s in row) for row in rows]

    def close(self) -> None:
        """Give back all that the cluster holds."""
        self.results.close()
        self._tasks.clear()

    def _values(self, versions: Sequence[Version]) -> list[float]:
        """The numbers that versions of scalars are. Waits for them."""
        found = self.results.gather([version.key(0) for version in versions])
        return [part_of(value, version.path) for value, version in zip(found, versions, strict=True)]

    def _forget_past(self) -> None:
        """Give current results keys that come from no task, and scalars their values.

        Otherwise the scheduler would keep every task since the start, to be able to compute a lost result again, and so
        would the workers. No worker could run that history without the owner whose loss would make it necessary.
        """
        results = self.results
        results.wait(list(results.futures))
        scalars = [v for v in self.variables if isinstance(v, GraphScalar) and v.version is not None]
        values = self._values([v.version for v in scalars if v.version is not None])
        for scalar, value in zip(scalars, values, strict=True):
            scalar.state = value
        renamed = self._renamed()
        pairs = [(old, new, chunk) for old, new in renamed.items() for chunk in self._chunks]
        results.rename({new.key(chunk): (old.key(chunk), old.path) for old, new, chunk in pairs})
        for variable in self.variables:
            new = renamed.get(variable.version) if variable.version is not None else None
            if new is not None and all(new.key(chunk) in results.futures for chunk in self._chunks):
                variable.version = new
        self.submit()
        results.release_unwanted()
        results.task_count = 0

    def _renamed(self) -> dict[Version, Version]:
        """A new version for each current one of a vector, or of parts, that comes from tasks."""
        kept = f"{KEPT}-{self.name}"
        handles = [v for v in self.variables if isinstance(v, Vector | GraphPartialSums)]
        current = {v.version for v in handles if v.version is not None and v.version.group != kept}
        return {version: self.version(KEPT, place=version.place) for version in current}
