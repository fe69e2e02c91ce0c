"""`dsolver info`."""

from __future__ import annotations

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from dsolver import versions
from dsolver.devices import INSTALL, Gpu, find_gpu
from dsolver.kernels import DTYPES, findings
from dsolver.runtime import usable_cpus


@click.command("info", short_help="Show versions and devices.")
def command() -> None:
    """Show versions and devices, what is missing for GPUs and how to get it."""
    console = Console(highlight=False, soft_wrap=True)
    found = versions.installed()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, number in found.items():
        table.add_row(name, number or "not installed")
    console.print(table)
    console.print(f"CPUs that this process may use: {usable_cpus()}")
    gpu = find_gpu()
    if isinstance(gpu, Gpu):
        console.print(f"GPU: {gpu.name}, {gpu.memory / 2**30:.0f} GiB, PCI {gpu.bus}")
        console.print(f"launches of kernels: {launches()}")
    missing = missing_for_gpus(found, gpu)
    if not missing:
        console.print("Everything for GPUs is there.")
    for line in missing:
        console.print(f"missing for GPUs: {line}", markup=False)


def launches() -> str:
    """Whether launches follow from measurements on this model of GPU."""
    from dsolver.kernels.cuda import choice, probe

    known = findings.read(probe.model(0))
    tuned = [dtype for dtype in DTYPES if choice.kept(known, np.dtype(dtype).itemsize)]
    return f"measured for {' and '.join(tuned)}" if tuned else "by the GPU's properties; `dsolver tune` measures them"


def missing_for_gpus(found: dict[str, str | None], gpu: Gpu | str) -> list[str]:
    """What GPUs need and is not there, and how to get it."""
    missing = [] if isinstance(gpu, Gpu) else [gpu]
    if found["dask-cuda"] is None:
        missing.append(f"dask-cuda, which starts one worker for each GPU; {INSTALL}")
    if found["nccl"] is None:
        missing.append(f"NCCL, which exchanges halos between GPUs; {INSTALL}")
    return missing
