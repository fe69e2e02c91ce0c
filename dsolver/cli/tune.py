"""`dsolver tune`."""

from __future__ import annotations

import importlib
import time
from typing import Any

import click
from rich.console import Console

from dsolver import kernels
from dsolver.cluster.devices import Gpu, copy_bandwidth, find_gpu
from dsolver.errors import DeviceError
from dsolver.kernels import device_cache


@click.command("tune", short_help="Measure how kernels are best launched on this GPU.")
@click.option(
    "--precond-dtype",
    "dtypes",
    type=click.Choice(kernels.DTYPES),
    multiple=True,
    help="Value type of the kernels to measure; may be given twice.  [default: all]",
)
def command(dtypes: tuple[str, ...]) -> None:
    """Measure how kernels are best launched on this GPU, and keep what is found for all later runs.

    Without it, launches follow from the device's properties. On a model of GPU that this package was not developed on,
    a second spent here may bring some percent. Results stay the same to the last bit. What is found is kept in the
    user's folder for caches, or in the one that DSOLVER_CACHE names; it holds for this model, driver and version of the
    kernels. On a cluster, run it once on each kind of node.
    """
    gpu = find_gpu()
    if not isinstance(gpu, Gpu):
        raise DeviceError(f"there is nothing to tune: {gpu}")
    console = Console(highlight=False, soft_wrap=True, markup=False)
    tuning: Any = importlib.import_module("dsolver.kernels.cuda.hpcg.tuning")
    console.print(f"{gpu.name}: a copy moves {copy_bandwidth() / 1e9:.0f} GB/s")
    for dtype in dtypes or kernels.DTYPES:
        began = time.perf_counter()
        best = tuning.tune(kernels.load("cuda", dtype=dtype), lambda trial: console.print(line(trial)))
        console.print(f"{dtype}: {best}, in {time.perf_counter() - began:.1f} s")
    console.print(f"kept in {device_cache.folder()}" if device_cache.folder() else "kept nowhere: DSOLVER_CACHE=off")


def line(trial: Any) -> str:
    """A trial in words."""
    return f"  {trial.size}³ points, {trial.choice}: {trial.seconds * 1e3:.3f} ms for a pre- and a post-smoother"
