"""Set-ups that go on with foreseen answers, and are made again where these are not so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dsolver.kernels.foresight import UnforeseenError

T = TypeVar("T")


def foreseen(make: Callable[[], T]) -> T:
    """The result of a set-up, of a second attempt if the first one has foreseen what is not so."""
    try:
        return make()
    except UnforeseenError:
        pass  # what it has made goes with the exception
    return make()
