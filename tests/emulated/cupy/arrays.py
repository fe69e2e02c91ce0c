"""Arrays of the emulated GPU: NumPy's in guarded memory. As CuPy's, they do not mix with arrays of the host."""

from __future__ import annotations

import operator
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

POISON: Final = np.uint64(0x7FF75A5AFFF75A5A)
"""Content of memory that was never written: NaN as float64 and float32, a far-off integer."""
MARGIN: Final = 512  # bytes, on both sides of an array; arrays begin at multiples of it
REFUSED: Final = frozenset({"where", "initial", "like"})
"""Keyword arguments of NumPy's functions that CuPy's do not have."""

recording = threading.local()
"""State of a thread: `work` is the list of calls of the CUDA graph that it captures, if it does."""


class Guarded(np.ndarray[Any, np.dtype[np.uint8]]):
    """The bytes of an allocation and its margins, poisoned."""

    used: ClassVar[int] = 0
    """Bytes of all arrays that there are."""
    first: int  # byte of the array
    size_used: int = 0  # of views none
    margins: bytes

    def __del__(self) -> None:
        type(self).used -= self.size_used  # names of the module may be gone

    def outside(self) -> bytes:
        """The bytes of both margins."""
        end = self.first + self.size_used
        return self[self.first - MARGIN : self.first].tobytes() + self[end : end + MARGIN].tobytes()


def room(shape: Any, dtype: Any = float, order: Any = "C") -> Any:
    """A poisoned NumPy array in memory of the device."""
    dtype = np.dtype(dtype)
    shape = tuple(map(int, shape)) if np.ndim(shape) else (int(shape),)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    held = Guarded(size + 8 + 3 * MARGIN, np.uint8)
    held.first = MARGIN + -held.ctypes.data % MARGIN
    held.size_used = size
    Guarded.used += size
    held[held.first % 8 :][: (len(held) - 8) // 8 * 8].view(np.uint64)[:] = POISON
    held.margins = held.outside()
    return np.ndarray(shape, dtype, buffer=held, offset=held.first, order=order)


def memory_of(values: Any) -> Guarded | None:
    """The memory of the device that a NumPy array is a view of."""
    while values is not None and not isinstance(values, Guarded):
        values = getattr(values, "base", None)
    return values


def refuse_in_graphs() -> None:
    """Raises RuntimeError while a graph is captured: it records launches, copies and assignments alone."""
    if work() is not None:
        raise RuntimeError("the emulator records no such operation in a graph")


def work() -> list[Callable[[], Any]] | None:
    """The calls of the graph that this thread captures, if it does."""
    return getattr(recording, "work", None)


def given(x: Any) -> Any:
    """A NumPy function's result as the device's: arrays, and numbers as arrays without axes."""
    if isinstance(x, (np.ndarray, np.generic)):
        return Array.of(np.asarray(x))
    if isinstance(x, (tuple, list)):
        made = [given(one) for one in x]
        return type(x)(*made) if hasattr(x, "_fields") else type(x)(made)
    return x


def taken(x: Any) -> Any:
    """An argument for a NumPy function.

    Raises:
        TypeError: it is an array of the host.
    """
    if isinstance(x, Array):
        return x.host
    if isinstance(x, np.ndarray) and x.ndim:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    return type(x)(map(taken, x)) if isinstance(x, (tuple, list)) else x


def lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function for arrays of the device."""

    def call(*arguments: Any, out: Any = None, **options: Any) -> Any:
        if refused := REFUSED & options.keys():
            raise TypeError(f"CuPy has no keyword argument {sorted(refused)}")
        if options.get("kind") not in (None, "stable"):
            raise ValueError("CuPy sorts stably only")
        refuse_in_graphs()
        with np.errstate(all="ignore"):
            made = function(*map(taken, arguments), **{key: taken(value) for key, value in options.items()})
        if out is None:
            return given(made)
        out.host[...] = made
        return out

    return call


class Array:
    """An array on the emulated device, a view of some memory there."""

    __slots__ = ("__weakref__", "host")
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100
    host: Any

    def __init__(self, shape: Any, dtype: Any, memory: Any) -> None:
        """A view of contiguous memory, as `data` tells it."""
        self.host = memory.host.reshape(-1).view(dtype).reshape(shape)

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Array:
        """A NumPy array: as it is if it lies on the device, and a copy otherwise."""
        self = cls.__new__(cls)
        if memory_of(values) is None:
            refuse_in_graphs()
            fortran = values.flags.f_contiguous and not values.flags.c_contiguous
            self.host = room(values.shape, values.dtype, "F" if fortran else "C")
            self.host[...] = values
        else:
            self.host = values
        return self

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, out: Any = (None,), **options: Any) -> Any:
        return lifted(getattr(function, method))(*inputs, out=out[0], **options)

    def __array_function__(self, function: Any, _: Any, arguments: Any, options: Any) -> Any:
        return getattr(sys.modules[__package__], function.__name__)(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self.host, name)
        return lifted(found) if callable(found) else given(found) if isinstance(found, np.ndarray) else found

    @property
    def data(self) -> Any:
        """The memory, its address as `ptr`, and as `mem` what is the same for all parts of it."""
        whole = self.host
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        return types.SimpleNamespace(ptr=self.host.ctypes.data, host=self.host, mem=whole)

    @property
    def device(self) -> Any:
        from . import cuda

        return cuda.Device()

    def get(self, *, out: Any = None, **_: Any) -> Any:
        """A copy for the host."""
        refuse_in_graphs()
        if out is None:
            return self.host.copy()
        out[...] = self.host
        return out

    def reshape(self, *shape: Any, **options: Any) -> Array:
        """A view where that can be had, which takes no launch."""
        return Array.of(self.host.reshape(*shape, **options))

    def fill(self, value: Any) -> None:
        self[...] = value

    def sort(self, axis: int = -1) -> None:
        self.host.sort(axis, kind="stable")

    def __getitem__(self, key: Any) -> Any:
        key = tuple(map(_index, key)) if isinstance(key, tuple) else _index(key)
        found = self.host[key]
        if not isinstance(found, np.ndarray):  # a number: a view without axes
            found = self.host[(*(key if isinstance(key, tuple) else (key,)), ...)]
        return Array.of(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        key, value = tuple(map(_index, key)) if isinstance(key, tuple) else _index(key), taken(value)
        calls = work()
        if calls is None:
            self.host[key] = value
        else:
            calls.append(lambda: self.host.__setitem__(key, value))

    def __len__(self) -> int:
        return len(self.host)

    def __bool__(self) -> bool:
        return bool(self.host)

    def __int__(self) -> int:
        return int(self.host)

    def __float__(self) -> float:
        return float(self.host)

    def __index__(self) -> int:
        return operator.index(self.host)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return repr(self.host)


def _index(key: Any) -> Any:
    return key.host if isinstance(key, Array) else key


def _operator(name: str) -> Callable[..., Any]:
    call = lifted(getattr(np.ndarray, name))

    def run(self: Any, *other: Any) -> Any:
        return call(self, *other)

    return run


def _in_place(name: str) -> Callable[..., Any]:
    def run(self: Any, other: Any) -> Any:
        refuse_in_graphs()
        getattr(self.host, name)(taken(other))
        return self

    return run


for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
    "matmul",
):
    setattr(Array, f"__{_name}__", _operator(f"__{_name}__"))
    setattr(Array, f"__r{_name}__", _operator(f"__r{_name}__"))
    setattr(Array, f"__i{_name}__", _in_place(f"__i{_name}__"))
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "abs", "invert"):
    setattr(Array, f"__{_name}__", _operator(f"__{_name}__"))
