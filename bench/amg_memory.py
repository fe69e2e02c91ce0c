"""Memory of a set-up of algebraic multigrid from compressed rows on one GPU, stage by stage.

    python bench/amg_memory.py points --size 256

Matrices are those of `bench/amg_csr.py`. For each level and each stage, which is a call on the chunk: bytes a row of A
in use at most, and those that CuPy's pool held then, beside A. What is held and not in use is free pieces of blocks.
"""

from __future__ import annotations

import argparse
import gc
from functools import partial
from typing import Any

import cupy
from amg_csr import LATTICES, lattice

import dsolver
from dsolver.engines.eager.engine import EagerEngine

LEVEL = "_measured"
"""The first stage of a level."""


class Stages(cupy.cuda.MemoryHook):  # type: ignore[misc]
    """Bytes in use and held at most by stage, in the order in which stages come.

    Args:
        pool: of CuPy.
    """

    name = "stages"

    def __init__(self, pool: Any) -> None:
        super().__init__()
        self._pool, self._running, self._level = pool, ["matrix"], 0
        self.most: dict[tuple[int, str], tuple[int, int]] = {}

    def malloc_postprocess(self, **_: Any) -> None:
        """Look at the pool after an array was made."""
        place, now = (self._level, self._running[-1]), (self._pool.used_bytes(), self._pool.total_bytes())
        self.most[place] = max(self.most.get(place, now), now)

    def watch(self) -> None:
        """Take each call on a chunk for a stage; what an errand makes belongs to the errand."""
        per_chunk = EagerEngine.per_chunk

        def watched(engine: EagerEngine, make: Any, *operands: Any) -> Any:
            function = make
            while isinstance(function, partial):
                function = function.func
            name = getattr(function, "__name__", type(function).__name__)
            self._level += name == LEVEL
            self._running.append(name)
            try:
                return per_chunk(engine, make, *operands)
            finally:
                self._running.pop()

        EagerEngine.per_chunk = watched  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("matrix", choices=list(LATTICES))
    parser.add_argument("--size", type=int, default=256)
    options = parser.parse_args()
    rows = lattice(options.matrix, cupy, options.size).rows
    pool, stages = cupy.get_default_memory_pool(), Stages(cupy.get_default_memory_pool())
    gc.collect()
    pool.free_all_blocks()
    count, before = rows.shape[0], pool.used_bytes()
    stages.watch()
    with stages, dsolver.Solver(dsolver.matrix(rows, chunks=1), M="amg", device="cuda"):
        pass
    for (level, name), (used, held) in stages.most.items():
        print(f"{level:2} {name:28} {(used - before) / count:8.1f} {(held - before) / count:8.1f}")
    used, held = (max(numbers) - before for numbers in zip(*stages.most.values(), strict=True))
    print(f"in all {used / count:.1f} and {held / count:.1f} bytes a row, {used / 1e9:.2f} and {held / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
