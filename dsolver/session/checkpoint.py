"""Saves iterates of a running solve in a Zarr store, so that it can go on from there.

A save is an array of its own; it counts once a small file that names it has taken the place of the one before, which
a file system does at once or not at all. So a store holds a whole iterate after any crash. Every chunk of an array
carries a checksum, and the last save but one is kept: a damaged save is noticed, and the one before takes its place.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from dsolver.errors import InputError, in_a_line, installing
from dsolver.grid.partition import Partition, Triple

logger = logging.getLogger(__name__)

EVERY: Final = 30.0
"""Seconds between two saves, unless another time is asked for."""
_INDEX: Final = "saves.json"
_KEPT: Final = 2
_NAME: Final = re.compile(r"x-[0-9]{1,18}")
"""Names of saves."""
_CODECS: Final = {"BytesCodec", "Crc32cCodec"}
"""Codecs that a save is written with. Others could unpack to any size, or run what they find."""


@final
@dataclass(frozen=True, kw_only=True)
class Saved:
    """One iterate of a store.

    Attributes:
        array: its name in the store.
        grid: points along x, y, z.
        iteration: how many iterations had been made.
        residual: ‖b - A x‖₂ by the recursion.
        b_norm: ‖b‖₂ of the system that it belongs to.
    """

    array: str
    grid: Triple
    iteration: int
    residual: float
    b_norm: float

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.array):  # one that lies elsewhere would be read, and in time removed
            raise ValueError(f"{self.array!r} is no name of a save")


@final
class Checkpoint:
    """A store of iterates, and how often they are saved.

    The process that called `solve` writes it, block after block; workers need not see the file system.

    Args:
        path: a folder; made when the first iterate is saved. One that holds something else is refused.
        every: seconds between two saves; 0 saves after every superstep.

    Attributes:
        damaged: what `newest` passed over the last time that it was called, each save with the reason.

    Raises:
        InputError: path names no folder, every is no finite number >= 0, zarr is not installed, or the folder holds
            something else.
    """

    def __init__(self, path: str | os.PathLike[str], *, every: float = EVERY) -> None:
        folder: object = path  # mypy believes annotations
        seconds: object = every
        if not isinstance(folder, str | os.PathLike):
            raise InputError(f"a checkpoint is a folder, not {in_a_line(folder)}")
        if not (isinstance(seconds, int | float | np.number) and math.isfinite(seconds) and seconds >= 0.0):
            raise InputError(f"a checkpoint's every must be seconds >= 0, not {in_a_line(every)}")
        self.path = Path(path)
        self.every = every
        self.damaged: tuple[str, ...] = ()
        self._last = time.monotonic()
        load_zarr()
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file: name a folder for the checkpoint")
        if self.path.is_dir() and any(self.path.iterdir()) and not (self.path / _INDEX).exists():
            raise InputError(f"{self.path} holds something that is no checkpoint: name an empty folder or a new one")
        if not self.path.absolute().parent.is_dir():
            raise InputError(f"the folder {self.path.absolute().parent} of the checkpoint does not exist")

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._last >= self.every

    def save(
        self, partition: Partition, blocks: Mapping[int, Any], iteration: int, residual: float, b_norm: float
    ) -> None:
        """Save an iterate, given as NumPy blocks by chunk number, each asked for once.

        A save that fails, as on a full disk, leaves the ones before it as they were.

        Raises:
            OSError: it could not be written.
        """
        known = self._index()
        serial = 1 + max((int(saved.array.partition("-")[2]) for saved in known), default=0)
        saved = Saved(array=f"x-{serial}", grid=partition.grid, iteration=iteration, residual=residual, b_norm=b_norm)
        try:
            self._write(saved, partition, blocks)
        except BaseException:
            shutil.rmtree(self.path / saved.array, ignore_errors=True)
            raise
        finally:
            self._last = time.monotonic()
        self._commit([*known, saved][-_KEPT:])
        for old in known[: 1 - _KEPT]:
            shutil.rmtree(self.path / old.array, ignore_errors=True)

    def check(self, grid: Triple) -> None:
        """Look at what is saved, but for the values.

        Raises:
            InputError: it belongs to another grid, or cannot be read.
        """
        for saved in self._index():
            if saved.grid != grid:
                raise InputError(
                    f"the checkpoint {self.path} was saved for the grid {saved.grid}, but the problem's is {grid}"
                )

    def newest(self, grid: Triple) -> tuple[Saved, np.ndarray[Any, np.dtype[np.float64]]] | None:
        """The newest iterate that can be read, shape `grid`; None where nothing was saved.

        Raises:
            InputError: it belongs to another grid, or nothing that was saved can be read any more.
        """
        self.damaged = ()
        self.check(grid)
        for saved in reversed(self._index()):
            try:
                stored = load_zarr().open_array(str(self.path / saved.array), mode="r")
                _check_ours(stored, grid)
                values = np.asarray(stored[...])
                _check_whole(values)
            except Exception as error:  # zarr's codecs raise errors of many kinds
                logger.warning("the save %s of the checkpoint %s is damaged: %s", saved.array, self.path, error)
                self.damaged += (f"{saved.array} ({error})",)
                continue
            return saved, values
        if self.damaged:
            raise InputError(f"the checkpoint {self.path} is damaged: {'; '.join(self.damaged)}. Begin without it")
        return None

    def _index(self) -> list[Saved]:
        """Saves, oldest first."""
        try:
            text = (self.path / _INDEX).read_text(encoding="utf-8")
            return [Saved(**(item | {"grid": tuple(item["grid"])})) for item in json.loads(text)]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(f"the checkpoint {self.path} is damaged: {_INDEX} cannot be read ({error})") from error

    def _write(self, saved: Saved, partition: Partition, blocks: Mapping[int, Any]) -> None:
        zarr = load_zarr()
        codecs = importlib.import_module("zarr.codecs")
        self.path.mkdir(exist_ok=True)
        shutil.rmtree(self.path / saved.array, ignore_errors=True)  # what a crash may have left
        target = zarr.create_array(
            str(self.path / saved.array),
            shape=partition.grid,
            chunks=tuple(max(extents) for extents in partition.sizes),
            dtype="float64",
            fill_value=math.nan,  # what zarr reads where a chunk's file is missing
            compressors=[codecs.Crc32cCodec()],  # iterates hardly compress; what matters is to notice damage
        )
        for chunk in partition:
            target[chunk.box.slices] = blocks[chunk.number]

    def _commit(self, saves: list[Saved]) -> None:
        new = self.path / f".{_INDEX}.new"
        with new.open("w", encoding="utf-8") as file:
            json.dump([asdict(saved) for saved in saves], file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path / _INDEX)


def _check_ours(stored: Any, grid: Triple) -> None:
    """Refuse an array that no save has written, before anything of it is read."""
    codecs = {type(codec).__name__ for codec in getattr(stored.metadata, "codecs", ())}
    if stored.shape != grid or stored.dtype != np.float64 or not codecs or not codecs <= _CODECS:
        raise ValueError(f"it is an array {stored.shape} of {stored.dtype} with {sorted(codecs)}, which is no save")


def _check_whole(values: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Refuse an iterate with a chunk that is missing."""
    missing = int(np.isnan(values).sum())
    if missing:
        raise ValueError(f"{missing} of {values.size} values are missing")


def checkpoint_of(value: Checkpoint | str | os.PathLike[str] | None) -> Checkpoint | None:
    """A checkpoint from a folder's name, as arguments give it."""
    if value is None or isinstance(value, Checkpoint):
        return value
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"a checkpoint is a folder or a dsolver.Checkpoint, not {in_a_line(value)}")
    return Checkpoint(value)


def load_zarr() -> Any:
    """The zarr package.

    Raises:
        InputError: it is not installed.
    """
    try:
        return importlib.import_module("zarr")
    except ImportError as error:
        raise InputError(f"zarr is not installed: {installing('zarr')}") from error
