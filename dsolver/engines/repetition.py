"""Steps that an engine repeats."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

Step = Callable[[], None]
Samples = list[tuple[float, ...]]  # values of scalars after each of some steps


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """Options of `Engine.repeat`."""

    measured: bool = False  # the last step is measured; see `Engine.spans`. An engine may need a repetition before.
    ready: bool = False  # nothing is made when the step runs for the first time, so that it may be recorded before
    # what is run behind some steps, by how many these are.
    between: Mapping[int, Step] = field(default_factory=dict)


PLAIN: Final = Repetition()


@dataclass(frozen=True)
class StepInParts:
    """A step for `Engine.repeat` in parts, of which an engine may record each by itself.

    What several steps have in common is then recorded once. A part is known again by its equality, as a bound method
    is.
    """

    parts: tuple[Step, ...]

    def __call__(self) -> None:
        """Run it."""
        for part in self.parts:
            part()


def parts_of(step: Step) -> tuple[Step, ...]:
    """Parts of a step that are recorded, each by itself."""
    return step.parts if isinstance(step, StepInParts) else (step,)
