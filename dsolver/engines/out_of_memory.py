"""Memory that has run out, of a GPU or a machine: the one error that says so, and freeing what is unused."""

import gc
import sys
import traceback
from collections.abc import Callable
from typing import TypeVar

from dsolver.errors import DeviceMemoryError

T = TypeVar("T")

_OUT_OF_MEMORY = 2  # the number of the error, of CUDA's runtime and of its driver alike


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory has run out, of a GPU or of the machine. CuPy need not be there."""
    if not _of_cupy(error):
        return isinstance(error, MemoryError)
    if "STATUS_ALLOC_FAILED" in str(error):  # of CUDA's libraries, each of which has its own number for it
        return True
    return type(error).__name__ == "OutOfMemoryError" or getattr(error, "status", None) == _OUT_OF_MEMORY


def out_of_memory_error(error: BaseException, where: str = "") -> DeviceMemoryError:
    """The error in place of one for which `is_out_of_memory` holds; frames that keep arrays are cleared."""
    traceback.clear_frames(error.__traceback__)
    here, more = ("GPU", "GPUs") if _of_cupy(error) else ("machine", "workers on other machines")
    why = f": {str(error).rstrip('.')}" if str(error) else ""
    return DeviceMemoryError(
        f"{where}the memory of the {here} has run out{why}. Free what others hold there, or use more {more} or a "
        f"smaller grid"
    )


def _of_cupy(error: BaseException) -> bool:
    return type(error).__module__.startswith("cupy")


def clear_frames(error: BaseException | None) -> None:
    """Clear the frames of an error that was handled, and forget them: they hold vectors, matrices and the error.

    Frames that still run cannot be cleared, and the others lead to them.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def if_memory_suffices(make: Callable[[], T]) -> T | None:
    """Result of `make`; None where memory has run out, and what was unused is free again."""
    try:
        return make()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    free_unused()  # behind the error, whose frames hold arrays
    return None


def free_unused() -> None:
    """Free the GPU memory that this process keeps for later use, also in reference cycles that are not collected yet.

    To Python's collector an array on a GPU is a hundred bytes: it does not come because gigabytes wait for it.
    """
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        gc.collect()
        cupy.get_default_memory_pool().free_all_blocks()
