"""Compilation of kernels with numba; machine code is kept where every process of the user finds it."""

import functools
import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import numba
from numba.core import event

from dsolver.kernels.cpu.loops.first_use import FirstUse
from dsolver.kernels.cpu.loops.shared_cache import SharedCache

logger = logging.getLogger(__name__)
config: Any = numba.config  # its attributes are made when it is imported
njit: Any = numba.njit  # whose types do not have all of its options
COMPILED: Final = ("amg", "colorings", "cpu", "direct", "formats", "lattice")
"""Folders with functions that numba compiles, and with the types that these are compiled for."""
F = TypeVar("F", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[F], F]:
    """njit(nogil=True, cache=True, **options), with the cache outside of the package, see `shared_cache`.

    numba would put it beside the source. What it leaves there an uninstallation does not remove, and a folder
    `site-packages/dsolver` without `__init__.py` hides an editable installation. NUMBA_CACHE_DIR is obeyed. Where no
    folder can be written, as for a container's user without a home or on a full disk, every process compiles anew, and
    says so.
    """

    def decorate(function: F) -> F:
        before = config.CACHE_DIR
        config.CACHE_DIR = before or _cache()  # read while the function is decorated, and then no more
        try:
            return _kept(function, **options)
        finally:
            config.CACHE_DIR = before

    return decorate


def inlined(**options: Any) -> Callable[[F], F]:
    """njit for a function that LLVM copies into each compiled one that calls it.

    It is typed and lowered once in a process. With numba's inline="always" that is done for each call, which took half
    of the time of loops that share a large part. Options such as `fastmath` are its own, not those of its callers.
    Python cannot call it: that would be compiled, too.
    """
    made: Callable[[F], F] = njit(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)
    return made


def _kept(function: F, **options: Any) -> F:
    kept: Any = njit(nogil=True, no_cfunc_wrapper=True, **options)(function)  # C calls none
    try:
        kept._cache = SharedCache(function, FIRST_USE.waiting)  # as cache=True does, with numba's own
    except RuntimeError:  # numba's, which has found no folder
        _tell(config.CACHE_DIR)
    made: F = kept
    return made


@functools.cache
def _tell(folder: str) -> None:
    logger.warning(
        "kernels are compiled anew in every process, which takes up to half a minute, for %s cannot be written: name "
        "a folder in NUMBA_CACHE_DIR",
        folder or "a folder for caches",
    )


@functools.cache
def _cache() -> str:
    """The folder; empty, which leaves it to numba, where the user has no home.

    It is named after the sources: numba looks whether a kernel's own file has changed, not whether one that it calls
    has, and cannot read an index that names a class which is no more.
    """
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return ""
    return str(caches / "dsolver" / "numba" / digest(Path(__file__).parents[2]))


def digest(folder: Path) -> str:
    """16 hexadecimal digits that follow from the Python sources, in the folder of all kernels, that may be compiled."""
    found = hashlib.sha256()
    for name in COMPILED:
        for path in sorted((folder / name).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


FIRST_USE: Final = FirstUse(config.CACHE_DIR or _cache())
event.register("numba:compile", FIRST_USE)
FIRST_USE.begin()
