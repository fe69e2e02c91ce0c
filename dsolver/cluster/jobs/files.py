"""Files of jobs: archives that travel through the cluster, and folders that nobody else can look into."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from dsolver.errors import ClusterError


def private(folder: Path) -> Path:
    """A folder that nobody else can look into, made if it is not there.

    Raises:
        ClusterError: it belongs to somebody else, who could change what a job writes and reads.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        raise ClusterError(f"the folder {folder} for jobs belongs to somebody else: give workers a --local-directory")
    folder.chmod(0o700)
    return folder


def plain_files(paths: Sequence[Path]) -> Iterator[Path]:
    """The files among paths, and in folders among them."""
    for path in paths:
        yield from [path] if path.is_file() else (below for below in path.rglob("*") if below.is_file())


def pack(paths: Sequence[Path], name: str | None = None) -> bytes:
    """Files and folders as a tar archive, under their own names or, a single one, under another.

    A path that is a link goes as what it leads to; below folders, links out of them and pipes are left out.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in paths:
            archive.add(path.resolve(), arcname=path if name is None else name, filter=_inside)
    return packed.getvalue()


def _inside(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The member if it can be extracted beside the others, else None."""
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        return None
    leads = os.path.normpath(Path(member.name).parent / member.linkname)
    return None if member.issym() and leads.startswith(("/", "..")) else member


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Write an archive's files into a folder and nowhere else.

    Raises:
        ClusterError: a member would come to lie elsewhere, or is no plain file or folder. It was not written.
    """
    if hasattr(tarfile, "data_filter"):
        try:
            archive.extractall(folder, filter="data")
        except tarfile.FilterError as error:
            raise ClusterError(f"the job's files would not stay in {folder}: {error}") from error
        return
    # Python before 3.11.4, as in Debian 12: looked at here instead.
    for member in archive.getmembers():
        paths = [Path(member.name), *([Path(member.linkname)] if member.issym() else [])]
        inside = not any(path.is_absolute() or ".." in path.parts for path in paths)
        if not inside or not (member.isfile() or member.isdir() or member.issym()):
            raise ClusterError(f"the job's files have {member.name!r}, which would not stay in {folder}")
    archive.extractall(folder)  # noqa: S202  # all of them stay
