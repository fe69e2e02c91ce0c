"""`dsolver info`, of this machine or of a matrix from a file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import dsolver
from dsolver.cli.options import device_option
from dsolver.cli.progress import announced
from dsolver.cluster import versions
from dsolver.cluster.devices import INSTALL, Gpu, find_gpu, planned
from dsolver.cluster.runtime import DeviceName
from dsolver.errors import InputError
from dsolver.kernels import usable_cpus
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.choice import DENSE
from dsolver.kernels.formats.statistics import Statistics
from dsolver.kernels.general.selection import chosen
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners.auto import usual_preconditioner
from dsolver.preconditioners.registry import preconditioner_of
from dsolver.program.spec import method_for
from dsolver.units import amount


@click.command("info")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--workers", type=click.IntRange(1), default=1, help="Workers to forecast memory for.")
@device_option("Their device. auto: GPUs if this machine has one.")
def command(*, file: Path | None, workers: int, device: DeviceName) -> None:
    """Show versions and devices, what is missing for GPUs and how to get it.

    With FILE, a matrix that `dsolver solve --matrix` can read: its rows and entries, its symmetry, the formats that it
    gets and why, and the memory that a solve takes on each worker.
    """
    if file is not None:
        with announced(f"reading {file} ..."):
            told = [*facts(file, workers, device)]
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


CSR_BYTES = 12  # bytes of an entry of compressed rows with columns of 32 bits


def facts(path: Path, workers: int, device: DeviceName) -> Iterator[tuple[str, str]]:
    """Names and values of what is known of a matrix before it is solved with. InputError: the file holds none."""
    a = dsolver.read_matrix(path)
    rows, lengths = a.shape[0], np.diff(a.indptr)
    yield "rows", f"{rows}"
    yield "entries", f"{a.nnz}, {amount(CSR_BYTES * a.nnz)} with their columns"
    yield "entries of a row", f"{lengths.min()} at least, {a.nnz / rows:.3g} on average, {lengths.max()} at most"
    yield "bandwidth", f"{bandwidth(a)}"
    try:
        given = dsolver.matrix(a)
        problem = given.planned(workers)
    except InputError as error:
        yield "not solved", str(error)
        return
    assert isinstance(problem, MatrixProblem)
    if problem.complex:
        yield "numbers", "complex; what follows is of the real matrix that M is made of, but for the memory"
    yield "symmetric", f"no: {problem.asymmetry}" if problem.asymmetry else "Hermitian" if problem.hermitian else "yes"
    yield "diagonal", problem.hollow or ("not positive everywhere" if problem.indefinite else "positive")
    yield "constants", "solve A x = 0: solutions have mean zero" if problem.singular else "do not solve A x = 0"
    known = [counts.local for counts in problem.counts]
    yield "blocks", blocks(known)
    for name, gpu in (("format on GPUs", True), ("format on CPUs", False)):
        yield name, "; ".join(dict.fromkeys(str(chosen(None, each, gpu=gpu)) for each in known))
    usual = usual_preconditioner(given, None, planned(device, find_gpu()))
    yield "solved by", f"{method_for(given, None, preconditioner_of(usual))} with M={usual!r}"
    yield "memory", str(dsolver.estimate(given, workers=workers, device=device, bandwidth=1.0)).partition("\n")[0]


def blocks(known: Sequence[Statistics]) -> str:
    """The largest dense blocks of which the rows of all chunks mostly consist."""
    fills = {b: min(each.stored[b].fill if b in each.stored else 0.0 for each in known) for b in BLOCKS if b > 1}
    full = [b for b, fill in fills.items() if fill >= DENSE]
    return f"{max(full)} x {max(full)}, {100.0 * fills[max(full)]:.0f} % full" if full else "none that are mostly full"


def bandwidth(a: Any) -> int:
    """Largest distance of an entry of compressed rows from the diagonal; the columns of each row ascend."""
    filled = np.flatnonzero(np.diff(a.indptr))
    first, last = a.indices[a.indptr[filled]], a.indices[a.indptr[filled + 1] - 1]
    return int(max((filled - first).max(initial=0), (last - filled).max(initial=0)))
