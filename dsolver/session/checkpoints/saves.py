"""Saves in the folder of a Zarr store."""

import importlib
import json
import math
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from dsolver.errors import of_extra
from dsolver.folders import entries, new_file, opened, path_of, remove
from dsolver.grid.box import Triple
from dsolver.grid.partition import Partition

INDEX: Final = "saves.json"
NEW: Final = f".{INDEX}.new"
KEPT: Final = 2  # saves that stay
LARGEST: Final = 1 << 16  # bytes of an index or of the description of an array, at most
NAME: Final = re.compile(r"x-[0-9]{1,18}")  # names of saves
COLUMN: Final = re.compile(r"column-[0-9]{1,18}")  # names of the folders of several right-hand sides, each a store
CODECS: Final = {"BytesCodec", "Crc32cCodec"}
"""Codecs that a save is written with. Others could unpack to any size, or run what they find."""


@dataclass(frozen=True, kw_only=True)
class Saved:
    """One iterate of a store."""

    array: str  # its name in the store
    grid: Triple  # points along x, y, z
    iteration: int  # how many iterations had been made
    residual: float  # ‖b - A x‖₂ by the recursion
    b_norm: float  # ‖b‖₂ of the system that it belongs to

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.array):  # one that lies elsewhere would be read, and in time removed
            raise ValueError(f"{self.array!r} is no name of a save")
        numbers: tuple[object, ...] = (self.iteration, self.residual, self.b_norm)  # mypy believes annotations
        if not all(isinstance(number, int | float) for number in numbers):
            raise TypeError("iteration or norms of a save are no numbers")


def may_be_there(path: Path) -> bool:
    """Whether what lies in a folder tells nothing against a store."""
    return path.name == NEW or (path.is_dir() and COLUMN.fullmatch(path.name) is not None)


def keep(saves: list[Saved], folder: int) -> None:
    """Remove all saves but these, such as one that a crash has broken off."""
    for name in os.listdir(folder):
        if NAME.fullmatch(name) and name not in {saved.array for saved in saves}:
            remove(name, folder)


def write(saved: Saved, partition: Partition, blocks: Mapping[int, Any], folder: int, dtype: str) -> None:
    """Write the array of a save, block after block, into the open folder of the store."""
    codecs = importlib.import_module("zarr.codecs")
    os.mkdir(saved.array, dir_fd=folder)
    with opened(saved.array, folder) as array:
        target = load_zarr().create_array(
            str(path_of(array)),
            shape=partition.grid,
            chunks=tuple(max(extents) for extents in partition.sizes),
            dtype=dtype,
            fill_value=math.nan,  # what zarr reads where a chunk's file is missing
            compressors=[codecs.Crc32cCodec()],  # iterates hardly compress; what matters is to notice damage
        )
        for chunk in partition:
            target[chunk.box.slices] = blocks[chunk.number]


def commit(saves: list[Saved], folder: int) -> None:
    """Put an index of these saves in the place of the one before, at once."""
    with new_file(NEW, folder) as file:
        file.write(json.dumps([asdict(saved) for saved in saves]).encode())
        file.flush()
        os.fsync(file.fileno())
    os.replace(NEW, INDEX, src_dir_fd=folder, dst_dir_fd=folder)


def read(array: int, grid: Triple, dtype: str) -> np.ndarray[Any, np.dtype[Any]]:
    """The iterate in the open folder of a save. ValueError: no save has written it, or a chunk is missing."""
    sizes = _sizes(array)
    if any(size > LARGEST for name, size in sizes.items() if "/" not in name):
        raise ValueError("its description is too long")
    stored = load_zarr().open_array(str(path_of(array)), mode="r", zarr_format=3)
    codecs = {type(codec).__name__ for codec in stored.metadata.codecs}
    if stored.shape != grid or stored.dtype != dtype or not codecs or not codecs <= CODECS:
        raise ValueError(f"it is an array {stored.shape} of {stored.dtype} with {sorted(codecs)}, which is no save")
    chunks, found = math.prod(stored.cdata_shape), [size for name, size in sizes.items() if "/" in name]
    if len(found) < chunks:  # each chunk is dear, even one that is missing
        raise ValueError(f"{chunks - len(found)} of {chunks} chunks are missing")
    if max(found) > np.dtype(dtype).itemsize * math.prod(grid) + LARGEST:
        raise ValueError("a chunk is larger than the grid")
    values = np.asarray(stored[...])
    missing = int(np.isnan(values).sum())
    if missing:
        raise ValueError(f"{missing} of {values.size} values are missing")
    return values


def _sizes(array: int) -> dict[str, int]:
    """Bytes of the files in a save's open folder, by name. ValueError: there is a link, or no file and no folder."""
    sizes = {}
    for name, found in entries(array):
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise ValueError(f"{name} is no plain file")
        if stat.S_ISREG(found.st_mode):
            sizes[name] = found.st_size
    return sizes


def load_zarr() -> Any:
    """The zarr package. InputError: it is not installed."""
    return of_extra("zarr", "zarr", "zarr is not installed")
