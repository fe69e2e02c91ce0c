"""Recorded histories: small solves whose residuals and solutions may not change by a bit, whatever is moved or renamed.

Writes what this checkout computes, on CPUs and on one GPU, or prints which records differ and exits with 1:

    python -m tests.support.recorded --write | --compare [--device cuda]

A record is written anew only where results are meant to change; the commit that does so says why. This file uses
nothing but dsolver's public functions and its command, so that a copy of it runs in older checkouts as well.

Right-hand sides and coefficients are made of additions, products, integers and uniform random numbers: a function of a
mathematical library might be rounded in another way on another machine.

The bits of a CPU are those of any x86 processor with fused multiply-add (Haswell and later). numba contracts products
and sums of the matrix passes, and without that instruction most histories differ from the seventh digit of the true
residual on. Nothing else of a processor matters: dense inverses and dot products are made by sums in a fixed order, and
the only call of LAPACK, for the 10 x 10 tridiagonal matrix of M="chebyshev", is too small for kernels of its own. The
records were the same with OpenBLAS' kernels for Prescott, Haswell and SkylakeX, on one thread and two, with NumPy's
vector instructions switched off, and compiled for Haswell in place of a processor with AVX-512.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
from click.testing import CliRunner

import dsolver
from dsolver import problems
from dsolver.cli import main
from dsolver.problems import Dirichlet, Problem, Robin

F64 = npt.NDArray[np.float64]
Triple = tuple[int, int, int]
History = dict[str, Any]
"""Record of one right-hand side: see `history`."""

FOLDER: Final = Path(__file__).parents[1] / "records"
FILES: Final = {"cpu": FOLDER / "histories.json", "cuda": FOLDER / "histories_cuda.json"}
CUTS: Final[tuple[Triple, ...]] = ((1, 1, 1), (2, 1, 1), (2, 2, 2))
ODD: Final[Triple] = (21, 18, 23)
EVEN: Final[Triple] = (24, 16, 32)
MOST: Final = 40
"""Iterations of a solve: enough for multigrid to converge, and for other preconditioners to go through every branch."""


def noise(grid: Triple, seed: int = 1) -> F64:
    """Uniform random numbers in -0.5 .. 0.5, float64 (nx, ny, nz)."""
    return np.random.default_rng(seed).random(grid) - 0.5


def several(grid: Triple) -> list[F64]:
    """Right-hand sides that take different numbers of iterations; one is zero."""
    ramp = np.broadcast_to(np.arange(grid[0])[:, None, None] / 64.0, grid)
    return [noise(grid), 2.0**-30 * ramp, np.zeros(grid), 2.0**20 * noise(grid, 2)]


# -- coefficients ------------------------------------------------------------------------------------------------------


def smooth(x: Any, y: Any, z: Any) -> Any:
    """κ between 1 and about 30."""
    return 1.0 + 0.03 * x * x + 0.5 * y + 0.01 * x * z


def blocks(grid: Triple, seed: int = 3, ratio: float = 10000.0) -> F64:
    """κ of 1 or the ratio in random blocks of 3 x 2 x 4 cells."""
    high = np.random.default_rng(seed).integers(0, 2, [-(-n // size) for n, size in zip(grid, (3, 2, 4), strict=True)])
    whole = high.repeat(3, axis=0).repeat(2, axis=1).repeat(4, axis=2)[: grid[0], : grid[1], : grid[2]]
    return np.where(whole > 0, ratio, 1.0)


def ball(x: Any, y: Any, z: Any) -> Any:
    """Cells of a ball near the middle."""
    return (x - 10.0) * (x - 10.0) + (y - 8.0) * (y - 8.0) + (z - 11.0) * (z - 11.0) < 20.0


def rooms(grid: Triple) -> npt.NDArray[np.bool_]:
    """Walls of one cell around closed rooms of 5 x 6 x 7 cells and less."""
    i, j, k = np.indices(grid)
    return np.asarray((i % 6 == 5) | (j % 7 == 6) | (k % 8 == 7))


def pores(grid: Triple, seed: int = 4) -> npt.NDArray[np.bool_]:
    """Cells that are solid with a probability of 0.45: pores that are open, and pockets that are not."""
    return np.asarray(np.random.default_rng(seed).random(grid) < 0.45)


def mixed_weights(grid: Triple, seed: int = 5) -> dict[Triple, F64]:
    """A 7-point matrix with random couplings, given row by row."""
    rng = np.random.default_rng(seed)
    weights = {(0, 0, 0): np.full(grid, 6.25)}
    for axis in range(3):
        step: Triple = (int(axis == 0), int(axis == 1), int(axis == 2))
        ahead = -0.5 - 0.5 * rng.random(grid)
        weights[step], weights[(-step[0], -step[1], -step[2])] = ahead, np.roll(ahead, 1, axis)
    return weights


# -- the problems ------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class Case:
    """A problem that is solved in several cuts.

    Attributes:
        make: the problem of a cut.
        setup: keyword arguments of `dsolver.Solver`.
        solve: keyword arguments of its `solve`; `rtol` is 1e-9 and `maxiter` `MOST` where it does not say.
        together: whether `several` are solved at once, in place of one.
        update: κ of a second matrix, set up in place of the first one before anything is solved.
        cuts: chunks along x, y, z.
    """

    make: Callable[[Triple], Problem]
    setup: Mapping[str, Any] = field(default_factory=dict)
    solve: Mapping[str, Any] = field(default_factory=dict)
    together: bool = False
    update: Any = None
    cuts: tuple[Triple, ...] = CUTS


LONG: Final[Triple] = (32, 16, 16)
HPCG32: Final = {"M": "hpcg", "precond_dtype": "float32"}
SINGLE: Final = {"precond_dtype": "float32"}
LATTICE: Final = {"M": "mg"}
"""Options of cases for which M="auto" takes algebraic multigrid, or Jacobi."""
TWICE: Final = {"M": dsolver.preconditioners.Multigrid(sweeps=2, visits=2)}
THROUGH: Final = {"x": "dirichlet", "y": "neumann", "z": "neumann"}
FACES: Final = {"x-": Dirichlet(1.0), "x+": Robin(alpha=2.0, value=0.5), "y": "neumann", "z": "periodic"}
STRETCHED: Final = [[1.0 + 0.0625 * (i % 5) for i in range(n)] for n in ODD]
POINTS27: Final = np.where(np.arange(27).reshape(3, 3, 3) == 13, 26.0, -1.0)
"""−1 to all 26 neighbors: periodic, constants solve it."""


def hpcg(grid: Triple, **more: Any) -> Case:
    """HPCG's problem with its V-cycle, and what is special."""
    return Case(make=lambda cut: problems.hpcg(grid, chunks=cut), **{"setup": {"M": "hpcg"}, **more})


