"""Launches on the emulated GPU: arguments are compared with the parameters, and writes beside arrays are found."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any, Final

import numpy as np

from tests.emulated import compiler

from . import arrays, cuda
from .arrays import Array

MOST_SHARED: Final = 232448  # bytes of a block
DEFAULT_SHARED: Final = 49152  # unless the kernel asks for more


class RawKernel:
    """A kernel of a CUDA source, compiled for the CPU at its first launch."""

    def __init__(self, code: str, name: str, options: tuple[str, ...] = ()) -> None:
        self.code, self.name = code, name
        self.definitions = tuple(option for option in options if option.startswith("-D"))
        self.max_dynamic_shared_size_bytes = DEFAULT_SHARED
        self.preferred_shared_memory_carveout = -1

    @cached_property
    def compiled(self) -> compiler.Kernel:
        return _compiled(self.code, self.definitions, self.name)

    def __call__(self, grid: Any, block: Any, arguments: Any, *, shared_mem: int = 0) -> None:
        grid, block = ((*map(int, one), 1, 1)[:3] for one in (grid, block))
        if min(grid + block) < 1 or max(grid[1:]) > 65535 or int(np.prod(block)) > 1024:
            raise cuda.driver.CUDADriverError(f"{self.name}: CUDA_ERROR_INVALID_VALUE: grid {grid}, block {block}")
        if shared_mem > min(self.max_dynamic_shared_size_bytes, MOST_SHARED):
            raise cuda.driver.CUDADriverError(f"{self.name}: {shared_mem} bytes of shared memory are not allowed")
        parameters = self.compiled.parameters
        if len(parameters) != len(arguments):
            raise TypeError(f"{self.name} takes {len(parameters)} arguments and got {len(arguments)}")
        raw = [
            _bytes(argument, parameter, f"{self.name}, argument {n}")
            for n, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True))
        ]
        memories = [arrays.memory_of(one.host) for one in arguments if isinstance(one, Array)]

        def launch() -> None:
            self.compiled.run(grid, block, raw, shared_mem)
            for memory in memories:
                if memory is not None and memory.outside() != memory.margins:
                    raise compiler.EmulationError(f"kernel {self.name} wrote beside one of its arrays")

        work = arrays.work()
        if work is None:
            launch()
        else:
            work.append(launch)


class RawModule:
    """The kernels of a CUDA source, each compiled at its first launch. It reads no machine code of a GPU."""

    def __init__(self, *, code: str, options: tuple[str, ...] = ()) -> None:
        self.code, self.options = code, options

    def compile(self) -> None: ...

    def get_function(self, name: str) -> RawKernel:
        return RawKernel(self.code, name, self.options)


@cache
def _compiled(code: str, definitions: tuple[str, ...], name: str) -> compiler.Kernel:
    return compiler.Kernel(code, definitions, name)


def _bytes(argument: Any, parameter: str, which: str) -> bytes:
    """The bytes of an argument, compared with the parameter's type ("f8", "i4", "V16", with a star for addresses)."""
    if argument is None:
        argument = np.uint64(0)
    if isinstance(argument, Array):
        have, raw = f"*{_type(argument.dtype)}", np.uint64(argument.data.ptr).tobytes()
        if parameter.startswith("*V"):  # a table's words
            return raw
    else:
        value = np.asarray(argument)
        have, raw = _type(value.dtype), value.tobytes()
        if parameter.startswith("*") and have == "i8":  # an address
            return raw
    if have != parameter and not (parameter.startswith("V") and len(raw) == int(parameter[1:])):
        raise TypeError(f"{which} is {have}, the parameter {parameter}")
    return raw


def _type(dtype: np.dtype[Any]) -> str:
    return f"{'f' if dtype.kind == 'f' else 'i' if dtype.kind in 'iub' else 'V'}{dtype.itemsize}"
