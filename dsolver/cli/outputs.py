"""Outputs of a command beside its result, and the options for them."""

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from dsolver.cli import files
from dsolver.cli.options import F, collected, file_option
from dsolver.errors import InputError

force_option = click.option("--force", is_flag=True, help="Replace an existing output file. Default: refuse to start.")


def json_option(what: str, example: str) -> Callable[[F], F]:
    """The option --json, which writes something (in words) to a file, for `example`, or to stdout."""
    return file_option(
        "--json",
        "json_file",
        help=f"Also write {what} to this file, as JSON; with - to stdout, which then has nothing else.  "
        f"Example: --json {example}",
    )


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Files and words of a command beside its result; ``-`` for the JSON file is stdout."""

    json_file: Path | None
    spans_file: Path | None
    trace_file: Path | None
    force: bool
    quiet: bool
    verbose: bool

    @property
    def alone(self) -> bool:
        """Whether stdout is to have nothing but JSON."""
        return self.json_file == files.STDOUT

    def begin(self, *others: Path | None) -> None:
        """Set the volume and refuse files that are there, or that are one of others. InputError: it is so."""
        set_volume(quiet=self.quiet, verbose=self.verbose)
        for file in (self.spans_file, self.trace_file, None if self.alone else self.json_file):
            files.check_output(file, force=self.force)
        files.check_apart(*others, self.spans_file, self.trace_file, self.json_file)


def output_options(what: str, example: str) -> Callable[[F], F]:
    """Options of `Outputs`; what, example: as of `json_option`."""
    return collected(
        "outputs",
        Outputs,
        json_option(what, example),
        file_option(
            "--spans",
            "spans_file",
            help="Write what ran when, in the iterations that were measured, as JSON lines.  "
            "Example: --spans spans.jsonl",
        ),
        file_option(
            "--trace",
            "trace_file",
            help="Write the same as a trace, which ui.perfetto.dev and chrome://tracing open.  "
            "Example: --trace trace.json",
        ),
        force_option,
        click.option("-q", "--quiet", is_flag=True, help="Print the outcome alone: no progress, no details."),
        click.option("-v", "--verbose", is_flag=True, help="Also say what is decided and done on the way."),
    )


def set_volume(*, quiet: bool, verbose: bool) -> None:
    """Show this package's log on stderr: everything, warnings, or errors alone. InputError: both were asked for."""
    if quiet and verbose:
        raise InputError("--quiet and --verbose exclude each other")
    handler = logging.StreamHandler()  # to stderr
    handler.setFormatter(_LogLines("%(levelname)s %(message)s"))
    ours = logging.getLogger("dsolver")
    ours.handlers = [handler]
    ours.setLevel(logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING)
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    for name in ("asyncio", "distributed.batched"):
        logging.getLogger(name).addFilter(worth_telling)


class _LogLines(logging.Formatter):
    """Lines of the log. That kernels are compiled is a warning only so that Python shows it by itself."""

    def format(self, record: logging.LogRecord) -> str:
        return record.getMessage() if record.name.endswith(".first_use") else super().format(record)


CUT_OFF: Final = ("Task exception was never retrieved", "Batched Comm Closed")
"""Beginnings of what Dask logs of calls and of messages that a lost connection has cut off."""


def worth_telling(record: logging.LogRecord) -> bool:
    """False for what a lost connection has cut off: the command itself says that the cluster is gone."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, OSError) and record.getMessage().startswith(CUT_OFF))
