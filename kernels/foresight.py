"""Foresight: set-up goes on with expected answers, which are checked at its end; see `Backend.foreseeing`."""

from collections.abc import Callable, Mapping, Sequence

Agree = Callable[[Mapping[int, Sequence[float]]], Sequence[Sequence[float]]]
"""Numbers of all chunks, equally many of each, from those of the chunks of this rank: every rank asks for it."""


class UnforeseenError(Exception):
    """A set-up went on with an answer that was wrong: all that it has made is void, and it is to begin again."""


class Foresight:
    """Answers that a set-up goes on with. Here, and on devices that need not be waited for, they are never wrong."""

    def confirm(self) -> None:
        """Wait until all that was enqueued is there, and foresee nothing from now on. Raises UnforeseenError."""
