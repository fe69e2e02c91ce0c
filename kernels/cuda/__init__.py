"""The kernels for NVIDIA GPUs: CUDA C++ of this package, compiled and launched through CuPy.

CuPy is imported with `CudaBackend`, not with this package: `loader` can then be read where there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsolver.kernels.cuda.backend import CudaBackend

__all__ = ["CudaBackend"]


def __getattr__(name: str) -> Any:
    if name == "CudaBackend":
        from dsolver.kernels.cuda.backend import CudaBackend

        return CudaBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
