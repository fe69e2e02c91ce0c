"""`dsolver report`."""

from pathlib import Path

import click

from dsolver.cli import files
from dsolver.cli.options import file_option
from dsolver.cli.outputs import force_option
from dsolver.cli.progress import announced
from dsolver.monitor.pages.report import read, write


@click.command(
    "report",
    epilog="""
\b
Examples:
  dsolver hpcg --grid 64 64 64 --json run.json --spans run.jsonl
  dsolver report run.json run.jsonl -o report.html
  dsolver solve --problem poisson7 --grid 64 64 64 --json solve.json && dsolver report solve.json -o solve.png
  dsolver report one.json two.json four.json -o scaling.png
""",
)
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@file_option(
    "-o", "--out", required=True, help="Where to: .html for one page that needs no other file, .png for a picture."
)
@force_option
def command(*, runs: tuple[Path, ...], out: Path, force: bool) -> None:
    """Show convergence, the lanes of a measured iteration, kernels against the copy bandwidth, and several runs' speed.

    FILE is what `dsolver solve --json`, `dsolver hpcg --json`, `--spans` or `bench/gpu.py --json` has written.
    """
    files.check_output(out, force=force, suffixes=(".html", ".png"))
    with announced(f"making {out} ..."):
        write(read(runs), out)
    click.echo(out)
