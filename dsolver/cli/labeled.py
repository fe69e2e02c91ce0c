"""NetCDF-4 and HDF5 files, in and out through xarray: arrays whose axes have names, and coordinates along them."""

import importlib
import io
import re
from pathlib import Path
from typing import Any, Final

import numpy as np

from dsolver.errors import InputError, installing

ENDINGS: Final = (".nc", ".h5")
FILE: Final = re.compile(r"(?P<file>.+?\.(?:nc|h5))(?::(?:(?P<group>[^:]+)/)?(?P<variable>[^:/]+))?")
"""A file's name, with that of a variable behind a colon where it holds several, which may be in a group: group/name."""
AXES: Final = ("x", "y", "z")
COLUMNS: Final = "column"  # name of the axis that counts several solutions
SOLUTION: Final = "solution"  # name of the variable that is written; x would be that of an axis


def is_labeled(path: Path) -> bool:
    """Whether the name is that of such a file."""
    return FILE.fullmatch(str(path)) is not None


def read(path: Path) -> Any:
    """A variable as a DataArray, in memory; axes x, y, z come in this order, to the front. InputError: unreadable."""
    xarray, found = library(), FILE.fullmatch(str(path))
    assert found is not None
    file = Path(found["file"])
    if not file.is_file():
        raise InputError(f"cannot read {file}: there is no such file")
    try:
        # Axes without names get some: HDF5 files of other programs have none.
        options = {"engine": "h5netcdf", "phony_dims": "sort", "decode_times": False, "group": found["group"]}
        with xarray.open_dataset(file, **options) as data:
            array = _variable(file, data, found["variable"]).load()
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {file}: it is no NetCDF-4 or HDF5 file ({error})") from error
    named = [axis for axis in AXES if axis in array.dims]
    complete = named == list(AXES[: len(named)]) and array.ndim - len(named) <= 1  # one more counts several
    return array.transpose(*named, ...) if complete else array


def write(path: Path, x: Any, dimensions: int) -> None:
    """Write a solution, or several: a DataArray with its coordinates, any other with the axes x, y and z."""
    dims = (*AXES[:dimensions], COLUMNS)[: x.ndim]
    array = x if hasattr(x, "dims") else library().DataArray(np.asarray(x), dims=dims)
    array = array.rename(SOLUTION)
    array.attrs = {}  # of its right-hand side, as its name was
    buffer = io.BytesIO()  # HDF5 dies of a disk that is full, by a signal
    with importlib.import_module("h5netcdf").File(buffer, "w") as file:
        array.to_dataset().dump_to_store(importlib.import_module("xarray.backends").H5NetCDFStore(file))
    path.write_bytes(buffer.getbuffer())


def library() -> Any:
    """The xarray package, with h5netcdf and h5py to read and write files. InputError: one is not installed."""
    try:
        for package in ("h5py", "h5netcdf"):  # which reads without the other, too, but writes nothing
            importlib.import_module(package)
        return importlib.import_module("xarray")
    except ImportError as error:
        raise InputError(
            f"{error.name} is not installed, which {' and '.join(ENDINGS)} files need: {installing('netcdf')}, or use "
            f"a .npy file"
        ) from error


def _variable(file: Path, data: Any, name: str | None) -> Any:
    names = sorted(map(str, data.data_vars))
    if name is None and len(names) == 1:
        return data[names[0]]
    if name in names:
        return data[name]
    if not names:
        raise InputError(
            f"cannot read {file}: it holds no variable here: name one in a group as {file.name}:GROUP/NAME"
        )
    raise InputError(f"{file} holds the variables {', '.join(names)}: name one of them, as in {file.name}:{names[0]}")
