"""The `resident` engine: the program runs next to its data, with CUDA graphs on a GPU."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from dsolver import kernels as backends
from dsolver.engines.base import Field, PerChunk, Scalar
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.eager.handles import EagerPerChunk
from dsolver.engines.eager.timing import NO_TIMER
from dsolver.engines.repetition import PLAIN, Repetition, Samples, Step
from dsolver.engines.transport.base import Transport
from dsolver.grid.partition import Partition

if TYPE_CHECKING:
    from dsolver.engines.eager.cuda_graph import GraphRecorder


class ResidentEngine(EagerEngine):
    """The engine of one rank.

    On a CPU every operation runs at once. On a GPU every operation is enqueued on one stream, and a repeated step is
    recorded as a CUDA graph and replayed.
    """

    def __init__(
        self,
        partition: Partition,
        kernels: str,
        *,
        threads: int = 1,
        owned: Sequence[int] | None = None,  # the chunks of this rank; all by default
        transport: Transport | None = None,  # how to reach the other ranks; by default there are none
        hosts: Sequence[int] | None = None,  # the first chunk of every rank; by default this one's alone
    ) -> None:
        super().__init__(partition, backends.load(kernels, threads if kernels == "cpu" else 1), owned, transport, hosts)
        self._recorder = _recorder(self.transport) if kernels == "cuda" else None
        self._rooms: dict[int, Any] = {}

    def record(self, step: Step) -> None:
        if self._recorder is not None:
            self._recorder.record(step)

    def repeat(self, step: Step, times: int, watch: Sequence[Scalar], how: Repetition = PLAIN) -> Samples:
        if self._recorder is None:
            return super().repeat(step, times, watch, how)
        self.transport.check()  # waits may all be too short to look
        if how.measured:
            self._recorder.instrument(step, self._timed_by)
        samples = self._recorder.repeat(step, times, self.arrays_of(watch), how)
        self._timer_slot.spans = self._recorder.spans(step) if how.measured else []
        return samples

    def replay(self, step: Step) -> None:
        if self._recorder is None or self.timer is not NO_TIMER:  # what was recorded has no spans
            super().replay(step)
        else:
            self._recorder.replay(step)

    def forget(self) -> None:
        super().forget()
        if self._recorder is not None:
            self._recorder.forget()

    def read(self, *scalars: Scalar) -> tuple[float, ...]:
        if self._recorder is None:
            return super().read(*scalars)
        return self._recorder.read(self.arrays_of(scalars))

    def place(self, blocks: Mapping[int, Any]) -> EagerPerChunk:
        self._synchronize()  # rows of a matrix may have been made on another stream
        return super().place(blocks)

    def load(self, blocks: Mapping[int, Any], layout: PerChunk, out: Field) -> None:
        self._synchronize()  # the blocks may have been made on another stream
        super().load(blocks, layout, out)
        self._synchronize()  # and may free them as soon as this returns

    def unload(self, x: Field, layout: PerChunk) -> dict[int, Any]:
        blocks = super().unload(x, layout)
        self._synchronize()  # they are read on other streams
        return blocks

    def expect_on_host(self, dtype: str | None = None) -> None:
        kind, shapes = np.dtype(dtype or self.backend.dtype), {n: self.partition[n].box.shape for n in self.owned}
        self._rooms = {number: self.backend.host_room(shape, kind) for number, shape in shapes.items()}

    def on_host(self, blocks: Mapping[int, Any], room: Any = None) -> dict[int, Any]:
        rooms, self._rooms = self._rooms, {}
        return {number: self.backend.to_host(block, room or rooms.get(number)) for number, block in blocks.items()}

    def fetch(self, objects: PerChunk) -> dict[int, Any]:
        found = super().fetch(objects)
        self._synchronize()  # as for `unload`
        return found

    def scope(self) -> AbstractContextManager[Any]:
        return self._recorder.turn() if self._recorder is not None else nullcontext()

    def _synchronize(self) -> None:
        if self._recorder is not None:
            self._recorder.synchronize()

    def leave(self) -> None:
        """Release all but the transport."""
        # A view of another value type has the recorders, too. With the recordings it would keep the step, and that the
        # vectors and levels, which lead back to the view: they would not be freed before Python's collector.
        super().close()
        if self._recorder is not None:
            self._recorder.close()
        self._recorder, self._rooms = None, {}
        self.backend.give_back()

    def close(self) -> None:
        self.leave()
        self.transport.close()


def _recorder(transport: Transport) -> "GraphRecorder":
    from dsolver.engines.eager.cuda_graph import GraphRecorder

    return GraphRecorder(transport)
