"""Arrays of other packages, such as tensors of PyTorch and arrays of JAX, in and out without a copy.

They come by DLPack or the CUDA array interface, and go by DLPack, on the device where they are.
"""

import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dsolver.errors import DeviceError, InputError

CPU: Final = (1, 3)  # DLPack's device types of memory that a CPU reads: kDLCPU, kDLCUDAHost
CUDA: Final = (2, 13)  # kDLCUDA, kDLCUDAManaged


def is_foreign(values: Any) -> bool:
    """Whether it is an array of another package than NumPy and CuPy."""
    known = isinstance(values, np.ndarray | np.generic) or type(values).__module__.partition(".")[0] == "cupy"
    return not known and (hasattr(values, "__dlpack__") or hasattr(values, "__cuda_array_interface__"))


def opened(name: str, values: Any) -> tuple[Any, Callable[[Any], Any]]:
    """A foreign array as a NumPy or CuPy array with the same memory, and a function that makes such ones foreign.

    Where its package has no `from_dlpack`, that function leaves arrays as they are.

    Args:
        name: of the argument, for messages.
        values: the array.

    Raises:
        InputError: it cannot be shared.
        DeviceError: it lies on a GPU, and CuPy is not installed.
    """
    kind = type(values).__name__
    if kind.endswith("Tracer"):
        raise InputError(f"{name} is a {kind} of JAX, which has no values yet: dsolver.jax.solve may be traced")
    if getattr(values, "requires_grad", False):
        raise InputError(
            f"{name} is a {kind} that needs gradients: dsolver.torch.solve has those in b, kappa, sigma and entries "
            f"of A; pass it without, as .detach() makes it"
        )
    shared = hasattr(values, "__dlpack__")
    try:
        device = int(values.__dlpack_device__()[0]) if shared else CUDA[0]
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"{name} is a {kind} without memory that can be shared ({error}): move it to a CPU or an NVIDIA GPU"
        ) from error
    if device not in CPU + CUDA:
        raise InputError(f"{name} is a {kind} on a device that is neither a CPU nor an NVIDIA GPU")
    package = np if device in CPU else _cupy(name)
    try:
        return (package.from_dlpack if shared else package.asarray)(values), _back(values)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"{name} is a {kind} that cannot be read: {error}") from error


def without_package(name: str, values: Any) -> Any:
    """A foreign array, or a table of pandas, as one of NumPy or CuPy, and all else as it is; raises as `opened`."""
    if type(values).__module__.partition(".")[0] == "pandas":
        return values.to_numpy()
    return opened(name, values)[0] if is_foreign(values) else values


def module_of(array: Any) -> Any:
    """The module of an array's functions: CuPy of one of CuPy, else NumPy."""
    return sys.modules["cupy"] if type(array).__module__.partition(".")[0] == "cupy" else np


def on_host(values: Any) -> Any:
    """An array of CuPy or Dask in NumPy, and all else as it is."""
    found = values.compute() if hasattr(values, "compute") else values
    return found.get() if hasattr(found, "get") else found


def _back(values: Any) -> Callable[[Any], Any]:
    """The function that makes arrays of the package of an array."""
    if hasattr(values, "__array_namespace__"):
        package = values.__array_namespace__()
    else:
        package = sys.modules[type(values).__module__.partition(".")[0]]
    return getattr(package, "from_dlpack", lambda array: array)


def _cupy(name: str) -> Any:
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(f"{name} lies on a GPU, and CuPy, which is needed there, is not installed: {error}") from None
    return cupy
