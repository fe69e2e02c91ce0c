"""Options that the commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from dsolver.cli import progress
from dsolver.dask_types import Client
from dsolver.kernels import DTYPES

if TYPE_CHECKING:
    from dsolver.cluster.local import ClusterOptions
    from dsolver.cluster.runtime import DeviceName, EngineName, KernelsName, Runtime

F = TypeVar("F", bound=Callable[..., Any])


def with_options(*options: Callable[..., Any]) -> Callable[[F], F]:
    """Decorator of a command that gets these options, in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def collected(name: str, kind: type[Any], *options: Callable[..., Any]) -> Callable[[F], F]:
    """Decorator of a command that gets these options; those that are fields of a dataclass come as one argument."""
    names = [field.name for field in fields(kind)]

    def add(command: F) -> F:
        @wraps(command)
        def collecting(*args: Any, **values: Any) -> Any:
            made = kind(**{each: values.pop(each) for each in names})
            return command(*args, **{name: made}, **values)

        return with_options(*options)(cast(F, collecting))

    return add


def file_option(*names: str, **attributes: Any) -> Callable[[F], F]:
    """An option whose value is a path."""
    return click.option(*names, **{"type": click.Path(path_type=Path), "metavar": "FILE", **attributes})


def device_option(told: str) -> Callable[[F], F]:
    """The option --device, with what is told of it."""
    return click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", help=told)


class Several(click.Option):
    """An option that takes all values up to the next option, as ``--grid 64 64``; its value is a tuple."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **{**attributes, "multiple": True})


class Command(click.Command):
    """A command that may have options of the kind `Several`. It has no arguments beside options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the name of such an option before each of its values, as click wants it."""
        several = {name for option in self.params if isinstance(option, Several) for name in option.opts}
        written: list[str] = []
        name = ""
        for text in args:
            if text.startswith("--") or (text[:1] == "-" and text[1:2].isalpha()):
                name = text if text in several else ""
            elif name and written[-1] != name:
                written.append(name)
            written.append(text)
        return super().parse_args(ctx, written)


@dataclass(frozen=True, kw_only=True)
class Where:
    """The cluster, engine and device of a command: see `cluster.runtime.connect` and `cluster.local.ClusterOptions`."""

    engine: EngineName
    device: DeviceName
    kernels: KernelsName
    workers: int | None
    scheduler: str | None
    wait: int | None = None

    def __post_init__(self) -> None:
        self.cluster()  # what they say of a cluster is checked before anything is done

    def cluster(self) -> ClusterOptions:
        """The choice of a cluster."""
        from dsolver.cluster.local import ClusterOptions  # as below: commands without a cluster need not wait for it

        return ClusterOptions(
            workers=self.workers,
            scheduler=self.scheduler,
            wait=self.wait,
            device="cpu" if self.kernels == "numpy" and self.device == "auto" else self.device,
            engine=self.engine,
        )

    @contextmanager
    def client(self) -> Iterator[Client | None]:
        """The client, while the cluster is open; None, where none is asked for."""
        if self.workers is None and self.scheduler is None:
            yield None
            return
        from dsolver.cluster.local import open_client

        with ExitStack() as open_, progress.announced(self._awaited):
            client = open_.enter_context(open_client(self.cluster()))
            closing = open_.pop_all()
        with closing:
            if client is not None and progress.talks():
                with suppress(KeyError, AttributeError):  # a scheduler without dashboard
                    click.echo(f"dashboard: {_page(client, client.dashboard_link)}", err=True)
            yield client

    @property
    def gpu_here(self) -> bool:
        """Whether the GPU of this process does the arithmetic."""
        from dsolver.session.arguments import on_gpu_here
        from dsolver.session.options import Setup

        alone = self.workers is None and self.scheduler is None
        return alone and on_gpu_here(Setup(device=self.device, kernels=self.kernels))

    @property
    def _awaited(self) -> str:
        """The text shown while `client` waits."""
        if self.wait is not None:
            return f"waiting for {self.wait} workers at {self.scheduler} ..."
        if self.scheduler is not None:
            return f"connecting to {self.scheduler} ..."
        return f"starting {self.workers} workers on this machine ..."

    @contextmanager
    def runtime(self) -> Iterator[Runtime]:
        """The runtime, while the cluster is open."""
        from dsolver.cluster.runtime import connect

        with self.client() as client:
            yield connect(client, engine=self.engine, device=self.device, kernels=self.kernels)


where_options = collected(
    "place",
    Where,
    click.option(
        "--chunks",
        cls=Several,
        type=int,
        metavar="PX PY PZ",
        help="How many chunks to cut the grid into along x, y and z. HPCG's V-cycle needs chunks whose sides "
        "are divisible by 8. Default: one chunk for each worker.  Example: --chunks 2 2 2",
    ),
    click.option(
        "--engine",
        type=click.Choice(["reference", "graph", "resident"]),
        default="resident",
        help="How operations run. resident: a program that stays in each worker (fast). graph: every operation a "
        "Dask task, to watch on the dashboard; needs --workers or --scheduler. reference: one after the other in "
        "this process.",
    ),
    click.option(
        "--order",
        default="color8",
        help="In which order the smoother of HPCG's V-cycle visits the points. color8: eight colors, parallel. "
        "natural: row by row. greedy, jpl, cc, block-greedy, block-jpl, block-cc, levels: colorings. Or the eight "
        'colors in an order of your own.  Example: --order "7 5 2 6 1 4 3 0"',
    ),
    device_option(
        "Where the arithmetic runs. auto: on GPUs if every worker has one, else on CPUs.  Example: --device cuda"
    ),
    click.option(
        "--kernels",
        type=click.Choice(["auto", "numpy"]),
        default="auto",
        help="Which implementation. auto: the device's own. numpy: the slow text-book one, for checking.",
    ),
    click.option(
        "--workers",
        type=int,
        metavar="N",
        help="Start a Dask cluster with N workers on this machine for this run (one a GPU with --device cuda). "
        "Default: no cluster, everything runs in this process.  Example: --workers 2",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Use a running Dask cluster: its scheduler's address, or the file (.json) that it wrote it to.  "
        "Example: --scheduler tcp://10.0.0.1:8786",
    ),
    click.option(
        "--wait-workers",
        "wait",
        type=int,
        metavar="N",
        help="With --scheduler: begin when the cluster has N workers. Default: with those that are there.",
    ),
)
"""Options that say how the grid is cut and where the solve runs."""


dtype_option = click.option(
    "--dtype",
    type=click.Choice(DTYPES),
    default="float64",
    help="Value type of the whole system. float32: A, preconditioner and vectors take half the memory, x is float32, "
    "and an --rtol below 1e-7 becomes 1e-5.",
)


precond_dtype_option = click.option(
    "--precond-dtype",
    type=click.Choice(("auto", *DTYPES)),
    default="auto",
    help="Value type of the preconditioner. float32 moves half the bytes; the system stays in float64. auto: float32 "
    "for multigrid on GPUs.",
)


def _page(client: Client, link: str) -> str:
    """The address of the page /dsolver, which is there from now on; that of Dask's where there is none."""
    from dsolver.monitor.dashboard import PATH, attach

    return link.removesuffix("/status") + PATH if attach(client) else link
