"""The solve phase of algebraic multigrid on one GPU: an iteration, a V-cycle, and every kernel of them by level.

    python bench/amg_cycle.py --size 128 [--field constant] [--dtype float32] [--formats]

A matrix of 7 points in compressed rows, of a field of `lib.coefficients`, in one chunk. Kernels are timed each alone,
many times in a CUDA graph, so small levels find their vectors in caches, as they do in a cycle. Bytes are those that
the contract names: what multiplies as it is stored, each vector that is read or written once. "of copy" is bytes a
second as part of a device's copy in the same run. --formats multiplies every level's A, R and P in other formats, too.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import cupy
import numpy as np
from lib.coefficients import FIELDS
from lib.coefficients import made as field
from lib.timing import copy_bandwidth, in_graph, timed

import dsolver
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.eager.resident import ResidentEngine
from dsolver.engines.eager.timing import level_of
from dsolver.kernels.contract import Kernel
from dsolver.kernels.cuda.block_slices import products as slices
from dsolver.kernels.cuda.csr import products as rows
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.storing import deferred
from dsolver.multigrid.summary import summary_of
from dsolver.preconditioners import Algebraic
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec

STEPS = 20
LONG_ENOUGH = 1e-3
DIAGONAL_ALONE = ("jacobi", "chebyshev")
"""Kernels of a matrix that read nothing of it but its diagonal."""


@dataclass
class Operation:
    """A launch of a cycle or of an iteration."""

    level: int | None
    name: str
    nbytes: int
    call: Callable[[], object]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=int, default=128)
    options.add_argument("--field", default="constant", choices=tuple(FIELDS))
    options.add_argument("--dtype", default="float64", choices=("float64", "float32"))
    options.add_argument("--aggressive", type=int, default=1)
    options.add_argument("--rtol", type=float, default=1e-8)
    options.add_argument("--formats", action="store_true")
    arguments = options.parse_args()
    matrix = field(arguments.field, arguments.size).matrix()
    problem = dsolver.matrix(matrix, chunks=1).planned(1)
    m = Algebraic(aggressive_levels=arguments.aggressive)
    spec = SolveSpec.plan(problem, (1, 1, 1), m=m, precond_dtype=arguments.dtype)
    copied = copy_bandwidth()
    print(f"{arguments.field} {arguments.size}³, {matrix.nnz} entries, {arguments.dtype}; copy {copied / 1e9:.0f} GB/s")
    engine = ResidentEngine(spec.partition, "cuda")
    with engine.scope(), kept_transfers() as transfers:
        began = time.perf_counter()
        program = Solve(engine, spec)
        for name, cut in problem.coefficients.items():
            program.load_coefficient(cut.blocks(spec.partition, host=True), name)
        program.set_up()
        cupy.cuda.Device().synchronize()
        print(f"set-up {time.perf_counter() - began:.2f} s")
        program.set_b({0: cupy.random.default_rng(0).standard_normal((matrix.shape[0], 1, 1))})
        program.columns.start({0: 0.0})
        whole(program, engine)
        report(program, copied)
        if arguments.formats:
            formats(matrix, transfers, arguments.dtype, copied)
    engine.close()


@contextmanager
def kept_transfers() -> Iterator[list[Any]]:
    """R and P of every level as set-up has them, and the rows of coarse levels."""
    found: list[Any] = []
    store, store_rows = deferred.stored_transfer, deferred.stored_rows

    def transfer(backend: Any, number: int, fine: Any, coarse: Any, made: Any, **more: Any) -> Any:
        found.append((f"R{more['depth']}", made.restriction, fine.rows))
        p = made.prolongation
        found.append((f"P{more['depth']}", Csr(p.start, p.columns.astype(np.int32), p.values), coarse.rows))
        return store(backend, number, fine, coarse, made, **more)

    def coarse_rows(backend: Any, number: int, level: Any, *more: Any, depth: int) -> Any:
        found.append((f"A{depth}", level.a, level.rows))
        return store_rows(backend, number, level, *more, depth=depth)

    deferred.stored_transfer, deferred.stored_rows = transfer, coarse_rows  # type: ignore[assignment]
    try:
        yield found
    finally:
        deferred.stored_transfer, deferred.stored_rows = store, store_rows


def whole(program: Solve, engine: ResidentEngine) -> None:
    """Replayed iterations and cycles."""
    cycle = program.preconditioner
    assert cycle is not None
    r, z = program.method.r, engine.field(program.layout)

    def apply() -> None:
        cycle.apply(r, z)

    def many() -> None:
        program.columns.advance(STEPS)

    for name, run in (("iteration", many), ("M r", lambda: engine.repeat(apply, STEPS, ()))):
        run()
        took = []
        for _ in range(5):
            began = time.perf_counter()
            run()
            took.append(time.perf_counter() - began)
        print(f"{name}: {1e3 * min(took) / STEPS:.4f} ms, least of {len(took)}")


def report(program: Any, copied: float) -> None:
    """Every kernel of an iteration, by level."""
    program.guess("zero")
    program.columns.start({0: 0.0})
    found = recorded(program.method.step)
    took = [per_call(operation.call) for operation in found]
    lines: dict[Any, list[str]] = defaultdict(list)
    sums: dict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for operation, seconds in zip(found, took, strict=True):
        level = -1 if operation.level is None else operation.level
        of_copy = operation.nbytes / seconds / copied
        lines[level].append(
            f"    {operation.name:18} {1e6 * seconds:8.2f} us {operation.nbytes / 1e6:9.3f} MB   {of_copy:5.2f} of copy"
        )
        for place, value in enumerate((1, seconds, operation.nbytes)):
            sums[level][place] += value
    for level, names in sorted(lines.items()):
        count, seconds, nbytes = sums[level]
        title = "of no level" if level < 0 else f"level {level}"
        print(
            f"  {title}: {count:.0f} launches, {1e6 * seconds:.1f} us, {nbytes / 1e6:.2f} MB, {shape(program, level)}"
        )
        print("\n".join(names))
    seconds, nbytes = (sum(total[place] for total in sums.values()) for place in (1, 2))
    work = f"{len(found)} launches, {1e6 * seconds:.1f} us one by one, {nbytes / 1e6:.1f} MB"
    print(f"  all: {work}, which a copy moves in {1e6 * nbytes / copied:.1f} us")
    small, vectors = cupy.zeros(64), program._engine.backend.vectors
    print(f"  a launch that does nothing: {1e6 * per_call(lambda: vectors.copy(small, small)):.2f} us")


def shape(program: Any, level: int) -> str:
    """Rows of a level, and how its matrix is stored."""
    levels = program.prepared.site.levels
    if not 0 <= level < len(levels):
        return ""
    found = levels[level]
    local = found.chunks.items[0].local
    summary = summary_of(found)
    choice = getattr(local, "choice", type(local).__name__)
    product = getattr(local, "product", local)
    return f"{summary.rows} rows, {summary.entries} entries, {choice}, stored in {product.nbytes / 1e6:.2f} MB"


def recorded(work: Callable[[], None]) -> list[Operation]:
    """The operations of some work, which is run."""
    found: list[Operation] = []
    call, total, assign = EagerEngine._call, EagerEngine.total, EagerEngine.assign

    def seen(self: EagerEngine, kernel: Kernel, operands: Any, columns: Any) -> None:
        def again() -> None:
            call(self, kernel, operands, columns)

        found.append(Operation(level_of(operands), kernel.name, moved(kernel, columns), again))
        again()

    def seen_total(self: EagerEngine, parts: Any, out: Any) -> None:
        found.append(Operation(None, "total", 16, lambda: total(self, parts, out)))
        total(self, parts, out)

    def seen_assign(self: EagerEngine, out: Any, value: Any) -> None:
        found.append(Operation(None, "assign", 16, lambda: assign(self, out, value)))
        assign(self, out, value)

    changed: Any = EagerEngine
    changed._call, changed.total, changed.assign = seen, seen_total, seen_assign
    try:
        work()
    finally:
        changed._call, changed.total, changed.assign = call, total, assign
    return found


def moved(kernel: Kernel, columns: Any) -> int:
    """Bytes that a kernel reads and writes on the only chunk."""
    found = 0
    for place, (name, column) in enumerate(zip(kernel.arguments, columns, strict=True)):
        item = next(iter(column.values())) if isinstance(column, dict) else column
        if not place and kernel.carried and kernel.name in DIAGONAL_ALONE:
            found += int(item.diagonal.nbytes)
        elif not place and kernel.carried and getattr(item, "product", None) is not None:
            found += int(item.product.nbytes)
        elif name in kernel.updates:
            found += 2 * int(item.nbytes)
        else:
            found += int(getattr(item, "nbytes", 0))
    return found


def per_call(work: Callable[[], object]) -> float:
    """Seconds of one call among many in a CUDA graph."""
    stream = cupy.cuda.get_current_stream()
    first = timed(in_graph(stream, work), 3)
    count = max(4, min(100, int(LONG_ENOUGH / max(first, 1e-6))))

    def many() -> None:
        for _ in range(count):
            work()

    return timed(in_graph(stream, many), 5) / count


def formats(matrix: Any, transfers: list[Any], dtype: str, copied: float) -> None:
    """Products of every level in other formats; bytes are 4 of a column and those of a value, start, x and y once."""
    first = Csr(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)
    for name, host, columns in (("A0", first, matrix.shape[1]), *transfers):
        a = Csr(*(cupy.asarray(part) for part in host))
        wide = a._replace(columns=a.columns.astype(np.int32))
        a = wide._replace(values=wide.values.astype(dtype))
        lengths = cupy.asnumpy(np.diff(host.start))
        if not len(lengths) or not len(host.columns):
            continue
        x, y = cupy.ones(columns, dtype=dtype), cupy.empty(a.size, dtype=dtype)
        nbytes = len(host.columns) * (4 + x.itemsize) + 8 * a.size + int(x.nbytes + y.nbytes)
        made: dict[str, Any] = {
            f"rows {t}": rows.CudaRows(shape=(a.size, columns), entries=a, threads=t) for t in rows.LANES
        }
        made["chunks"] = rows.chunks(a, columns, int(lengths.max()))
        made["slices"] = slices.made(wide, columns, dtype)
        made["sorted"] = slices.made(wide, columns, dtype, window=256)
        cupy.cuda.get_current_stream().synchronize()  # products read slices before they wait for these
        took = {kind: per_call(partial(product.spmv, x, y)) for kind, product in made.items()}
        if a.size == columns:
            w, r, z = (cupy.ones(columns, dtype=dtype) for _ in range(3))
            for kind in (kind for kind in made if kind in ("rows 8", "rows 16", "slices", "sorted")):
                took[f"residual {kind}"] = per_call(partial(made[kind].residual, r, x, y))
                took[f"first {kind}"] = per_call(partial(made[kind].jacobi_first, w, r, z, y))
        parts = ", ".join(f"{kind} {1e6 * t:.1f}" for kind, t in sorted(took.items(), key=lambda item: item[1]))
        print(
            f"  {name}: {a.size} x {columns}, {lengths.mean():.1f} a row, deviation {lengths.std():.1f}, at most "
            f"{lengths.max()}; copy {1e6 * nbytes / copied:.1f} us; us: {parts}",
            flush=True,
        )


if __name__ == "__main__":
    main()
