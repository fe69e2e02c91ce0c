"""`dsolver info`."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from dsolver.cli import matrix_info
from dsolver.cli.progress import announced
from dsolver.cluster import versions
from dsolver.cluster.devices import INSTALL, Gpu, find_gpu
from dsolver.cluster.runtime import DeviceName
from dsolver.kernels import usable_cpus


@click.command("info")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--workers", type=click.IntRange(1), default=1, show_default=True, help="For how many workers memory is forecast."
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Their device. auto: GPUs if this machine has one.",
)
def command(*, file: Path | None, workers: int, device: DeviceName) -> None:
    """Show versions and devices, what is missing for GPUs and how to get it.

    With FILE, a matrix that `dsolver solve --matrix` can read: its rows and entries, its symmetry, the formats that it
    gets and why, and the memory that a solve takes on each worker.
    """
    if file is not None:
        with announced(f"reading {file} ..."):
            told = [*matrix_info.facts(file, workers, device)]
        for name, value in told:
            click.echo(f"{name:<18}{value}")
        return
    console = Console(highlight=False, soft_wrap=True, markup=False)
    found = versions.installed()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, number in found.items():
        table.add_row(name, number or "not installed")
    console.print(table)
    console.print(f"CPUs that this process may use: {usable_cpus()}")
    gpu = find_gpu()
    if isinstance(gpu, Gpu):
        console.print(f"GPU: {gpu.name}, {gpu.memory / 2**30:.0f} GiB, PCI {gpu.bus}")
        console.print(f"kernels: {compiled()}")
    missing = missing_for_gpus(found, gpu)
    if not missing:
        console.print("Everything for GPUs is there.")
    for line in missing:
        console.print(f"missing for GPUs: {line}")


def compiled() -> str:
    """The origin of the kernels' machine code, in words."""
    from dsolver.kernels.cuda.launch.compiling import cubins

    return cubins.told()


def missing_for_gpus(found: dict[str, str | None], gpu: Gpu | str) -> list[str]:
    """Packages that GPUs need and that are not there, and how to get them."""
    missing = [] if isinstance(gpu, Gpu) else [gpu]
    if found["dask-cuda"] is None:
        missing.append(f"dask-cuda, which starts one worker for each GPU; {INSTALL}")
    if found["nccl"] is None:
        missing.append(f"NCCL, which exchanges halos between GPUs; {INSTALL}")
    return missing
