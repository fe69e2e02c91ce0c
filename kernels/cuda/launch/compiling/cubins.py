"""Machine code of kernels that comes with the package, in cubins/, which `.ci/compile_kernels.py` fills for a wheel.

A file's name has a hash of the text and the options that it was compiled from, so that of changed sources is not found.
A package without the folder, as a checkout is, compiles on first use.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[2] / "cubins"
_TARGET: Final = re.compile(r"cuda(\d+)-sm_(\d+)")


def target(toolkit: int, architecture: str) -> str:
    """The name of the folder for an architecture, "sm_90", compiled by a major version of CUDA."""
    return f"cuda{toolkit}-{architecture}"


def file_name(file: str, text: str, options: Sequence[str]) -> str:
    """The name there of what a source of this text, its headers pasted in, becomes with these options."""
    digest = hashlib.sha256("\0".join((text, *options)).encode()).hexdigest()
    return f"{file.removesuffix('.cu').replace('/', '.')}-{digest[:20]}.cubin"


def shipped(file: str, text: str, options: Sequence[str]) -> Path | None:
    """The machine code of a source for the devices of this process; None where there is none."""
    folder = of_devices()
    if folder is None:
        return None
    path = folder / file_name(file, text, options)
    return path if path.exists() else None


@cache
def of_devices() -> Path | None:
    """The folder for the devices of this process; None where it has none, or not one for all of them."""
    import cupy

    runtime = cupy.cuda.runtime
    driver = int(runtime.driverGetVersion()) // 1000
    devices = map(cupy.cuda.Device, range(int(runtime.getDeviceCount())))
    found = {fitting(FOLDER, driver, int(device.compute_capability)) for device in devices}
    return found.pop() if len(found) == 1 else None


def fitting(folder: Path, driver: int, capability: int) -> Path | None:
    """The folder of machine code for a device; None where there is none.

    A device runs what was compiled for its own compute capability or for a smaller one with the same major version,
    and a driver loads what compilers of its own or an earlier major version made.
    """
    usable = [
        (architecture, toolkit, path)
        for path, toolkit, architecture in _targets(folder)
        if toolkit <= driver and architecture // 10 == capability // 10 and architecture <= capability
    ]
    return max(usable)[2] if usable else None


def told() -> str:
    """The origin of the kernels for the devices of this process, in words."""
    if found := of_devices():
        return f"compiled in this package ({found.name})"
    there = ", ".join(sorted(path.name for path, _, _ in _targets(FOLDER)))
    return f"compiled on first use; this package has them for {there or 'no device'}"


def _targets(folder: Path) -> Iterator[tuple[Path, int, int]]:
    """The folders there with their toolkits and architectures."""
    for path in folder.glob("*"):
        if match := _TARGET.fullmatch(path.name):
            yield path, int(match[1]), int(match[2])