def seven(grid: Triple, **more: Any) -> Case:
    """The 7-point Laplacian."""
    return Case(make=lambda cut: problems.poisson7(grid, chunks=cut), **more)


def box(grid: Triple, **more: Any) -> Case:
    """The 27-point Laplacian."""
    return Case(make=lambda cut: problems.poisson27(grid, chunks=cut), **more)


def diffusion(
    grid: Triple,
    kappa: Any = 1.0,
    sigma: Any = 0.0,
    *,
    spacing: Any = 1.0,
    bc: Any = None,
    mask: Any = None,
    **more: Any,
) -> Case:
    """Diffusion with these coefficients."""
    return Case(
        make=lambda cut: problems.diffusion(grid, kappa, sigma, spacing=spacing, bc=bc, mask=mask, chunks=cut), **more
    )


def stencil(grid: Triple, weights: Any, *, periodic: bool = False, **more: Any) -> Case:
    """A stencil with these weights."""
    return Case(make=lambda cut: problems.stencil(grid, weights, periodic=periodic, chunks=cut), **more)


CASES: Final[dict[str, Case]] = {
    "hpcg": hpcg(LONG),
    "hpcg natural": hpcg(LONG, setup={"M": "hpcg", "order": "natural"}),
    "hpcg classes": hpcg((16, 16, 32), setup={"M": "hpcg", "order": "7 5 2 6 1 4 3 0"}),
    "hpcg float32": hpcg(LONG, setup=HPCG32),
    "hpcg several": hpcg(LONG, together=True),
    "7 points": seven(ODD),
    "7 points even": seven(EVEN),
    "7 points several": seven(EVEN, together=True),
    "7 points float32": seven(EVEN, setup=SINGLE),
    "7 points fmg": seven(ODD, solve={"x0": "fmg"}),
    "7 points out of reach": seven(ODD, solve={"rtol": 1e-18}),
    "7 points float32 out of reach": seven(ODD, setup=SINGLE, solve={"rtol": 1e-18}),
    "7 points watched": seven(ODD, solve={"callback": lambda state: state.iteration >= 6}),
    "7 points periodic": diffusion(ODD, 2.0, bc={"x": "dirichlet", "y": "periodic", "z": "dirichlet"}),
    "27 points": box(ODD),
    "27 points even": box(EVEN),
    "27 points float32": box(ODD, setup=SINGLE),
    "27 points several": box(ODD, together=True),
    "27 points periodic": stencil(EVEN, POINTS27, periodic=True),
    "weights of rows": stencil(ODD, mixed_weights(ODD), setup=LATTICE),
    "smooth": diffusion(EVEN, smooth, bc=FACES),
    "smooth stretched": diffusion(ODD, smooth, 0.01, spacing=STRETCHED),
    "smooth several": diffusion(ODD, smooth, together=True),
    "smooth updated": diffusion(ODD, 1.5, update=smooth),
    "jumps": diffusion(ODD, blocks(ODD)),
    "jumps float32": diffusion(ODD, blocks(ODD), setup=SINGLE),
    "jumps twice": diffusion(EVEN, blocks(EVEN), setup=TWICE),
    "1:1:100": diffusion(ODD, [1.0, 1.0, 100.0]),
    "masked": diffusion(ODD, smooth, mask=ball),
    "closed": diffusion(EVEN, smooth, bc="neumann"),
    "rooms": diffusion(ODD, bc="neumann", mask=rooms(ODD), setup=LATTICE),
    "pores": diffusion(ODD, bc=THROUGH, mask=pores(ODD), setup=LATTICE),
    "pores with jumps": diffusion(EVEN, blocks(EVEN), bc=THROUGH, mask=pores(EVEN), setup=LATTICE),
    "chebyshev": diffusion(ODD, smooth, setup={"M": "chebyshev"}),
    "jacobi": diffusion(ODD, smooth, setup={"M": "jacobi"}),
    "jacobi several": diffusion(ODD, blocks(ODD), setup={"M": "jacobi"}, together=True),
    "plain": seven(EVEN, setup={"M": None}),
}

