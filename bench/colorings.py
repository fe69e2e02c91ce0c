"""Colors and iterations of Gauss-Seidel sweeps in different orders, for HPCG's 27-point matrix.

    python bench/colorings.py --sizes 32 64
    python bench/colorings.py --sizes 128 256 --methods hpcg --kept colorings.jsonl
    python bench/colorings.py --sizes 128 --device cuda --methods symgs

For each order: the number of colors, and iterations by each method:

- symgs, ic0: conjugate gradients to 1e-9 with M="symgs" and M="ic0", where the matrix is given in compressed rows, for
  a uniformly random right-hand side;
- cycle: the same with HPCG's V-cycle (M="hpcg") on the grid;
- hpcg: HPCG's V-cycle and its b = A·1, to the residual of 50 iterations in natural order, as HPCG's rules count them.

With symgs also milliseconds of a sweep (forward and back) and seconds of its set-up: what both take more than with
Jacobi's method.
color8 is HPCG's order of the eight parity classes; levels is the order of the rows. With `--kept FILE` each number is
written there when it is known, and a later call goes on from there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from amg_csr import lattice
from lib.matrices import box, stencil

import dsolver
from dsolver import problems
from dsolver.grid.coloring import Order
from dsolver.kernels.colorings import COLORINGS, colored
from dsolver.kernels.colorings.setup import SweepSetup
from dsolver.kernels.formats.csr import Csr
from dsolver.preconditioners import IC0, SymGS

RTOL: Final = 1e-9
REFERENCE: Final = 50
"""Iterations in natural order whose residual ends HPCG's solves."""
ROUNDING: Final = 1.0 + 1e-6
"""Factor of that residual by which HPCG's rules allow for rounding."""
RESIDUALS: Final = {64: 1.135890251e-11, 128: 3.945305195e-07, 256: 8.219992869e-04}
"""Scaled residuals of the reference benchmark after these iterations, by points along an edge."""
METHODS: Final = ("symgs", "ic0", "cycle", "hpcg")


@cache
def hpcg_matrix(n: int, device: str) -> Any:
    """26 on the diagonal and -1 for each of the 26 neighbors, in lattice order, in compressed rows on the device."""
    if device == "cuda":
        import cupy

        return dsolver.matrix(lattice("box", cupy, n).rows)
    return dsolver.matrix(stencil((n, n, n), box()))


def row_sums(n: int) -> np.ndarray:
    """HPCG's b: the matrix times ones."""
    around = np.full(n, 3.0)
    around[[0, -1]] = 2.0
    return 27.0 - around[:, None, None] * around[:, None] * around


def eight_colors(n: int, setup: SweepSetup, _: Any, __: int) -> Any:
    """HPCG's order as a coloring of the matrix."""
    return Order.parse("color8").colors(setup.xp, (n, n, n))


class Bench:
    """Solves of one size on one device, each of which is made once."""

    def __init__(self, n: int, device: str, kept: Path | None) -> None:
        self.n, self.device, self.kept = n, device, kept
        lines = kept.read_text().splitlines() if kept is not None and kept.exists() else []
        self.known: dict[str, Any] = dict(json.loads(line) for line in lines)
        self.b = np.random.default_rng(0).uniform(-1.0, 1.0, (n, n, n))
        COLORINGS["color8"] = partial(eight_colors, n)

    def colors(self, order: str) -> int:
        if self.device != "cuda":
            return int(self.value(f"{order} colors", lambda: Order.parse(order).count((self.n,) * 3)))
        return int(self.value(f"{order} colors", lambda: int(self.on_device(order).max()) + 1))

    def on_device(self, order: str) -> Any:
        """Colors that the GPU makes."""
        import cupy

        from dsolver.kernels.cuda.colorings.setup import CudaSweeps

        rows = lattice("box", cupy, self.n).rows
        setup = CudaSweeps()
        return colored(setup, setup.graph_of(Csr(rows.indptr.astype(np.int64), rows.indices, rows.data)), order, 0)

    def iterations(self, order: str, method: str) -> int:
        """Iterations to the tolerance of the method."""
        if method == "symgs":
            return int(self.of_matrix(method, order, SymGS(coloring=order))[0])
        if method == "ic0":
            return int(self.of_matrix(method, order, IC0(coloring=order))[0])
        b, tolerance = (self.b, RTOL) if method == "cycle" else (row_sums(self.n), self.reference() * ROUNDING)
        return int(self.value(f"{order} {method}", lambda: len(self.by_cycle(order, b, tolerance)) - 1))

    def sweep(self, order: str) -> tuple[float, float]:
        """Milliseconds of a sweep forward and back, and seconds that its set-up takes more than Jacobi's."""
        with_sweep, without = (
            self.of_matrix("symgs", order, SymGS(coloring=order)),
            self.of_matrix("jacobi", "", "jacobi"),
        )
        return with_sweep[1] - without[1], with_sweep[2] - without[2]

    def value(self, name: str, make: Callable[[], Any]) -> Any:
        """A number that is known by this name, or else is made now."""
        key = f"{self.n} {self.device} {name}"
        if key not in self.known:
            self.known[key] = make()
            if self.kept is not None:
                with self.kept.open("a") as file:
                    print(json.dumps([key, self.known[key]]), file=file)
        return self.known[key]

    def of_matrix(self, method: str, order: str, m: Any) -> list[float]:
        """Iterations for the matrix in compressed rows, milliseconds of one in a second solve, seconds of set-up."""

        def made() -> list[float]:
            a = hpcg_matrix(self.n, self.device)
            dsolver.Solver(a, M=m, device=self.device).close()  # kernels are compiled
            began = time.perf_counter()
            with dsolver.Solver(a, M=m, device=self.device) as solver:
                setup = time.perf_counter() - began
                solver.solve(self.b.ravel(), rtol=RTOL)
                solution = solver.solve(self.b.ravel(), rtol=RTOL)
            assert solution.converged, solution.status
            return [solution.iterations, 1e3 * solution.timings["solve"] / solution.iterations, setup]

        found: list[float] = self.value(f"{order} {method}", made)
        return found

    def reference(self) -> float:
        """Scaled residual that ends HPCG's solves, made by this project's natural order where the table has none."""
        if self.n in RESIDUALS:
            return RESIDUALS[self.n]
        return float(self.value("reference", lambda: self.by_cycle("natural", row_sums(self.n), 0.0, REFERENCE)[-1]))

    def by_cycle(self, order: str, b: Any, rtol: float, maxiter: int = 10 * REFERENCE) -> list[float]:
        """Scaled residuals of conjugate gradients with HPCG's V-cycle."""
        with dsolver.Solver(problems.hpcg((self.n,) * 3), M="hpcg", device=self.device, order=order) as solver:
            solution = solver.solve(b, rtol=rtol, maxiter=maxiter)
        assert solution.converged or solution.iterations == maxiter == REFERENCE, solution.status
        return [residual / solution.b_norm for residual in solution.residuals]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--orders", nargs="+", default=["color8", *COLORINGS])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS[:3])
    parser.add_argument("--kept", type=Path, help="file of the numbers that are known")
    given = parser.parse_args()
    for n in given.sizes:
        bench = Bench(n, given.device, given.kept)
        for order in given.orders:
            cells = [f"{method} {bench.iterations(order, method):>4}" for method in given.methods]
            sweep = "{:.3f} ms a sweep, set-up {:.3f} s".format(*bench.sweep(order)) if "symgs" in given.methods else ""
            print(f"{n}³  {order:13} {bench.colors(order):>5} colors  {'  '.join(cells)}  {sweep}", flush=True)


if __name__ == "__main__":
    main()
