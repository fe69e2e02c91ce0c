"""The tasks of the `graph` engine, which run on workers. Knows nothing of Dask.

A task gets a `TaskCall`, the number of its chunk and the results of the tasks that it depends on. Others read these
too, so a task never changes one: what a kernel updates is copied, what it writes is made anew.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum, auto
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from dsolver.engines.eager.handles import part_of
from dsolver.errors import check_block
from dsolver.kernels import Backend, load

Path = tuple[str | int, ...]


class Make(Enum):
    """Ways in which a task makes a kernel's argument."""

    PART = auto()  # a part of an input, as it is
    COPY = auto()  # a copy of a part of an input: an array that the kernel updates
    BLOCK = auto()  # an input brought to the device
    ZEROS = auto()  # zeros, as many as the `size` of a part of an input (a `Layout` or a `HaloLayout`)
    NUMBER = auto()  # a part of an input that is a float, as an array (1,) on the device
    CONSTANT = auto()  # a float known beforehand, as an array (1,) on the device
    LITERAL = auto()  # a float known beforehand, as it is


class Argument(NamedTuple):
    """One argument of a kernel: how it is made, from which input (or float) of the task, by which path into that."""

    make: Make
    source: float
    path: Path = ()
    dtype: str = "float64"

    @property
    def is_number(self) -> bool:
        """Whether the argument travels between tasks as a Python float: 8 bytes that need no device."""
        return self.make in (Make.NUMBER, Make.CONSTANT)


class TaskCall(NamedTuple):
    """One operation of the engine, the same for all chunks; a task returns the arguments from `first_output` on."""

    label: str
    kernels: str
    dtype: str
    kernel: str
    arguments: tuple[Argument, ...]
    first_output: int = 0


class Built:
    """An object built once for a chunk, with its size for Dask, which would take a shallow one of a few bytes."""

    def __init__(self, item: Any) -> None:
        self.item = item
        self._size = host_bytes(item)

    def __sizeof__(self) -> int:
        return self._size


def run_kernel(step: TaskCall, chunk: int, *inputs: Any) -> Any:
    """One kernel on one chunk. Returns its only output, or all of them as a tuple."""
    with _naming_task(step.label, chunk):
        backend = _backend(step)
        arguments = _arguments(backend, step, inputs)
        backend.kernel(step.kernel)(*arguments)
        outputs = tuple(
            float(backend.to_host(value)[0]) if argument.is_number else value
            for argument, value in zip(step.arguments[step.first_output :], arguments[step.first_output :], strict=True)
        )
        # The task that reads an output may run in another thread, which need not share this one's stream.
        backend.synchronize()
        return outputs[0] if len(outputs) == 1 else outputs


def build(step: TaskCall, make: Callable[..., Any], chunk: int, *inputs: Any) -> Built:
    """The result of make(backend, chunk, *items)."""
    with _naming_task(step.label, chunk):
        backend = _backend(step)
        built = Built(make(backend, chunk, *_arguments(backend, step, inputs)))
        backend.synchronize()
        return built


def pack_halo(step: TaskCall, chunk: int, *inputs: Any) -> tuple[Any, tuple[tuple[int, int, int], ...]]:
    """The values that all neighbors read of a chunk, and the range of each neighbor: (neighbor, first, last)."""
    with _naming_task(step.label, chunk):
        backend = _backend(step)
        plan, x = _arguments(backend, step, inputs)
        buffer = backend.zeros(len(plan.send_rows))
        backend.kernel(step.kernel)(plan, x, buffer)
        backend.synchronize()
        return buffer, plan.sends


def unpack_halo(step: TaskCall, senders: Sequence[int], chunk: int, *inputs: Any) -> Any:
    """The halo vector of a chunk, from what each of the senders has packed."""
    with _naming_task(step.label, chunk):
        backend = _backend(step)
        (plan,) = _arguments(backend, step, inputs)
        packed = dict(zip(senders, inputs[1:], strict=True))
        halo = backend.zeros(plan.size)
        for sender, to, end in plan.receives:
            buffer, sends = packed[sender]
            first, last = next((first, last) for number, first, last in sends if number == chunk)
            halo[to:end] = backend.asarray(buffer[first:last])
        backend.synchronize()
        return halo


