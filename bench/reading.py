"""Reading a Matrix Market file: `dsolver.read_matrix` against the reader alone, in turns.

    pip install fast_matrix_market
    python bench/reading.py [--entries 1e8] [--folder FOLDER] [--rounds 2]

The file has 10 random columns in each row. The reader alone makes three arrays of it; `dsolver.read_matrix` goes on to
compressed rows with sorted columns and no duplicates, and looks for values that are not finite.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import fast_matrix_market
import numpy as np

import dsolver

ROW = 10
"""Entries of a row."""


def written(path: Path, entries: int) -> None:
    """A file with so many entries."""
    rows = entries // ROW
    random = np.random.default_rng(0)
    columns = random.integers(0, rows, size=(rows, ROW), dtype=np.int32)
    values = random.standard_normal(rows * ROW)
    triplet = (values, (np.repeat(np.arange(rows, dtype=np.int32), ROW), columns.reshape(-1)))
    fast_matrix_market.write_coo(str(path), triplet, shape=(rows, rows))


def seconds(read: Any, path: Path) -> float:
    before = time.perf_counter()
    found = read(str(path))
    del found
    return time.perf_counter() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=float, default=1e8)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "matrix.mtx"
        written(path, int(options.entries))
        print(f"{options.entries:.0e} entries, {path.stat().st_size / 1e9:.2f} GB, {os.cpu_count()} cores")
        for _ in range(options.rounds):
            alone = seconds(fast_matrix_market.read_coo, path)
            ours = seconds(dsolver.read_matrix, path)
            print(f"the reader alone {alone:.1f} s, dsolver.read_matrix {ours:.1f} s: {ours / alone:.2f} times as long")


if __name__ == "__main__":
    main()