SIDE: Final[Triple] = (101, 92, 83)
CUBE: Final[Triple] = (96, 96, 96)
LARGER: Final[dict[str, Case]] = {
    "hpcg larger": hpcg((128, 64, 64)),
    "hpcg larger float32": hpcg((64, 64, 64), setup=HPCG32),
    "7 points larger": seven((132, 136, 140)),
    "7 points larger float32": seven((128, 96, 96), setup=SINGLE),
    "7 points larger several": seven(CUBE, together=True),
    "27 points larger": box((96, 80, 72)),
    "smooth larger": diffusion(SIDE, smooth, bc=FACES),
    "jumps larger": diffusion(CUBE, blocks(CUBE)),
    "1:1:100 larger": diffusion(SIDE, [1.0, 1.0, 100.0]),
    "pores larger": diffusion((64, 64, 64), bc=THROUGH, mask=pores((64, 64, 64))),
}
"""Systems that a GPU solves besides: some of its kernels are for large levels alone."""

BENCHMARKS: Final[dict[str, tuple[str, ...]]] = {
    f"benchmark {name} {'x'.join(cut)}": ("--grid", "32", "16", "16", "--chunks", *cut, *arguments)
    for name, arguments in {
        "12 iterations": ("--iterations", "12"),
        "natural": ("--iterations", "12", "--order", "natural"),
        "float32": ("--iterations", "12", "--precond-dtype", "float32"),
        "whole": ("--time", "0"),
    }.items()
    for cut in (("1", "1", "1"), ("2", "2", "2"))
}
"""Arguments of `dsolver hpcg`."""


# -- what is recorded --------------------------------------------------------------------------------------------------


def histories(case: Case, cut: Triple, **where: Any) -> list[History]:
    """The history of each right-hand side.

    Args:
        case: what to solve.
        cut: chunks along x, y, z.
        where: further arguments of `dsolver.Solver`: the engine, the device, a client.
    """
    problem = case.make(cut)
    options: dict[str, Any] = {"rtol": 1e-9, "maxiter": MOST, **case.solve}
    given: list[F64] = several(problem.grid) if case.together else [noise(problem.grid)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dsolver.InconsistentWarning)  # of closed regions: f is what it is
        warnings.filterwarnings("ignore", message=".*float64.*")  # of a solve that float32 could not finish
        with dsolver.Solver(problem, **case.setup, **where) as solver:
            if case.update is not None:
                solver.update(kappa=case.update)
            solutions = list(solver.solve(given, **options)) if case.together else [solver.solve(given[0], **options)]
    return [history(b, solution) for b, solution in zip(given, solutions, strict=True)]