def message_to(receiver: int, path: Path, made: Built) -> Any:
    """The message for a chunk, so that the others need not travel there; None where there is none."""
    return part_of(made.item, path).get(receiver)


def delivered(step: TaskCall, senders: Sequence[int], kinds: Sequence[str], *messages: Any) -> Built:
    """The messages of some senders, on the device, of those that have one."""
    xp = _backend(step).xp
    found = {
        sender: tuple(xp.asarray(part, dtype=kind) for part, kind in zip(message, kinds, strict=True))
        for sender, message in zip(senders, messages, strict=True)
        if message is not None
    }
    return Built(found)


def pick(path: Path, value: Any) -> Any:
    """A part of another task's result, so that the rest of it need not travel."""
    return part_of(value, path)


def add_parts(paths: Sequence[Path], *values: Any) -> float:
    """The sum of one node of the tree: at most `FAN_IN` parts in order, each a float in another task's result."""
    return float(reduce(add, (part_of(value, path) for path, value in zip(paths, values, strict=True))))


def unload_block(step: TaskCall, chunk: int, *inputs: Any) -> Any:
    """A vector as a block of values, shape (nx, ny, nz)."""
    with _naming_task(step.label, chunk):
        backend = _backend(step)
        block = backend.vectors.unload(*_arguments(backend, step, inputs))
        backend.synchronize()
        return block


def block_on_host(block: Any) -> Any:
    """A block as a NumPy array."""
    return load("cuda").to_host(block) if hasattr(block, "get") else block


def fetch_object(step: TaskCall, chunk: int, *inputs: Any) -> Any:
    """An object that was built for a chunk, for the client."""
    with _naming_task(step.label, chunk):
        (found,) = _arguments(_backend(step), step, inputs)
        return found


Renaming = Mapping[str, Sequence[tuple[Any, Path, Any]]]
"""(old key, path into its value, new key) of each result, by worker address."""


async def adopt(renaming: Renaming, dask_worker: Any) -> dict[Any, int]:
    """Hold results under new keys that come from no task, as scattered data does. Returns their sizes.

    Runs in the worker's event loop. Copies nothing; a result that is elsewhere is left out.
    """
    data = {
        new: part_of(dask_worker.data[old], path)
        for old, path, new in renaming[dask_worker.address]
        if old in dask_worker.data
    }
    return dask_worker.update_data(data=data)["nbytes"]


def host_bytes(item: Any) -> int:
    """Size of the NumPy arrays (not of devices) in nested tuples, dictionaries and dataclasses."""
    if isinstance(item, np.ndarray):
        return int(item.nbytes)
    if isinstance(item, tuple | list):
        return sum(map(host_bytes, item))
    if isinstance(item, Mapping):
        return sum(map(host_bytes, item.values()))
    if is_dataclass(item) and not isinstance(item, type):
        return sum(host_bytes(getattr(item, field.name)) for field in fields(item))
    return 0


def _backend(step: TaskCall) -> Backend:
    # One thread: the chunks of a worker share its threads, each task on one of them.
    return load(step.kernels, 1, step.dtype)


def _arguments(backend: Backend, step: TaskCall, inputs: Sequence[Any]) -> list[Any]:
    return [_argument(backend, argument, inputs) for argument in step.arguments]


def _argument(backend: Backend, argument: Argument, inputs: Sequence[Any]) -> Any:
    make, source, path, dtype = argument
    if make is Make.LITERAL:
        return source
    if make is Make.CONSTANT:
        return backend.asarray([source])
    value = inputs[int(source)]
    value = part_of(value.item if isinstance(value, Built) else value, path)
    match make:
        case Make.COPY:
            return value.copy()
        case Make.BLOCK:
            check_block(value)
            return backend.asarray(value)
        case Make.ZEROS:
            return backend.zeros(value.size, dtype)
        case Make.NUMBER:
            return backend.asarray([value])
    return value


@contextmanager
def _naming_task(label: str, chunk: int) -> Iterator[None]:
    """Note in an exception which task raised it. A note survives the way to the client; a cause would not."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{label} of chunk {chunk}")
        raise
