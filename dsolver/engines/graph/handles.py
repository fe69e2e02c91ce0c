"""The handles of the `graph` engine: variables over immutable results of tasks. Knows nothing of Dask.

Running a kernel on a handle gives it a new `Version`; a holder of the old one still sees the old values.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, final

from dsolver.engines.base import Field, Halo, Operand, PartialSums, PerChunk, Scalar
from dsolver.engines.graph.tasks import Argument, Make, Path

Key = tuple[str, int, int]  # (label, level and run; serial number of the operation; chunk)


class Version(NamedTuple):
    """One value of a handle: tasks' keys begin with (group, serial); `place` is the only chunk that has it, if any."""

    group: str
    serial: int
    path: Path = ()
    place: int | None = None

    def key(self, chunk: int) -> Key:
        return self.group, self.serial, chunk if self.place is None else self.place


class LoadedBlocks(NamedTuple):
    """Blocks that a user has loaded: the key of each chunk's, and whether they are arrays, for the device."""

    keys: Mapping[int, Any]
    arrays: bool = True

    def key(self, chunk: int) -> Any:
        return self.keys[chunk]


class Variable:
    """Base of handles that have a current version. None stands for zeros, which the tasks that want them make."""

    def __init__(self, version: Version | None = None) -> None:
        self.version = version


@final
class GraphPerChunk(PerChunk):
    """Objects that one task a chunk has built, or parts of them."""

    def __init__(self, root: Variable, path: Path = ()) -> None:
        self.root = root
        self.path = path

    def at(self, *path: str | int) -> Self:
        return GraphPerChunk(self.root, self.path + path)

    @property
    def level(self) -> int | None:
        """The multigrid level, if the objects are a sequence of levels."""
        return self.path[0] if self.path and isinstance(self.path[0], int) else None


class Vector(Variable):
    """Base of vectors; shape is the `Layout` or the `HaloLayout` that has the size, dtype the value type."""

    def __init__(self, shape: GraphPerChunk, dtype: str) -> None:
        super().__init__()
        self.shape = shape
        self.dtype = dtype


@final
class GraphField(Vector, Field):
    """A distributed vector."""


@final
class GraphHalo(Vector, Halo):
    """The values of neighbors; senders are the chunks that they come from, for each chunk."""

    def __init__(self, shape: GraphPerChunk, dtype: str, senders: Sequence[Sequence[int]]) -> None:
        super().__init__(shape, dtype)
        self.senders = senders


@final
class GraphPartialSums(Variable, PartialSums):
    """A float a chunk, on the host: 8 bytes that no reduction should have to fetch from a device."""


@final
class GraphScalar(Variable, Scalar):
    """A float in the graph, or `value` where that is known and there is no version."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    @property
    def state(self) -> Version | float:
        """The version, or the value where that is known."""
        return self.value if self.version is None else self.version

    @state.setter
    def state(self, state: Version | float) -> None:
        self.version, self.value = (state, 0.0) if isinstance(state, Version) else (None, state)


class Inputs:
    """The results that the tasks of an operation depend on, each once."""

    def __init__(self) -> None:
        self.sources: list[Version | LoadedBlocks] = []
        self._places: dict[tuple[str, int], int] = {}

    def add(self, source: Version | LoadedBlocks) -> int:
        """The place of a source among a task's inputs."""
        if isinstance(source, LoadedBlocks):
            self.sources.append(source)
            return len(self.sources) - 1
        name = source[:2]
        if name not in self._places:
            self._places[name] = len(self.sources)
            self.sources.append(source)
        return self._places[name]

    def of(self, chunk: int) -> list[Any]:
        """The keys of one chunk's task's inputs."""
        return [source.key(chunk) for source in self.sources]

    def argument(self, operand: Operand | LoadedBlocks, *, written: bool = False, updated: bool = False) -> Argument:
        """The kernel's argument that tasks make from an operand."""
        match operand:
            case LoadedBlocks():
                return Argument(Make.BLOCK if operand.arrays else Make.PART, self.add(operand))
            case GraphPerChunk(root=root, path=path):
                return Argument(Make.PART, self.add(existing(root)), path)
            case GraphField() | GraphHalo():
                if written or operand.version is None:
                    return Argument(
                        Make.ZEROS, self.add(existing(operand.shape.root)), operand.shape.path, operand.dtype
                    )
                make = Make.COPY if updated else Make.PART
                return Argument(make, self.add(operand.version), operand.version.path)
            case GraphPartialSums():
                return self._number(0.0 if written else operand.version or 0.0)
            case GraphScalar():
                return self._number(operand.state)
            case float() | int():
                return Argument(Make.LITERAL, operand)
        raise TypeError(f"{operand!r} is not a handle of this engine")

    def _number(self, state: Version | float) -> Argument:
        if isinstance(state, Version):
            return Argument(Make.NUMBER, self.add(state), state.path)
        return Argument(Make.CONSTANT, state)


def states(scalars: Iterable[Scalar]) -> list[Version | float]:
    """The current states of scalars."""
    found = []
    for scalar in scalars:
        assert isinstance(scalar, GraphScalar)
        found.append(scalar.state)
    return found


def level_of(operands: Iterable[Operand | LoadedBlocks]) -> int | None:
    """The level of the first operand that has one: the finer one where two levels meet."""
    for operand in operands:
        place = operand.shape if isinstance(operand, GraphField | GraphHalo) else operand
        if isinstance(place, GraphPerChunk) and place.level is not None:
            return place.level
    return None


def existing(variable: Variable) -> Version:
    """The version of a variable that has one."""
    assert variable.version is not None
    return variable.version
