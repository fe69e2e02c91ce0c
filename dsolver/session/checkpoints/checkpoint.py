"""Checkpoints of a running solve: iterates saved in a Zarr store, from which it can go on.

A save is an array of its own; it counts once a small file that names it has taken the place of the one before, which
a file system does at once or not at all. So a store holds a whole iterate after any crash. Every chunk of an array
carries a checksum, and the last save but one is kept: a damaged save is noticed, and the one before takes its place.

Others may be able to write the folder, too. So no link in it is followed, what is written goes to folders that are held
open, and what is read costs no more than what a save of that grid has.
"""

import json
import logging
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, final

import numpy as np

from dsolver.errors import InputError, check_path, in_a_line
from dsolver.folders import new_file, opened, plain_file, remove
from dsolver.grid.box import Triple
from dsolver.grid.partition import Partition
from dsolver.session.checkpoints import saves

logger = logging.getLogger(__name__)

EVERY: Final = 30.0  # seconds between two saves, unless another time is asked for


@final
class Checkpoint:
    """A store of iterates, and how often they are saved.

    The process that called `solve` writes it, block after block; workers need not see the file system.

    Args:
        path: a folder; made when a solve begins. One that holds something else is refused. Of several
            right-hand sides each has one in it, ``column-0`` and so on.
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
        saves.load_zarr()
        check_path(self.path)
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file: name a folder for the checkpoint")
        if self.path.is_dir() and not self._begun and not all(map(saves.may_be_there, self.path.iterdir())):
            raise InputError(f"{self.path} holds something that is no checkpoint: name an empty folder or a new one")
        if not self.path.absolute().parent.is_dir():
            raise InputError(f"the folder {self.path.absolute().parent} of the checkpoint does not exist")

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r}, every={self.every!r})"

    def of(self, column: int) -> Self:
        """The store of one of several right-hand sides: a folder in this one, which is made. Raises as the class."""
        with self._writing():
            self.path.mkdir(exist_ok=True)
        path = self.path / f"column-{column}"
        if path.is_symlink():
            raise InputError(f"{path} is a link, which is not followed: name another folder for the checkpoint")
        return Checkpoint(path, every=self.every)

    def begin(self) -> None:
        """Make the folder, and try to write there. InputError: that fails, and a save would in an hour."""
        with self._writing():
            self.path.mkdir(exist_ok=True)
            with opened(self.path) as folder:
                new_file(saves.NEW, folder).close()
                os.unlink(saves.NEW, dir_fd=folder)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A first attempt to write, whose OSError becomes an InputError."""
        try:
            yield
        except OSError as error:
            raise InputError(f"the checkpoint {self.path} cannot be written: {error}; name another folder") from error

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._last >= self.every

    def save(
        self,
        partition: Partition,
        blocks: Mapping[int, Any],
        iteration: int,
        residual: float,
        b_norm: float,
        dtype: str = "float64",
    ) -> None:
        """Save an iterate, NumPy blocks asked for once. OSError, as on a full disk: those before it stay."""
        self.path.mkdir(exist_ok=True)
        with opened(self.path) as folder:
            if not self._begun:
                saves.commit([], folder)  # without which what a crash leaves would be taken for something else
            known = self._index()
            saves.keep(known, folder)
            serial = 1 + max((int(saved.array.partition("-")[2]) for saved in known), default=0)
            saved = saves.Saved(
                array=f"x-{serial}", grid=partition.grid, iteration=iteration, residual=residual, b_norm=b_norm
            )
            try:
                saves.write(saved, partition, blocks, folder, dtype)
            except BaseException:
                remove(saved.array, folder)
                raise
            finally:
                self._last = time.monotonic()
            newest = [*known, saved][-saves.KEPT :]
            saves.commit(newest, folder)
            saves.keep(newest, folder)

    def check(self, grid: Triple) -> None:
        """Look at what is saved, but for the values. InputError: it belongs to another grid, or cannot be read."""
        for saved in self._index():
            if saved.grid != grid:
                raise InputError(f"the checkpoint {self.path} was saved for the grid {saved.grid}, not for {grid}")

    def newest(self, grid: Triple, dtype: str = "float64") -> tuple[saves.Saved, np.ndarray[Any, np.dtype[Any]]] | None:
        """The newest iterate that can be read, shape `grid`; None where nothing was saved.

        InputError: it belongs to another grid, or nothing that was saved can be read any more.
        """
        self.damaged = ()
        self.check(grid)
        for saved in reversed(self._index()):
            try:
                with opened(self.path) as folder, opened(saved.array, folder) as array:
                    values = saves.read(array, grid, dtype)
            except Exception as error:  # zarr's codecs raise errors of many kinds
                logger.warning("the save %s of the checkpoint %s is damaged: %s", saved.array, self.path, error)
                self.damaged += (f"{saved.array} ({error})",)
                continue
            return saved, values
        if self.damaged:
            raise InputError(f"the checkpoint {self.path} is damaged: {'; '.join(self.damaged)}. Begin without it")
        return None

    @property
    def _begun(self) -> bool:
        return os.path.lexists(self.path / saves.INDEX)

    def _index(self) -> list[saves.Saved]:
        """Saves, oldest first."""
        if not self._begun:
            return []
        try:
            with opened(self.path) as folder, plain_file(saves.INDEX, folder) as file:
                items = json.loads(file.read(saves.LARGEST))
            return [saves.Saved(**(item | {"grid": tuple(item["grid"])})) for item in items]
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(
                f"the checkpoint {self.path} is damaged: {saves.INDEX} cannot be read ({error})"
            ) from error


def checkpoint_of(value: Checkpoint | str | os.PathLike[str] | None) -> Checkpoint | None:
    """A checkpoint from a folder's name, as arguments give it."""
    if value is None or isinstance(value, Checkpoint):
        return value
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"a checkpoint is a folder or a dsolver.Checkpoint, not {in_a_line(value)}")
    return Checkpoint(value)