def history(b: F64, solution: Any) -> History:
    """Status, iterations, residuals as hexadecimal numbers, and what the bytes of b and x hash to."""
    return {
        "b": _digest(b),
        "status": str(solution.status),
        "iterations": solution.iterations,
        "closed_regions": solution.closed_regions,
        "residuals": [float(r).hex() for r in solution.residuals],
        "true_residual": float(solution.true_residual).hex(),
        "x": _digest(np.asarray(solution.x)),
    }


def _digest(values: F64) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, dtype=np.float64).tobytes()).hexdigest()


def benchmark(arguments: tuple[str, ...], **where: str) -> list[History]:
    """Report of `dsolver hpcg`, without what depends on time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        options = [text for name, value in where.items() for text in (f"--{name}", value)]
        result = CliRunner().invoke(main, ["hpcg", *arguments, *options, "--json", str(path)])
        if result.exit_code:
            raise RuntimeError(f"dsolver hpcg: {result.output}") from result.exception
        found = json.loads(path.read_text())
    return [
        {
            "iterations": found["iterations"],
            "valid": found["valid"],
            "residuals": [float(r).hex() for r in found["residuals"]],
            "tests": _hexadecimal(found["tests"]),
        }
    ]


def _hexadecimal(value: Any) -> Any:
    """Values with all floats as hexadecimal numbers."""
    if isinstance(value, Mapping):
        return {name: _hexadecimal(entry) for name, entry in value.items()}
    return value.hex() if isinstance(value, float) else value


def computations(device: str) -> Iterator[tuple[str, Callable[..., list[History]]]]:
    """The name of each record of "cpu" or "cuda", and the function that computes it: f(engine=..., device=...)."""
    for name, case in (CASES if device == "cpu" else CASES | LARGER).items():
        for cut in case.cuts:
            yield f"{name} {'x'.join(map(str, cut))}", partial(histories, case, cut)
    for name, arguments in BENCHMARKS.items():
        yield name, partial(benchmark, arguments)


# -- files -------------------------------------------------------------------------------------------------------------


def read(device: str) -> dict[str, list[History]]:
    """The records of a device by their names."""
    records: dict[str, list[History]] = json.loads(FILES[device].read_text())
    return records


def write(device: str, records: Mapping[str, list[History]]) -> None:
    """Write the records of a device, one history a line."""
    lines = (f"{json.dumps(name)}: [\n{_lines(found)}\n]" for name, found in records.items())
    FOLDER.mkdir(exist_ok=True)
    FILES[device].write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _lines(found: list[History]) -> str:
    return ",\n".join(json.dumps(one) for one in found)


def difference(found: list[History], recorded: list[History]) -> str:
    """First difference of computed histories from recorded ones, in a sentence; empty where no bit differs."""
    if len(found) != len(recorded):
        return f"{len(found)} histories in place of {len(recorded)}"
    for number, (one, other) in enumerate(zip(found, recorded, strict=True)):
        for name in dict.fromkeys([*other, *one]):
            if one.get(name) != other.get(name):
                return f"right-hand side {number}: {_where(name, one.get(name), other.get(name))}"
    return ""


def _where(name: str, found: Any, recorded: Any) -> str:
    if name == "b":
        return "b itself differs: NumPy makes other random numbers"
    if isinstance(found, list) and isinstance(recorded, list):
        for i, (a, b) in enumerate(zip(found, recorded, strict=False)):
            if a != b:
                return f"{name}[{i}] is {float.fromhex(a)!r}, was {float.fromhex(b)!r}"
        return f"{len(found)} {name}, were {len(recorded)}"
    return f"{name} is {found}, was {recorded}"


def run() -> int:
    """Write or compare; how many records differ, at most 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.recorded")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="write the records of what this checkout computes")
    what.add_argument("--compare", action="store_true", help="print what differs from the records")
    parser.add_argument("--device", choices=sorted(FILES), default="cpu")
    parser.add_argument("--engine", choices=["resident", "reference"], default="resident")
    given = parser.parse_args()
    recorded = read(given.device) if given.compare else {}
    records, differing = {}, 0
    for name, compute in computations(given.device):
        records[name] = compute(engine=given.engine, device=given.device)
        told = difference(records[name], recorded.get(name, [])) if given.compare else ""
        if told:
            differing += 1
            print(f"{name}: {told}")  # noqa: T201
    for name in recorded.keys() - records.keys():
        differing += 1
        print(f"{name}: recorded, but no longer computed")  # noqa: T201
    if given.write:
        write(given.device, records)
    print(f"{len(records)} records, {differing} differ" if given.compare else f"{len(records)} records written")  # noqa: T201
    return min(differing, 1)


if __name__ == "__main__":
    sys.exit(run())
