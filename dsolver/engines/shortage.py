"""A GPU whose memory has run out: one error that says so, and the memory given back."""

from __future__ import annotations

import gc
import sys
import traceback

from dsolver.errors import DeviceMemoryError

_OUT_OF_MEMORY = 2
"""The number of that error, of CUDA's runtime and of its driver alike."""


def is_shortage(error: BaseException) -> bool:
    """Whether an error says that a GPU's memory has run out. CuPy need not be there."""
    kind = type(error)
    if not kind.__module__.startswith("cupy"):
        return False
    return kind.__name__ == "OutOfMemoryError" or getattr(error, "status", None) == _OUT_OF_MEMORY


def shortage(error: BaseException, where: str = "") -> DeviceMemoryError:
    """What to raise in place of such an error.

    What the failed calls held is let go: their frames would keep it as long as the error lives.
    """
    traceback.clear_frames(error.__traceback__)
    return DeviceMemoryError(
        f"{where}the memory of the GPU has run out: {str(error).rstrip('.')}. Free what others hold there, or use more "
        f"GPUs, a smaller grid or precond_dtype='float32'"
    )


def let_go(error: BaseException | None) -> None:
    """Empty the frames of an error that was dealt with, and forget them: they hold vectors, matrices and the error.

    Those that still run cannot be emptied, and the others lead to them.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def give_back() -> None:
    """Return what this process keeps of its GPU's memory for later use, also in cycles that nobody has collected yet.

    To Python's collector an array on a GPU is a hundred bytes: it does not come because gigabytes wait for it.
    """
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        gc.collect()
        cupy.get_default_memory_pool().free_all_blocks()
