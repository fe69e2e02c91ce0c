"""The system that `dsolver solve` is to solve: a stencil on a grid, diffusion, or a matrix from a file."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import click
import numpy as np
import numpy.typing as npt

import dsolver
from dsolver import problems
from dsolver.cli.options import Several, collected, file_option
from dsolver.cli.progress import announced
from dsolver.cli.system.case import SUFFIX, DiffusionCase, case_from, case_options, read_case
from dsolver.cluster.rows.file_rows import blocks_of_file
from dsolver.cluster.rows.row_blocks import results_of
from dsolver.dask_types import Client
from dsolver.errors import InputError
from dsolver.grid.box import Box
from dsolver.problems import Problem

PROBLEMS: Final[dict[str, Callable[..., Problem]]] = {
    "hpcg": problems.hpcg,
    "poisson5": problems.poisson5,
    "poisson7": problems.poisson7,
    "poisson27": problems.poisson27,
}


@dataclass(frozen=True, kw_only=True)
class SystemOptions:
    """Values of `system_options`."""

    kind: str | None  # name of a matrix on a grid, or a case file
    file: Path | None  # with a matrix
    grid: tuple[int, ...]
    partition: str
    kappa: tuple[str, ...]
    spacing: tuple[str, ...]
    bc: tuple[str, ...]
    sigma: str | None
    active: str | None
    mask: str | None
    source: str | None

    @property
    def case(self) -> DiffusionCase:
        """The case of `case_options`. InputError: a condition cannot be right."""
        conditions = {}
        for text in self.bc:
            face, equals, condition = text.partition("=")
            if not equals:
                raise InputError(f"--bc {text}: write FACE=CONDITION, such as x-=dirichlet:1")
            if face in conditions:
                raise InputError(f"--bc names {face} twice")
            conditions[face] = condition
        names = (each.name for each in fields(DiffusionCase))
        given = {**{name: getattr(self, name) for name in names}, "bc": conditions}
        return case_from({name: value for name, value in given.items() if value}, Path())


system_options = collected(
    "asked",
    SystemOptions,
    click.option(
        "--problem",
        "kind",
        metavar="NAME|FILE",
        help="Which matrix A on a grid. poisson7: diagonal 6, the six nearest points -1; poisson5: so in a plane. "
        "hpcg and poisson27: diagonal 26, the 26 nearest -1. Values outside the grid are zero. Or a case, a .toml file "
        "with what the options from --kappa to --source say, which take the place of its values.  [default: hpcg]",
    ),
    case_options,
    file_option(
        "--matrix",
        "file",
        help="A from a file in place of --problem: Matrix Market (.mtx, .mtx.gz, .mtx.bz2), SciPy's .npz, PETSc's "
        "binary format (.petsc, .bin), Harwell-Boeing (.rua, .rsa, .rb) or MATLAB's .mat. With --scheduler the workers "
        "read it, each its rows, from a folder that all of them see; with --grid or --partition graph this process "
        "reads it.",
    ),
    click.option(
        "--grid",
        cls=Several,
        type=int,
        metavar="NX NY NZ",
        help="Points along x, y and z, or fewer of a plane or a line. With --matrix: the lattice whose points A's rows "
        "are, the last axis fastest, so that multigrid serves A; --chunks is then as for a grid, else P for P ranges "
        "of rows.  Example: --grid 64 64 64",
    ),
    click.option(
        "--partition",
        type=click.Choice(["rows", "graph"]),
        default="rows",
        help="Which rows of --matrix a chunk has. rows: consecutive ones. graph: those that METIS puts together.",
    ),
)
"""Options that say what is solved."""


@dataclass(frozen=True, kw_only=True)
class SystemChoice:
    """A system as its options describe it, with the file of its right-hand side, or what makes that in its shape."""

    problem: Problem
    file: Path | None
    right: Callable[[], npt.NDArray[Any]]


def system_of(
    asked: SystemOptions,
    *,
    chunks: tuple[int, ...] | None = None,
    rhs: Path | None = None,  # file of the right-hand side
    client: Client | None = None,  # of a cluster whose workers read the matrix; None to read it here
    gpu: bool = False,  # whether a matrix that is read here is checked and kept on the GPU of this process
) -> SystemChoice:
    """The system of options, and its right-hand side. InputError: they exclude each other, or one cannot be right."""
    kind, file, grid, partition, case = asked.kind, asked.file, asked.grid, asked.partition, asked.case
    if file is None:
        if partition != "rows":
            raise InputError("--partition is for the rows of a --matrix: a grid is cut into boxes by --chunks")
        if case.asked or (kind or "").endswith(SUFFIX):
            return _diffusion(kind, case, chunks, rhs)
        if kind is not None and kind not in PROBLEMS:
            raise InputError(f"--problem {kind}: name {', '.join(PROBLEMS)}, or a case, a file that ends with {SUFFIX}")
        if not grid:
            raise InputError("give --grid NX NY NZ, or --matrix FILE, or --kappa FILE")
        problem = PROBLEMS[kind or "hpcg"](grid, chunks=chunks)
        return SystemChoice(problem=problem, file=rhs, right=partial(sums_of_stencil, problem))
    if kind is not None or case.asked:
        raise InputError("--matrix takes the place of --problem and of --kappa to --source: give one of them")
    cut: Any = chunks
    if not grid and chunks is not None:
        if chunks[1:] not in ((), (1, 1)):
            raise InputError(f"--chunks {' '.join(map(str, chunks))}: rows of a matrix are cut as P 1 1")
        cut = chunks[0]
    if client is not None:
        return _on_cluster(file, client, cut, rhs)
    with announced(f"reading {file} ..."):
        a = dsolver.read_matrix(file)
        device: Literal["cpu", "cuda"] = "cuda" if gpu else "cpu"
        found = dsolver.matrix(a, chunks=cut, partition=partition, grid=grid or None, name=file.name, device=device)
    return SystemChoice(problem=found, file=rhs, right=partial(sums_of_rows, a))


def _on_cluster(file: Path, client: Client, chunks: int | None, rhs: Path | None) -> SystemChoice:
    """A matrix that the workers read."""
    blocks = blocks_of_file(file.absolute(), client, chunks)
    problem = dsolver.matrix_from_blocks(blocks, client=client, name=file.name)

    def right() -> npt.NDArray[Any]:
        return np.concatenate(results_of(client, client.map(sums_of_rows, blocks)))

    return SystemChoice(problem=problem, file=rhs, right=right)


def _diffusion(kind: str | None, case: DiffusionCase, chunks: tuple[int, ...] | None, rhs: Path | None) -> SystemChoice:
    """Diffusion from options, or from a case file that options add to."""
    if rhs is not None:
        raise InputError("diffusion has a source, f, in place of --rhs: give it with --source")
    name = "diffusion"
    if kind is not None:
        if not kind.endswith(SUFFIX):
            raise InputError(f"--kappa to --source describe diffusion: leave out --problem {kind}, or name a case")
        case, name = case.over(read_case(Path(kind))), Path(kind).stem
    problem = case.problem(chunks, name)
    file = case.source if isinstance(case.source, Path) else None
    return SystemChoice(problem=problem, file=file, right=partial(case.right, problem))


def sums_of_rows(a: Any) -> npt.NDArray[Any]:
    """A 1 of some rows of a matrix of SciPy, (rows,), float64 or complex128."""
    sums = np.asarray(a.sum(axis=1)).ravel()
    return sums.astype(np.result_type(sums.dtype, np.float64))


def sums_of_stencil(problem: Problem) -> npt.NDArray[np.float64]:
    """A 1 of a constant stencil: for each row the sum of its entries, shape ``problem.shape``."""
    domain = Box(lo=(0, 0, 0), hi=problem.grid)
    out = np.zeros(problem.grid)
    for (i, j, k), weight in zip(problem.offsets, problem.weights, strict=True):
        inside = domain.intersect(domain.shifted((-i, -j, -k)))
        if inside is not None:
            out[inside.slices] += weight
    return out.reshape(problem.shape)
