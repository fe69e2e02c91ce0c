"""Running programs: what a client holds of a program that was started, wherever its ranks are.

A command is a function of the program and of other arguments, `Solve.solution` for one. It is sent by reference, so
type checkers see a call as what it is.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import numpy as np

from dsolver.engines.base import Engine
from dsolver.engines.out_of_memory import clear_frames, free_unused, is_out_of_memory, out_of_memory_error
from dsolver.errors import DeviceMemoryError, DsolverError, RankError
from dsolver.grid.partition import Partition
from dsolver.kernels.cpu.loops.copying import HostRoom
from dsolver.monitor.spans import Span

P_co = TypeVar("P_co", covariant=True)
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")

Blocks = Mapping[int, Any]  # blocks by chunk number: arrays of the chunk's shape, or Dask futures of such
Taking = Callable[Concatenate[P_co, Blocks, Q], R]  # a command that takes blocks
Exchanging = Callable[Concatenate[P_co, Blocks, Q], tuple[R, Blocks | None]]  # and gives some


class PartsOfArray(Mapping[int, Any]):
    """Blocks by chunk number that are parts of one array of the grid, of NumPy; `room`: made ready for it."""

    def __init__(self, partition: Partition, dtype: np.dtype[Any], room: HostRoom | None = None) -> None:
        whole = None if room is None else room.taken(partition.grid, dtype)
        self.whole = np.empty(partition.grid, dtype) if whole is None else whole
        self._partition = partition

    def __getitem__(self, number: int) -> Any:
        return self.whole[self._partition[number].box.slices]

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._partition)))

    def __len__(self) -> int:
        return len(self._partition)


class RunningProgram(ABC, Generic[P_co]):
    """A program that was started, one instance on every rank."""

    link: str = ""  # for people, what carries values between its ranks; empty where there is one, or none
    stride: float = 0.002  # seconds of iterations that a call should be worth: here it takes 20 us of Python

    @property
    def ended(self) -> bool:
        """Whether it was closed, or a failure or an interrupt has ended it: start a new one."""
        return False

    @abstractmethod
    def call(self, command: Callable[Concatenate[P_co, Q], R], *args: Q.args, **named: Q.kwargs) -> R:
        """Result of command(program, ...), which runs on every rank at the same time and is equal on all of them."""

    @abstractmethod
    def load(self, name: str, blocks: Blocks, command: Taking[P_co, Q, R], *args: Q.args, **named: Q.kwargs) -> R:
        """Result of command(program, blocks, ...), where ranks get their chunks' blocks; name: for messages."""

    def bring(self, name: str, blocks: Blocks, command: Taking[P_co, Q, Any], *args: Q.args, **named: Q.kwargs) -> None:
        """`load` without a result: ranks may do it with what they are called for next, which then raises its errors."""
        self.load(name, blocks, command, *args, **named)

    def settle(self) -> None:
        """Have ranks do what they may do with a later call, their start, too."""

    @abstractmethod
    def unload(self, command: Callable[Concatenate[P_co, Q], Blocks], *args: Q.args, **named: Q.kwargs) -> Blocks:
        """All blocks that command(program, ...) returns: arrays, or Dask futures of arrays on the chunk's owner."""

    def fetch(self, command: Callable[Concatenate[P_co, Q], Blocks], *args: Q.args, **named: Q.kwargs) -> Blocks:
        """`unload` of NumPy arrays that are wanted in this process: of float64, in the shape of their chunks."""
        return self.unload(command, *args, **named)

    def fetch_each(self, command: Callable[..., Blocks], options: Sequence[Mapping[str, Any]]) -> list[Blocks]:
        """`fetch` with each of several options, in one call where ranks lend what they make."""
        return [self.fetch(command, **each) for each in options]

    @abstractmethod
    def exchange(
        self, name: str, blocks: Blocks, here: bool, command: Exchanging[P_co, Q, R], *args: Q.args, **named: Q.kwargs
    ) -> tuple[R, Blocks | None]:
        """`load`, where the command also returns blocks as those of `unload`, on every rank or on none.

        here: whether these blocks are NumPy arrays, and wanted in this process: futures of them need not be made.
        """

    def spans(self) -> list[Span]:
        """Spans that the calls since the last time have measured, on all ranks."""
        return []

    @abstractmethod
    def close(self) -> None:
        """End the program and give its memory back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LocalProgram(RunningProgram[P_co]):
    """A program in this process."""

    def __init__(self, engine: Engine, program: Callable[[Engine, S], P_co], spec: S) -> None:
        self._engine = engine
        self._program: P_co | None = None
        self._program = self._run(lambda: program(engine, spec))

    @property
    def ended(self) -> bool:
        return self._program is None or self._engine.ended

    def call(self, command: Callable[Concatenate[P_co, Q], R], *args: Q.args, **named: Q.kwargs) -> R:
        return self._run(lambda: command(self._there(), *args, **named))

    def load(self, name: str, blocks: Blocks, command: Taking[P_co, Q, R], *args: Q.args, **named: Q.kwargs) -> R:
        return self.call(command, blocks, *args, **named)

    def unload(self, command: Callable[Concatenate[P_co, Q], Blocks], *args: Q.args, **named: Q.kwargs) -> Blocks:
        return self.call(command, *args, **named)

    def exchange(
        self, name: str, blocks: Blocks, here: bool, command: Exchanging[P_co, Q, R], *args: Q.args, **named: Q.kwargs
    ) -> tuple[R, Blocks | None]:
        return self.call(command, blocks, *args, **named)

    def spans(self) -> list[Span]:
        return self._engine.spans()

    def close(self) -> None:
        self._program = None
        self._engine.close()

    def __del__(self) -> None:
        """End of one that was not closed: recorded steps keep the program, whose engine keeps them; one has to let go.

        Without this they wait for Python's collector, to which a vector on a GPU is a hundred bytes.
        """
        if not sys.is_finalizing():  # modules are gone then
            self._engine.forget()

    def _there(self) -> P_co:
        """The program, which nothing else must hold: its memory is given back where it runs out."""
        if self._program is None:
            raise RankError("this program has ended: start a new one")
        return self._program

    def _run(self, work: Callable[[], R]) -> R:
        """Result of work in the engine's scope; DeviceMemoryError ends the program: the next one needs the memory.

        So does what may come in the middle of a step, as an interrupt: it leaves half of an exchange or of a sum.
        """
        try:
            with self._engine.scope():
                return work()
        except BaseException as error:
            if not (isinstance(error, DeviceMemoryError) or is_out_of_memory(error)):
                if not isinstance(error, DsolverError):
                    self.close()
                raise
            raised = error if isinstance(error, DeviceMemoryError) else out_of_memory_error(error)
            self.close()
            clear_frames(error)  # no context manager here: it would hold the frames, whose functions close over arrays
            free_unused()
            raise raised from None
