"""Steps recorded as the calls that they made, and called again: on a CPU what CUDA graphs are on a GPU."""

from collections.abc import Callable, Sequence
from typing import Any

from dsolver.engines.repetition import Step, parts_of

Calls = list[tuple[Callable[..., None], Sequence[Any]]]


class CallRecorder:
    """Functions of arrays that an engine calls, and those of steps that it repeats, until it forgets them.

    Behind a loop over much memory a processor has to fetch Python's way to the next one anew: 22 us for each of 430
    loops of a solve of 64³ rows, 16 if they are called at once.
    """

    def __init__(self) -> None:
        self._steps: dict[Step, Calls] = {}
        self._current: Calls | None = None

    def call(self, function: Callable[..., None], *operands: Any) -> None:
        """Call a function, and keep that where a step is recorded."""
        function(*operands)
        if self._current is not None:
            self._current.append((function, operands))

    def run(self, step: Step) -> None:
        """Run a step: from the second time on the functions alone that it has called, part by part."""
        for part in parts_of(step):
            if self._current is not None:  # a part of one that is being recorded
                part()
            elif part not in self._steps:
                self._steps[part] = self._recorded(part)
            else:
                for function, operands in self._steps[part]:
                    function(*operands)

    def forget(self) -> None:
        """Drop the steps, and all that they work on."""
        self._steps.clear()

    def _recorded(self, step: Step) -> Calls:
        """Run a step; the calls that it has made."""
        calls = self._current = []
        try:
            step()
        finally:
            self._current = None
        return calls
