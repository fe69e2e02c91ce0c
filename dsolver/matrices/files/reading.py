"""Faults of files, each as one error."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dsolver.errors import DsolverError, InputError


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a reader finds wrong with a file into one InputError."""
    try:
        yield
    except DsolverError:
        raise
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except MemoryError as error:
        raise InputError(f"{path} cannot be read: this process has not the memory that its sizes need") from error
    except Exception as error:  # of zlib, zipfile, NumPy or SciPy: what a damaged file makes them raise has no end
        raise InputError(f"{path} cannot be read as {what}: {error}") from error
