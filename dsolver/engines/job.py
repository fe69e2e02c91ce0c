"""A program that was started, wherever it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar, final

from dsolver.engines.base import Engine
from dsolver.engines.shortage import give_back, is_shortage, let_go, shortage
from dsolver.errors import DeviceMemoryError, RankError
from dsolver.monitor.spans import Span

T = TypeVar("T")


class Job(ABC):
    """A program that was started. Its methods are called by name; see `dsolver.programs`.

    Attributes:
        link: for people, what carries values between its ranks; empty where there is one, or none.
        stride: seconds of iterations that a call should be worth: 0 where calls cost nothing.
    """

    link: str = ""
    stride: float = 0.0

    @property
    def ended(self) -> bool:
        """Whether it was closed, or a failure or an interrupt has ended it: start a new one."""
        return False

    @abstractmethod
    def call(self, method: str, *args: Any) -> Any:
        """Run a method of the program, on every rank at the same time, and return its result."""

    def spans(self) -> list[Span]:
        """What the calls since the last time have measured, on all ranks."""
        return []

    @abstractmethod
    def load(self, name: str, blocks: Mapping[int, Any], *then: Any) -> Any:
        """Set a field from blocks by chunk number: arrays of the chunk's shape, or Dask futures of such.

        Args:
            name: of the field.
            blocks: of all chunks.
            then: what is called as soon as they are there, in the same message: a method's name and its arguments.

        Returns:
            What that has returned.
        """

    @abstractmethod
    def unload(self, name: str, *first: Any, host: bool = False) -> Mapping[int, Any]:
        """A field as blocks by chunk number: arrays, or Dask futures of arrays on the chunk's owner.

        Args:
            name: of the field.
            first: what is called before, in the same message: a method's name and its arguments.
            host: NumPy arrays are wanted, not the device's.
        """

    @abstractmethod
    def close(self) -> None:
        """End the program and give its memory back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@final
class LocalJob(Job):
    """A program whose methods run in this process."""

    def __init__(self, engine: Engine, program: Callable[[Engine, Any], Any], spec: Any) -> None:
        self._engine = engine
        self._program: Any = None
        self._program = self._run(lambda: program(engine, spec))

    @property
    def ended(self) -> bool:
        return self._program is None or self._engine.ended

    def call(self, method: str, *args: Any) -> Any:
        if self._program is None:
            raise RankError("this job has ended: start a new one")
        return self._run(lambda: getattr(self._program, method)(*args))

    def spans(self) -> list[Span]:
        return self._engine.spans()

    def load(self, name: str, blocks: Mapping[int, Any], *then: Any) -> Any:
        self.call("load", name, blocks)
        return self.call(*then) if then else None

    def unload(self, name: str, *first: Any, host: bool = False) -> Mapping[int, Any]:
        if first:
            self.call(*first)
        blocks: Mapping[int, Any] = self.call("unload", name)
        return {number: on_host(block) for number, block in blocks.items()} if host else blocks

    def close(self) -> None:
        self._program = None
        self._engine.close()

    def __del__(self) -> None:
        """Nobody has closed it: recorded steps keep the program, whose engine keeps them, so one of them has to let go.

        Without this they wait for Python's collector, to which a vector on a GPU is a hundred bytes.
        """
        self._engine.forget()

    def _run(self, work: Callable[[], T]) -> T:
        """Where the engine runs. A GPU that is short of memory ends the program: the next one needs what it holds.

        Raises:
            DeviceMemoryError: the memory of the GPU has run out.
        """
        try:
            with self._engine.scope():
                return work()
        except Exception as error:
            if not (isinstance(error, DeviceMemoryError) or is_shortage(error)):
                raise
            told = error if isinstance(error, DeviceMemoryError) else shortage(error)
            self.close()
            let_go(error)  # no context manager here: it would hold the frames, whose functions close over arrays
            give_back()
            raise told from None


def on_host(block: Any) -> Any:
    """A block as a NumPy array; of a Dask future, the future of that, made where the block is."""
    if hasattr(block, "key"):
        return block.client.submit(on_host, block)
    return block.get() if hasattr(block, "get") else block
