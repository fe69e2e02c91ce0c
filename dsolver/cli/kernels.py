"""`dsolver warm`: kernels before they are needed."""

import time
from collections.abc import Callable
from typing import Any, Final

import click
import numpy as np
from rich.console import Console

from dsolver import problems, solve
from dsolver.errors import InputError
from dsolver.matrices.canonical import imported

SIZE: Final = 40  # points along each axis, a multiple of 8: as many as make levels of every kind


@click.command("warm")
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto")
def warm(kinds: tuple[str, ...], device: str) -> None:  # \b below is a character that click looks for
    """Compile the kernels of some kinds of solves, by small solves of each, for images and nodes of clusters.

    \b
    grids         diffusion on a box, by multigrid
    porous        a box of whose cells many are left out
    matrices      symmetric matrices, by algebraic multigrid
    unsymmetric   others, by GMRES
    hpcg          the HPCG benchmark

    Without a KIND all of them. What is compiled is kept in the folders for caches of dsolver and CuPy
    (DSOLVER_CACHE, CUPY_CACHE_DIR), where later runs of this user find it. Wheels with machine code for this GPU have
    nothing to compile. On a GPU a large system may have a few kernels more to compile.
    """  # noqa: D301
    wrong = [kind for kind in kinds if kind not in KINDS]
    if wrong:
        raise InputError(f"no such kind: {wrong[0]!r}; choose from {', '.join(KINDS)}")
    console = Console(highlight=False, soft_wrap=True, markup=False)
    for kind in kinds or KINDS:
        began = time.perf_counter()
        solved = KINDS[kind](device)
        console.print(f"{kind}: {time.perf_counter() - began:.1f} s, on {solved.engine}")


def _b() -> Any:
    return np.random.default_rng(0).standard_normal((SIZE, SIZE, SIZE))


def _grids(device: Any) -> Any:
    b = _b()
    solve(problems.poisson7(b.shape), b, device=device)
    return solve(problems.diffusion(b.shape, np.exp(b)), b, M="mg", device=device)


def _porous(device: Any) -> Any:
    b = _b()
    return solve(problems.diffusion(b.shape, 1.0, 1e-3, mask=b > 0.5), b, M="amg", device=device)


def _matrices(device: Any) -> Any:
    return solve(_laplacian(), _b().ravel(), M="amg", device=device)


def _unsymmetric(device: Any) -> Any:
    sp = imported("sparse")
    a = _laplacian()
    a = sp.csr_array(a + sp.diags_array(np.full(a.shape[0] - 1, 0.2), offsets=1))
    return solve(a, _b().ravel(), method="gmres", device=device)


def _hpcg(device: Any) -> Any:
    b = _b()
    return solve(problems.hpcg(b.shape), b, M="hpcg", device=device)


def _laplacian() -> Any:
    """Seven points with zeros around, a CSR array of SciPy."""
    sp = imported("sparse")
    line = sp.diags_array([-np.ones(SIZE - 1), 2.0 * np.ones(SIZE), -np.ones(SIZE - 1)], offsets=[-1, 0, 1])
    one = sp.eye_array(SIZE)
    terms = ((line, one, one), (one, line, one), (one, one, line))
    return sp.csr_array(sum(sp.kron(sp.kron(x, y), z) for x, y, z in terms))


KINDS: Final[dict[str, Callable[[Any], Any]]] = {
    "grids": _grids,
    "porous": _porous,
    "matrices": _matrices,
    "unsymmetric": _unsymmetric,
    "hpcg": _hpcg,
}
"""Solves of each kind."""
