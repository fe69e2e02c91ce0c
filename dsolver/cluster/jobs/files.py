"""Files of jobs: archives that travel through the cluster, and the folder of a job on a worker."""

import io
import os
import posixpath
import shutil
import stat
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dsolver.errors import ClusterError
from dsolver.folders import entries, new_file, opened, plain_file, remove


class JobFolder(ExitStack):
    """The folder of a job on a worker and its log beside it, until the context ends.

    Both are made if they are not there, and held open: the folder may lie below one of another user, who can put
    anything under its name, but not into it. `below` lie the jobs of all workers of this host. ClusterError: it belongs
    to another user, who could change what the job writes and reads.
    """

    def __init__(self, below: Path, name: str) -> None:
        super().__init__()
        self.path = below / name
        with ExitStack() as held:
            self._jobs = held.enter_context(private(below))
            self.descriptor = held.enter_context(private(name, self._jobs))
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            self.log = held.enter_context(os.fdopen(os.open(f"{name}.log", flags, 0o600, dir_fd=self._jobs), "r+b", 0))
            self.push(held.pop_all())

    def printed(self, most: int | None = None) -> bytes:
        """The log, or its last bytes."""
        self.log.seek(0 if most is None else max(0, os.fstat(self.log.fileno()).st_size - most))
        return self.log.read()

    def size(self) -> int:
        """Bytes of the files in the folder."""
        return _size(self.descriptor)

    def packed(self) -> bytes:
        """An archive of what the folder holds."""
        packed = io.BytesIO()
        with _archive(packed) as archive:
            _add(archive, ".", self.descriptor)
        return packed.getvalue()

    def remove(self) -> None:
        """Remove it and its log, as far as that goes."""
        remove(self.path.name, self._jobs)
        with suppress(OSError):
            os.unlink(f"{self.path.name}.log", dir_fd=self._jobs)


@contextmanager
def private(name: str | Path, at: int | None = None) -> Iterator[int]:
    """A folder, open and made if need be, that only its user sees. ClusterError: another's, or no folder."""
    refusal = f"the folder {name} for jobs belongs to another user or is no folder: give workers a --local-directory"
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=at)
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    except OSError as error:
        raise ClusterError(f"{refusal} ({error.strerror})") from error
    try:
        if os.fstat(folder).st_uid != os.getuid():
            raise ClusterError(refusal)
        os.fchmod(folder, 0o700)
        yield folder
    finally:
        os.close(folder)


def size_of(paths: Sequence[Path]) -> int:
    """Bytes of the files among paths, and in folders among them."""
    size = 0
    for path in paths:
        if path.is_dir():
            with opened(path) as folder:
                size += _size(folder)
        else:
            size += path.stat().st_size
    return size


def _size(folder: int) -> int:
    return sum(found.st_size for _, found in entries(folder) if stat.S_ISREG(found.st_mode))


def pack(paths: Sequence[Path]) -> bytes:
    """Files and folders as a tar archive under relative names; links below folders, and pipes, are left out."""
    packed = io.BytesIO()
    with _archive(packed) as archive:
        for path in paths:
            name = posixpath.normpath(path.as_posix())
            if path.is_dir():
                archive.addfile(_named_folder(name))
                with opened(path) as folder:
                    _add(archive, name, folder)
            elif path.is_file():
                with path.open("rb") as file:
                    archive.addfile(archive.gettarinfo(arcname=name, fileobj=file), file)
    return packed.getvalue()


def unpack(packed: bytes, folder: int) -> None:
    """Write an archive's files into an open folder and nowhere else.

    No link is made or followed, whatever the archive holds and whatever lies in the folder. ClusterError: a member has
    a name that leads elsewhere, or is no plain file or folder, and nothing is written; or files cannot be written.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as archive:
            members = archive.getmembers()
            for member in members:
                _check(member)
            for member in members:
                _write(archive, member, folder)
    except (tarfile.TarError, OSError) as error:
        raise ClusterError(f"the job's files cannot be written: {error}") from error


def _archive(packed: BinaryIO) -> tarfile.TarFile:
    """A new archive, in which a file of several names goes under each of them."""
    return tarfile.open(fileobj=packed, mode="w", dereference=True)


def _add(archive: tarfile.TarFile, name: str, folder: int) -> None:
    """Add the folders and plain files in an open folder, under its name."""
    for below, found in entries(folder):
        full = posixpath.normpath(posixpath.join(name, below))
        if stat.S_ISDIR(found.st_mode):
            archive.addfile(_named_folder(full))
        elif stat.S_ISREG(found.st_mode):
            with plain_file(below, folder) as file:
                archive.addfile(archive.gettarinfo(arcname=full, fileobj=file), file)


def _named_folder(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, 0o755
    return member


def _check(member: tarfile.TarInfo) -> None:
    """Refuse what `pack` does not make."""
    plain = member.isdir() or (member.isfile() and not member.issparse())  # a sparse one may become of any size
    if not plain or member.name.startswith("/") or not set(member.name.split("/")).isdisjoint(("", ".", "..")):
        raise ClusterError(f"the job's files have {member.name!r}, which would not stay in the folder")


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: int) -> None:
    *parents, name = member.name.split("/")
    with ExitStack() as folders:
        for part in [*parents, name] if member.isdir() else parents:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=folder)
            folder = folders.enter_context(opened(part, folder))
        if member.isdir():
            return
        mode = 0o600 | member.mode & 0o755
        with new_file(name, folder, mode) as out, archive.extractfile(member) as data:  # type: ignore[union-attr]
            shutil.copyfileobj(data, out)
