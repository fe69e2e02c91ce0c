"""Errors and warnings of this package.

::

    DsolverError
    ├── InputError (ValueError)        an argument cannot be right
    ├── DeviceError (RuntimeError)     a device or its software is missing
    │   └── DeviceMemoryError          the memory of a GPU or a worker will not suffice, or has run out
    ├── ClusterError (RuntimeError)    the Dask cluster cannot be reached or cannot run the job
    │   └── RankError                  a rank of a running solve failed; every rank has stopped
    │       └── WorkerLostError        because its worker died, left, hangs or was cut off
    ├── NotConvergedError (ArithmeticError)  a solve with gradients did not reach its tolerance
    └── OutputExistsError (FileExistsError)

Any other solve that does not converge is no exception: see `dsolver.Status`.
"""

import importlib
import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from numbers import Real
from pathlib import Path
from typing import Any, Final

from dsolver.kernels import compiles

DISTRIBUTION: Final = "dsolver-hpc"
"""The name to install this package by: `dsolver` on the Python Package Index is another project."""

SHORT: Final = 100  # characters of an argument that a message repeats at most
LONG: Final = 2000
"""Characters of a message at most; of a longer one the middle is left out, in which an argument was repeated."""


class DsolverError(Exception):
    """Base of all errors that this package raises on purpose."""

    def __str__(self) -> str:
        text = super().__str__()
        return text if len(text) <= LONG else f"{text[: LONG // 2]} [...] {text[-LONG // 2 :]}"


class InputError(DsolverError, ValueError):
    """Error of an argument that cannot be right, as values may show once they are read, or of an untimely call."""


class DeviceError(DsolverError, RuntimeError):
    """Error of a device that is missing, or whose software is."""


class DeviceMemoryError(DeviceError):
    """Error of memory, of a GPU or a worker: it will not suffice, and nothing was started; or it ran out on the way."""


class ClusterError(DsolverError, RuntimeError):
    """Error of the Dask cluster: it cannot be reached, or cannot run the job."""


class RankError(ClusterError):
    """Error of a rank of a running solve, which failed. Every rank has stopped."""


class WorkerLostError(RankError):
    """Error of a worker with a rank of a running solve: it died, left, hangs or was cut off. All ranks have stopped."""


class NotConvergedError(DsolverError, ArithmeticError):
    """Error of a solve that is differentiated, or of its gradient's solve: it did not reach its tolerance."""


class OutputExistsError(DsolverError, FileExistsError):
    """Error of an output that is there already and was not to be overwritten."""


def installing(extra: str) -> str:
    """The command that installs what an extra of this package names, for messages."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def of_extra(module: str, extra: str, need: str, instead: str = "") -> Any:
    """A module that comes with an extra of this package. InputError, which begins with the need: it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"{need}: {installing(extra)}{instead}") from error


def check_compiler() -> None:
    """Refuse (DeviceError) loops that numba would leave to Python: integers overflow, and some cannot run so."""
    if not compiles():
        raise DeviceError("the kernels of CPUs have to be compiled: unset the environment variable NUMBA_DISABLE_JIT")


def check_computed(name: str, value: object) -> None:
    """Refuse what Dask has not computed: it passes for a function, and has any attribute. Raises InputError."""
    if type(value).__module__ == "dask.delayed":
        raise InputError(
            f"{name} is a {type(value).__name__} of Dask: pass what it computes, or an array, as "
            f"dask.array.from_delayed makes"
        )


def float_of(number: Any) -> float:
    """A number as a float, infinite where an integer is beyond all floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def check_real(name: str, dtype: Any, kinds: str = "fiu") -> None:
    """Refuse numbers of a NumPy dtype that are not real, but for `kinds` by NumPy's letters; raises InputError."""
    if dtype.kind in kinds:
        return
    hint = "take float64"
    if dtype.kind == "c":
        hint = "complex systems are a sparse matrix of SciPy, such as dsolver.read_matrix(path) without client="
    raise InputError(f"{name} has dtype {dtype}: real numbers are needed; {hint}")


def check_block(block: Any, kinds: str = "fiub") -> None:
    """Refuse a block that is masked or not real, as one of a Dask array may be whatever the array says (InputError)."""
    mask = getattr(block, "mask", None)
    if mask is not None and mask.any():
        raise InputError(
            "a block of an array is masked, and what its mask hides would be taken for values: fill it, as "
            "dask.array.ma.filled does"
        )
    check_real("a block of an array", block.dtype, kinds)


def check_tolerance(name: str, value: Any) -> None:
    """Refuse what is no finite number >= 0 as a tolerance; raises InputError."""
    if not (isinstance(value, Real) and 0.0 <= float_of(value) < math.inf):
        raise InputError(f"{name} must be a finite number >= 0, not {in_a_line(value)}")


def check_path(path: Path) -> None:
    """Refuse a name that no file can have, or that may not be looked at; raises InputError."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        raise InputError(f"cannot use {in_a_line(str(path))}: {getattr(error, 'strerror', error)}") from error


def in_a_line(value: object) -> str:
    """An argument as a message of one line names it: as it would be typed where that is short, else by its type."""
    if isinstance(value, str) and len(value) > SHORT:
        return f"{value[: SHORT // 2]!r}..., of {len(value)} characters"
    try:
        typed = repr(value)
    except Exception:  # of an integer with thousands of digits, say
        typed = "\n"
    return typed if len(typed) <= SHORT and typed.isprintable() else f"an object of type {type(value).__name__}"


def meant(given: object, names: Iterable[str], elsewhere: Mapping[str, str], shown: Callable[[str], str] = str) -> str:
    """Question for messages, with a space behind it, which name a wrong one stands for; "" where none is near.

    `elsewhere`: what other packages call it, words, by the name here.
    """
    if not isinstance(given, str):
        return ""
    text, names = given[:SHORT], list(names)
    same = [name for name in names if text.lower() in (name, *elsewhere.get(name, "").split()) and len(text) > 1]
    near = same or get_close_matches(text, names)
    return f"is {' or '.join(map(shown, near))} meant? " if near else ""


class InconsistentWarning(UserWarning):
    """Warning of a b without a solution: A fixes x up to null vectors alone, as constants, and b does not balance."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn as of the line that called dsolver, however deep in it the reason was found."""
    level, frame = 2, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "dsolver":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level - 1)
