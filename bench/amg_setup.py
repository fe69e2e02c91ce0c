"""Set-up of algebraic multigrid on one GPU: seconds of its phases and operations, and whether the host makes the same.

    python bench/amg_setup.py --size 128 [--field constant] [--csr] [--phases] [--host]

A field of `lib.coefficients` on n³ cells in one chunk, in this process: κ, or with --csr compressed rows, on the GPU.
The clock runs from there to a hierarchy that is stored; the first round compiles kernels. With --phases each phase and
each operation waits for the one before, some 20 us each. --host compares all levels with the host's, to the bit.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import cupy
from lib.coefficients import FIELDS, made

import dsolver
from dsolver import kernels
from dsolver.discretize.system import System
from dsolver.engines.base import Operand
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.eager.handles import EagerPerChunk
from dsolver.multigrid.algebraic.options import COARSE_ROWS
from dsolver.multigrid.level import Level
from dsolver.multigrid.summary import summary_of
from dsolver.preconditioners import Algebraic
from dsolver.preconditioners.builder import Builder
from dsolver.program.spec import SolveSpec
from dsolver.session.user_arrays import container_of

OPERATIONS = (
    *("box_rows", "row_measures", "couplings", "begun", "settled", "paths", "coarse_couplings", "interpolation"),
    *("kept_product", "galerkin", "transposed", "fill_lost", "mirrored", "table"),
)
SHORTEST = 1e-4
"""Seconds of phases that are shown."""


class Timed(EagerEngine):
    """An engine that times what it makes for its chunk.

    Attributes:
        seconds: by name, and calls; None while nothing is timed.
    """

    seconds: Counter[str] | None = None

    def per_chunk(self, make: Callable[..., Any], *operands: Operand) -> EagerPerChunk:
        function = getattr(make, "func", make)
        name = f"{function.__module__.split('.')[-1]}.{getattr(function, '__name__', type(function).__name__)}"
        made_here: EagerPerChunk = self.timed(name, super().per_chunk, make, *operands)
        return made_here

    def timed(self, name: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Result of a call, which is timed where seconds are wanted."""
        if self.seconds is None:
            return call(*arguments, **named)
        began = clock()
        found = call(*arguments, **named)
        self.seconds[name] += clock() - began
        return found


def clock() -> float:
    """Seconds, when the GPU has nothing left to do."""
    cupy.cuda.Device().synchronize()
    return time.perf_counter()


def prepared(name: str, size: int, m: Algebraic, backend: str, *, csr: bool) -> tuple[Timed, Builder]:
    """An engine with a system that is ready for set-up."""
    field = made(name, size)
    if csr:
        problem: Any = dsolver.matrix(field.matrix(), chunks=1).planned(1)
    else:
        problem = dsolver.problems.diffusion(
            field.kappa.shape, field.kappa, spacing=field.sizes, mask=field.solid, chunks=(1, 1, 1)
        )
    spec = SolveSpec.plan(problem, (1, 1, 1), m=m)
    engine = Timed(spec.partition, kernels.load(backend, 16 if backend == "cpu" else 1))
    system = System(engine, spec.problem, spec.partition)
    for key, values in problem.coefficients.items():
        cut = (
            values.blocks(spec.partition, host=True)
            if csr
            else container_of(key, values, spec.partition, None).blocks()
        )
        there = engine.backend.asarray
        system.load(key, cut if csr else {number: there(block) for number, block in cut.items()})
    system.prepare()
    return engine, spec.builder(engine, system)


def set_up(builder: Builder, m: Algebraic, look: Callable[[Any], None] | None = None) -> list[Level]:
    """The levels; look: is called with the rows of every level."""
    _, setup = m.setup(builder, lambda: builder.rows)
    more = True
    while more:
        if look is not None:
            look(setup.rows)
        more = setup.descend()
    return setup.levels


def phases(engine: Timed, run: Callable[[], object]) -> None:
    """Print the seconds of everything that is made, and of the operations within."""
    amg: Any = engine.backend.amg
    for name in OPERATIONS:
        setattr(amg, name, partial(engine.timed, f"    {name}", getattr(amg, name)))
    engine.seconds = Counter()
    began = clock()
    run()
    print(f"  with waits {1e3 * (clock() - began):.1f} ms")
    for name, seconds in engine.seconds.most_common():
        if seconds >= SHORTEST:
            print(f"  {name:44} {1e3 * seconds:8.2f} ms")
    engine.seconds = None
    for name in OPERATIONS:
        delattr(amg, name)


def bits(found: list[str], rows: Any, to_host: Callable[[Any], Any]) -> None:
    """Add a hash of a level's rows."""
    (part,) = rows.items.values()
    digest = hashlib.sha256()
    for array in (*part.matrix, part.origin):
        digest.update(to_host(array).tobytes())
    found.append(digest.hexdigest())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, nargs="+", default=[128])
    parser.add_argument("--field", default="constant", choices=list(FIELDS))
    parser.add_argument("--csr", action="store_true")
    parser.add_argument("--aggressive", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--phases", action="store_true")
    parser.add_argument("--host", action="store_true")
    options = parser.parse_args()
    m = Algebraic(aggressive_levels=options.aggressive)
    for size in options.size:
        engine, builder = prepared(options.field, size, m, "cuda", csr=options.csr)
        times = []
        for _ in range(options.rounds):
            began = clock()
            levels = set_up(builder, m)
            times.append(1e3 * (clock() - began))
        print(f"{options.field} {size}³{' csr' * options.csr}: set-up {' '.join(f'{t:.1f}' for t in times)} ms")
        shapes = [summary_of(level) for level in levels]
        print("  " + "  ".join(f"{s.rows} x {s.entries / s.rows:.1f}" for s in shapes), flush=True)
        if options.phases:
            phases(engine, partial(set_up, builder, m))
        if options.host:
            here, there, same = [], [], replace(m, coarse_rows=COARSE_ROWS[1])
            set_up(builder, same, partial(bits, there, to_host=cupy.asnumpy))
            _, on_host = prepared(options.field, size, m, "cpu", csr=options.csr)
            set_up(on_host, same, partial(bits, here, to_host=lambda array: array))
            print(f"  the host makes the same {len(here)} levels: {here == there}")


if __name__ == "__main__":
    main()
