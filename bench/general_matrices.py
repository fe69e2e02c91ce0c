"""Iterations of conjugate gradients with a general matrix: the chosen format, sliced ELL, and for a lattice its grid.

    python bench/general_matrices.py [--device cuda] [--matrices elements lattice] [--points 128] [--scale 0.5]

Matrices: linear elements on tetrahedra in banded order (lib/matrices.py), and HPCG's 27 points as compressed rows.
"sliced" is the format of grids, in the rows' order, as all general matrices had it; "grid" is what a problem on the
grid stores. On a CPU ways take turns, and the least processor time of one thread counts; on a GPU an iteration is one
CUDA graph, and the bytes that it must move are told as part of a copy's a second in the same run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.matrices import MATRICES, stencil

from dsolver import kernels, preconditioners, problems
from dsolver.distributed.halo import plan_layout
from dsolver.distributed.loaded_rows import chunk_matrix
from dsolver.distributed.matrix import ChunkMatrix, Matrix
from dsolver.engines.eager.resident import ResidentEngine
from dsolver.grid.coloring import Order
from dsolver.grid.halo import HaloPlan
from dsolver.grid.partition import Partition
from dsolver.kernels.formats.csr import Csr
from dsolver.krylov.cg import ConjugateGradient
from dsolver.matrices.chunks.row_block import RowBlock
from dsolver.preconditioners.base import Site
from dsolver.preconditioners.builder import MakeStored
from dsolver.preconditioners.registry import preconditioner_of

sys.path.insert(0, str(Path(__file__).parent))
ROUNDS = 40
VECTORS = {"jacobi": 16, "chebyshev": 18}
"""Vectors that an iteration reads and writes, those of A p too; a step of Chebyshev beside its product: see `STEP`."""
STEP = 9
"""z and w of the product, and d, z, r, w and the diagonal of the step, of which d and z are written, too."""


def lattice(points: int) -> Any:
    """HPCG's matrix."""
    weights = dict.fromkeys(product((-1, 0, 1), repeat=3), -1.0) | {(0, 0, 0): 26.0}
    return stencil((points,) * 3, weights)


class Way:
    """A chunk's matrix in one form, with conjugate gradients on it.

    Args:
        made: the matrix.
        partition: of its only chunk.
        m: name of the preconditioner.
        device: "cpu" or "cuda".
    """

    def __init__(self, made: ChunkMatrix, partition: Partition, m: str, device: str) -> None:
        self.engine = ResidentEngine(partition, device)
        with self.engine.scope():
            chunks = self.engine.place({0: made})
            self.cg = ConjugateGradient(self.engine, chunks.at("layout"))
            self.cg.operator = Matrix(self.engine, chunks)
            site = Site(engine=self.engine, chunks=chunks, levels=(), matrix=self.cg.operator, method=self.cg)
            self.cg.preconditioner = preconditioner_of(m).on(site)
            self.engine.fill(chunks.at("layout"), 1.0, self.cg.b)
            self.cg.start(0.0)
        local, rows = made.local, made.layout.rows
        stored = local.product.nbytes if hasattr(local, "product") else local.local.nbytes + 8 * rows
        products = preconditioners.Chebyshev().degree if m == "chebyshev" else 1
        self.bytes = products * stored + 8 * rows * (VECTORS[m] + STEP * (products - 1))


def ways(a: Any, points: int | None, backend: Any) -> dict[str, tuple[ChunkMatrix, Partition]]:
    """The forms of a matrix; points: along each axis, where it is a lattice's."""
    rows, plan = Csr(a.indptr.astype(np.int64), a.indices.astype(np.int32), a.data), HaloPlan(sends=(), receives=())
    partition, layout = Partition((rows.size, 1, 1)), backend.layouts.plain((rows.size, 1, 1))
    (chosen,) = chunk_matrix(
        backend, 0, RowBlock(start=rows.start, columns=rows.columns, values=rows.values, plan=plan)
    )
    table = backend.amg.table(backend.amg.on_device(rows), rows.width)
    sliced = ChunkMatrix(
        layout=layout, local=backend.format("sell").matrix(layout, table), halo=plan_layout(backend, layout, plan)
    )
    found = {f"{chosen.local.choice}": (chosen, partition), "sliced": (sliced, partition)}
    if points is not None:
        cube = Partition((points,) * 3)
        make = MakeStored(problem=problems.hpcg((points,) * 3), partition=cube, order=Order.parse("color8"))
        found["grid"] = (make(backend, 0)[0], cube)
    backend.synchronize()  # engines have streams of their own
    return found


def on_cpu(steps: dict[str, Way]) -> dict[str, float]:
    """Seconds of an iteration of each way, the least of some rounds: what else a machine does meets all of them."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _, (name, way) in product(range(ROUNDS), steps.items()):
        began = time.process_time()
        way.cg.step()
        times[name].append(time.process_time() - began)
    return {name: min(found) for name, found in times.items()}


def on_gpu(steps: dict[str, Way]) -> dict[str, float]:
    """Median seconds of an iteration of each way, as a CUDA graph."""
    from lib.timing import in_graph, timed

    found: dict[str, float] = {}
    for name, way in steps.items():
        with way.engine.scope():
            found[name] = timed(in_graph(way.engine.scope(), way.cg.step))
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument("--matrices", nargs="+", choices=("elements", "lattice"), default=("elements", "lattice"))
    options.add_argument("--points", type=int, default=128)
    options.add_argument("--scale", type=float, default=0.5)
    given = options.parse_args()
    backend = kernels.load(given.device)
    copy = float("nan")
    if given.device == "cuda":
        from lib.timing import copy_bandwidth

        copy = copy_bandwidth()
        print(f"copy {copy / 1e9:.0f} GB/s")
    measure: Callable[[dict[str, Way]], dict[str, float]] = on_gpu if given.device == "cuda" else on_cpu
    for name in given.matrices:
        a = lattice(given.points) if name == "lattice" else MATRICES["tetra_p1_rcm"](given.scale)
        forms = ways(a, given.points if name == "lattice" else None, backend)
        print(f"{name}: {a.shape[0]} rows, {a.nnz} entries", flush=True)
        for m in VECTORS:
            steps = {kind: Way(*form, m, given.device) for kind, form in forms.items()}
            seconds = measure(steps)
            for kind, took in seconds.items():
                share = f"{steps[kind].bytes / took / copy:6.1%} of copy, " if given.device == "cuda" else ""
                against = "  ".join(f"{other / took:.2f} x {of}" for of, other in seconds.items() if of != kind)
                print(f"  {m:9} {1 / took:8.1f} iterations/s, {share}{kind}: {against}", flush=True)


if __name__ == "__main__":
    main()
