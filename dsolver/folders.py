"""Folders that are held open: what others put under their names meanwhile is not used."""

import os
import posixpath
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY  # flags that open a folder
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags that open a file to read it; a pipe without a writer is not waited for."""


@contextmanager
def opened(name: str | Path, at: int | None = None) -> Iterator[int]:
    """A folder that is there, as its descriptor: of a path, or of a name in an open folder, which may be no link."""
    folder = os.open(name, _FOLDER if at is None else _FOLDER | os.O_NOFOLLOW, dir_fd=at)
    try:
        yield folder
    finally:
        os.close(folder)


def path_of(folder: int) -> Path:
    """A path to an open folder, whatever its name has become."""
    return Path(f"/proc/self/fd/{folder}")


@contextmanager
def plain_file(name: str, at: int) -> Iterator[BinaryIO]:
    """A plain file in an open folder, to be read. OSError: it is none, or a link."""
    with os.fdopen(os.open(name, _READ, dir_fd=at), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{name} is no plain file")
        yield file


def new_file(name: str, at: int, mode: int = 0o666) -> BinaryIO:
    """A new file in an open folder, in place of what has its name there; a link is not followed."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=at)
    return os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=at), "wb")


def entries(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    """Names of all that lies below an open folder, relative to it, each folder before what it holds."""
    for at, folders, files, inside in os.fwalk(".", dir_fd=folder):
        for name in (*folders, *files):
            yield posixpath.normpath(posixpath.join(at, name)), os.stat(name, dir_fd=inside, follow_symlinks=False)


def remove(name: str, at: int) -> None:
    """Remove a folder of an open one and what it holds, or a link to one; as far as that goes."""
    with suppress(OSError):
        os.unlink(name, dir_fd=at)
        return
    shutil.rmtree(name, ignore_errors=True, dir_fd=at)
