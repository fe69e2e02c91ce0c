"""Compiles a kernel with numba and keeps the machine code where every process of the user finds it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import njit

config: Any = numba.config  # its attributes are made when it is imported
F = TypeVar("F", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[F], F]:
    """njit(nogil=True, cache=True, **options), with the cache outside of the package.

    numba would put it beside the source. What it leaves there an uninstallation does not remove, and a folder
    `site-packages/dsolver` without `__init__.py` hides an editable installation. NUMBA_CACHE_DIR is obeyed.
    """

    def decorate(function: F) -> F:
        before = config.CACHE_DIR
        config.CACHE_DIR = before or _cache()  # read while the function is decorated, and then no more
        try:
            made: F = njit(nogil=True, cache=True, **options)(function)
        finally:
            config.CACHE_DIR = before
        return made

    return decorate


def _cache() -> str:
    """The folder; empty, which leaves it to numba, where the user has no home."""
    try:
        return str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dsolver" / "numba")
    except RuntimeError:
        return ""
