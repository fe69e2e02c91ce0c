"""Versions of installed packages, and whether client and workers agree."""

import platform
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final

CUPY: Final = ("cupy-cuda13x", "cupy-cuda12x", "cupy")  # the names under which CuPy is distributed

NCCL: Final = ("nvidia-nccl-cu13", "nvidia-nccl-cu12")

PACKAGES: Final[dict[str, tuple[str, ...]]] = {
    "numpy": ("numpy",),
    "numba": ("numba",),
    "dask": ("dask",),
    "distributed": ("distributed",),
    "cupy": CUPY,
    "dask-cuda": ("dask-cuda",),
    "nccl": NCCL,
}

MUST_AGREE: Final = ("dsolver", "dask", "distributed")
"""Packages that client and workers must have in the same version: they send each other their objects."""
MUST_AGREE_ON_GPUS: Final = ("cupy", "nccl")
"""Packages that GPU workers must have in the same version, and the client if it has them at all."""


def installed() -> dict[str, str | None]:
    """Version of Python and of each package that matters here; None where it is not installed."""
    dsolver = sys.modules["dsolver"].__version__  # of the code that runs, installed or not
    return {"dsolver": dsolver, "python": platform.python_version()} | {
        name: _first(names) for name, names in PACKAGES.items()
    }


def disagreement(
    here: Mapping[str, str | None], there: Mapping[str, Mapping[str, str | None]], *, gpus: bool
) -> str | None:
    """The difference of versions, `here` and by worker `there`, that prevents a program on these workers, or None."""
    first = next(iter(there), "")
    for name in MUST_AGREE + (MUST_AGREE_ON_GPUS if gpus else ()):
        known, holder = here.get(name), "this process"
        if known is None and first:  # a client without CuPy can use GPU workers; they must agree among themselves
            known, holder = there[first].get(name), f"worker {first}"
        for address, found in there.items():
            if found.get(name) != known:
                return (
                    f"{holder} has {name} {known or '(none)'} and worker {address} {found.get(name) or '(none)'}: "
                    f"install the same version on all machines"
                )
    return None


@cache
def _first(names: tuple[str, ...]) -> str | None:
    """Version of the first of these packages that is there, which is looked for on disk: for 5 to 40 ms of all."""
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None
