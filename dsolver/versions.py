"""Which versions of what are installed."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

CUPY: Final = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
"""The names under which CuPy is distributed."""

PACKAGES: Final[dict[str, tuple[str, ...]]] = {
    "dsolver": ("dsolver",),
    "numpy": ("numpy",),
    "numba": ("numba",),
    "dask": ("dask",),
    "distributed": ("distributed",),
    "cupy": CUPY,
    "dask-cuda": ("dask-cuda",),
}


def installed() -> dict[str, str | None]:
    """Version of Python and of each package that matters here; None where it is not installed."""
    return {"python": platform.python_version()} | {name: _first(names) for name, names in PACKAGES.items()}


def _first(names: tuple[str, ...]) -> str | None:
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    if names == ("dsolver",):  # run from a checkout that is not installed
        import dsolver

        return getattr(dsolver, "__version__", None)
    return None
