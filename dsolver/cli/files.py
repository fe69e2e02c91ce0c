"""Files of arrays and results: `.npy`, `.zarr`, NetCDF and HDF5, and JSON."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

from dsolver.cli import labeled
from dsolver.dask_types import Client
from dsolver.errors import InputError, OutputExistsError, check_path, of_extra
from dsolver.monitor.spans import Span, to_jsonl, to_trace

ARRAYS: Final = (".npy", ".zarr", *labeled.ENDINGS)
VECTORS: Final = (".mtx",)  # endings of files that hold vectors (n,)
STDOUT: Final = Path("-")  # name for standard output
ZARR_MARKS: Final = ("zarr.json", ".zarray")


def check_output(path: Path | None, *, force: bool, suffixes: tuple[str, ...] = ()) -> None:
    """Refuse an output that could not be written at the end: OutputExistsError, or InputError (folder, ending)."""
    if path is None:
        return
    if suffixes:
        _check_ending(path, suffixes)
    check_path(path)
    if not path.absolute().parent.is_dir():
        raise InputError(f"cannot write {path}: the folder {path.absolute().parent} does not exist")
    if not os.access(path.absolute().parent, os.W_OK):
        raise InputError(f"cannot write {path}: you may not write to the folder {path.absolute().parent}")
    if path.exists() and not force:
        raise OutputExistsError(f"{path} exists: choose another name, or add --force to replace it")
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(f"cannot write {path}: it is a device or a pipe, which cannot be replaced")
    try:
        probe = _partial(path)
        probe.touch(exist_ok=True)
        _remove(probe)
    except OSError as error:  # as below /proc, on a disk without room for names, or for a name that is too long
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    if path.is_dir() and not any((path / mark).is_file() for mark in ZARR_MARKS):
        raise OutputExistsError(f"{path} is a folder without a zarr array; it is not replaced, not even with --force")


def _check_ending(path: Path, suffixes: tuple[str, ...]) -> None:
    """Refuse an ending that is none of these, or whose package is not installed."""
    if path.suffix not in suffixes:
        raise InputError(f"cannot write {path}: use a name that ends with {', '.join(suffixes[:-1])} or {suffixes[-1]}")
    if path.suffix == ".zarr":
        _zarr()
    elif labeled.is_labeled(path):
        labeled.library()


def check_kind(path: Path | None, shape: tuple[int, ...]) -> None:
    """Refuse an output of x that cannot hold an array of its shape; raises InputError."""
    if path is not None and path.suffix in VECTORS and len(shape) > 1:
        raise InputError(f"cannot write {path}: it would hold a vector, but x has the shape {shape}; use a .npy file")


def check_apart(*paths: Path | None) -> None:
    """Refuse one name for two outputs, of which the one written first would be lost; raises InputError."""
    given = [path.resolve() for path in paths if path is not None]
    for path in given:
        if given.count(path) > 1:
            raise InputError(f"{path} is named for two outputs, and would hold the last alone: give each its own name")


def write_text(path: Path, text: str) -> None:
    """Write a file in one go: it is there whole or not at all."""
    with _replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, text: str) -> None:
    """Write a text to a file, or to standard output."""
    if path == STDOUT:
        click.echo(text)
    else:
        write_text(path, text)


def write_spans(spans: Iterable[Span], jsonl: Path | None, trace: Path | None) -> None:
    """Spans as JSON lines, as a trace, or both."""
    spans = tuple(spans)
    if jsonl is not None:
        write_text(jsonl, to_jsonl(spans))
    if trace is not None:
        write_text(trace, json.dumps(to_trace(spans)))


def check_input(path: Path, expected: tuple[int, ...]) -> None:
    """Refuse a right-hand side that cannot be right, before any work.

    `expected`: the shape of one: of a grid, or (rows,). With one axis more, the last, it is several. InputError: it
    cannot be read, or has another shape.
    """
    shape = tuple(opened(path).shape)
    if shape != expected and shape[:-1] != expected:
        what = f"--grid is {expected}" if len(expected) > 1 else f"b of this matrix is {expected}"
        several = f"; several are ({', '.join(map(str, expected))}, k)" if len(shape) > len(expected) else ""
        raise InputError(f"{path} has shape {shape}, but {what}: they must be equal{several}")


def read_array(path: Path, client: Client | None) -> Any:
    """A right-hand side that was checked: a NumPy array, a Dask array of zarr's for a cluster, or a DataArray."""
    if labeled.is_labeled(path):
        return labeled.read(path)
    array = opened(path)
    if isinstance(array, np.ndarray):
        return array
    if client is None:
        return np.asarray(array[...])
    from dask import array as dask_array

    return dask_array.from_array(array, chunks=array.chunks)


def write_array(path: Path, x: Any, dimensions: int) -> None:
    """Write a NumPy or Dask array with so many axes, or one more; Dask's goes to zarr by blocks, from the workers."""
    with _replacing(path) as partial:
        if path.suffix == ".npy":
            with partial.open("wb") as file:
                np.save(file, np.asarray(x), allow_pickle=False)
            return
        if path.suffix in VECTORS:
            from dsolver.matrices.io import write_vector  # with all that reads matrices, as below

            write_vector(partial, np.asarray(x))
            return
        if labeled.is_labeled(path):
            labeled.write(partial, x, dimensions)
            return
        x = x.data if hasattr(x, "dims") else x
        chunks = getattr(x, "chunksize", None) or x.shape
        target = _zarr().create_array(str(partial), shape=x.shape, chunks=chunks, dtype=str(x.dtype))
        if isinstance(x, np.ndarray):
            target[...] = x
        else:
            x.store(target)


def opened(path: Path) -> Any:
    """The array of a file: NumPy's, mapped from a .npy file, or zarr's. InputError: it cannot be read."""
    if ".mtx" in path.suffixes[-2:]:
        from dsolver.matrices.io import read_vectors

        return read_vectors(path)
    if labeled.is_labeled(path):
        return labeled.read(path).values
    if path.suffix not in ARRAYS:
        raise InputError(f"cannot read {path}: use a file that ends with {', '.join(ARRAYS)} or .mtx")
    if not path.exists():
        raise InputError(f"cannot read {path}: there is no such file")
    if path.suffix == ".zarr":
        zarr = _zarr()
        try:
            return zarr.open_array(str(path), mode="r")
        except (OSError, ValueError, KeyError, zarr.errors.BaseZarrError) as error:
            raise InputError(f"cannot read {path}: it is no zarr array ({error})") from error
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:  # NumPy's text proposes to unpickle it, which would run whatever it holds
        raise InputError(f"cannot read {path}: it is no array of numbers that numpy.save has written") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"cannot read {path}: it holds several arrays; save the one that is wanted with numpy.save")
    return array


def _zarr() -> Any:
    return of_extra("zarr", "zarr", "zarr is not installed", ", or use a .npy file")


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """The path where a file is written before it gets its name, or nothing is left. InputError: a full disk."""
    partial = _partial(path)
    _remove(partial)
    try:
        yield partial
        if path.is_dir():
            shutil.rmtree(path)
        partial.replace(path)
    except BaseException as error:
        _remove(partial)
        if isinstance(error, OSError):
            raise InputError(f"cannot write {path}: {error.strerror or error}") from error
        raise


def _partial(path: Path) -> Path:
    """The name of a file until it is whole."""
    return path.with_name(f".{path.name}.partial")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
