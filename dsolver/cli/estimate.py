"""`dsolver estimate`."""

import json
from pathlib import Path

import click

import dsolver
import dsolver.benchmarks.hpcg  # whose V-cycle is one of the names of --precond
from dsolver.cli import files
from dsolver.cli.options import Command, device_option, dtype_option, precond_dtype_option
from dsolver.cli.outputs import force_option, json_option
from dsolver.cli.system.choice import SystemOptions, system_of, system_options
from dsolver.cluster.runtime import DeviceName
from dsolver.krylov.methods import METHODS
from dsolver.preconditioners.registry import AUTO, NAMED
from dsolver.session.options import PrecondDtype, ValueType

EPILOG = """
\b
Examples:
  dsolver estimate --problem poisson7 --grid 1024 1024 1024 --workers 8 --device cuda
  dsolver estimate --problem hpcg --grid 4096 4096 4096 --precond hpcg --workers 4096 --per-host 8
"""


@click.command("estimate", cls=Command, epilog=EPILOG)
@system_options
@click.option("--workers", type=int, default=1, metavar="N", help="Workers of the planned cluster.")
@click.option(
    "--per-host",
    type=int,
    metavar="N",
    help="GPUs of a host. Adds curves of weak and strong scaling up to --workers, and what stops them. Without a GPU "
    "here, those of H200s.  Example: --workers 4096 --per-host 8",
)
@device_option("Their device. auto: GPUs if this machine has one, or with --per-host.")
@click.option("--precond", type=click.Choice(tuple(NAMED)), default=AUTO, help="As of `dsolver solve`.")
@click.option("--method", type=click.Choice(tuple(METHODS)), help="As of `dsolver solve`.")
@click.option("--together", type=int, default=1, metavar="N", help="Right-hand sides given at once.")
@dtype_option
@precond_dtype_option
@json_option("the forecast", "forecast.json")
@force_option
def command(
    *,
    asked: SystemOptions,
    workers: int,
    per_host: int | None,
    device: DeviceName,
    precond: str,
    method: str | None,
    together: int,
    dtype: ValueType,
    precond_dtype: PrecondDtype,
    json_file: Path | None,
    force: bool,
) -> None:
    """Forecast what `dsolver solve` would take: memory of each worker, iterations and a rough time.

    With --per-host also the time of an iteration and of set-up on one GPU and more, for as many points on each (weak
    scaling) and for this grid (strong scaling). Nothing is allocated or started.
    """
    alone = json_file == files.STDOUT
    files.check_output(None if alone else json_file, force=force)
    found = dsolver.estimate(
        system_of(asked).problem,
        workers=workers,
        per_host=per_host,
        device="cuda" if per_host is not None and device == "auto" else device,
        M=precond,
        method=method,
        together=together,
        dtype=dtype,
        precond_dtype=precond_dtype,
    )
    if json_file is not None:
        files.write_json(json_file, json.dumps(found.to_dict(), indent=1))
    if not alone:
        click.echo(repr(found))
