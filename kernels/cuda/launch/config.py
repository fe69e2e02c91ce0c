"""Launch configuration of a device: how matrix passes are cut into launches and blocks. It changes no bit of a result.

Defaults follow from the device's properties and fractions that were measured on an H200. `tuning.tune` measures on the
device at hand instead, when a user asks for it, and keeps what it finds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any

from dsolver.kernels import device_cache

MOST_WARPS = {8: 4, 4: 8}
"""Most warps of a block that multiplies, by bytes of a value: the kernels' launch bounds (`WIDEST` in slices.cuh). Of
doubles, sweeps with 8 were 3 % slower on an H200, with 16 10 %; of floats, 8 made a V-cycle 0.6 % faster."""


CACHED_SLABS = {8: 2, 4: 1}
"""Slabs of a large level whose x fits in L2, by bytes of a value. Launches of one chain start early, and of floats all
entries are then on their way before the launch before is over: a float32 V-cycle from 128³ on took 0.311 ms with one
slab on an H200, and 0.346 with two."""


MIXED_SHARES = {8: 0.0, 4: 0.47}
"""Parts of L2 for x that mixed launches still need, by bytes of a value. Of floats, both smoothers of 256³ took 4 to
5 % less with mixed launches on an H200; of doubles the pre-smoother took as long, the post-smoother 1.5 % longer."""


@dataclass(frozen=True, kw_only=True)
class LaunchConfig:
    """Launch configuration of passes over a matrix.

    Attributes:
        warps: most warps of a block that multiplies, one slice each: 1, 2, 4 or, of float32, 8.
        narrow: whether colors with hardly any entries are swept by kernels of their own.
        slab_share: share of L2 that x of one slab takes where x of a level does not fit there.
        cached_slabs: slabs of a large level whose x does fit.
        flow: whether the half sweeps of a small level are one launch.
        mixed_share: share of L2 that x takes between the first and the last color of a slab where launches have slices
            of all colors (mixed_colors.py); 0 where they have one color.
    """

    warps: int
    narrow: bool = True
    slab_share: float = 0.27
    cached_slabs: int = 2
    flow: bool = True
    mixed_share: float = 0.0

    def __post_init__(self) -> None:
        for field, kind in zip(fields(self), (int, bool, float, int, bool, float), strict=True):
            if type(getattr(self, field.name)) is not kind:
                raise ValueError(f"{field.name} is no {kind.__name__}: {getattr(self, field.name)!r}")
        if self.warps not in (1, 2, 4, 8):
            raise ValueError(f"there are no kernels for {self}")
        if not (0.0 < self.slab_share <= 4.0 and 1 <= self.cached_slabs <= 64 and 0.0 <= self.mixed_share <= 4.0):
            raise ValueError(f"no sweep can be cut like {self}")


def default(itemsize: int) -> LaunchConfig:
    """The configuration without measurements, for values of so many bytes."""
    return LaunchConfig(
        warps=MOST_WARPS[itemsize], cached_slabs=CACHED_SLABS[itemsize], mixed_share=MIXED_SHARES[itemsize]
    )


def chosen(itemsize: int) -> LaunchConfig:
    """The configuration of the current device, for values of so many bytes."""
    if itemsize in _forced:
        return _forced[itemsize]
    import cupy

    return _of_device(int(cupy.cuda.runtime.getDevice()), itemsize)


@cache
def _of_device(device: int, itemsize: int) -> LaunchConfig:
    from dsolver.kernels.cuda.launch import probe

    return kept(device_cache.read(probe.model(device)), itemsize) or default(itemsize)


def kept(known: Mapping[str, Any], itemsize: int) -> LaunchConfig | None:
    """The configuration for values of some bytes among what `device_cache.read` gave; None if there is none."""
    entry = known.get(name_of(itemsize))
    if not isinstance(entry, dict) or entry.get("kernels") != fingerprint():
        return None
    try:
        choice = LaunchConfig(**entry["choice"])
    except (KeyError, TypeError, ValueError):
        return None
    return choice if choice.warps <= MOST_WARPS[itemsize] else None


def keep(model: device_cache.Model, itemsize: int, choice: LaunchConfig) -> bool:
    """Keep a configuration on disk, for these kernels and for this process from now on; whether that could be done."""
    path = device_cache.keep(model, name_of(itemsize), {"kernels": fingerprint(), "choice": asdict(choice)})
    _of_device.cache_clear()
    return path is not None


def name_of(itemsize: int) -> str:
    """Name in the device cache of the configuration for values of so many bytes."""
    return f"choice of {itemsize} bytes"


@cache
def fingerprint() -> str:
    """Hash of the kernels' sources: other kernels are another measurement."""
    from dsolver.kernels.cuda.launch.loader import all_sources, source

    return hashlib.sha256("".join(source(file) for file in all_sources()).encode()).hexdigest()[:16]


@contextmanager
def using(itemsize: int, choice: LaunchConfig) -> Iterator[None]:
    """Context in which all matrices made in this process get this configuration."""
    before = _forced.get(itemsize)
    _forced[itemsize] = choice
    try:
        yield
    finally:
        del _forced[itemsize]
        if before is not None:
            _forced[itemsize] = before


_forced: dict[int, LaunchConfig] = {}
