"""Sparse products A A over many matrices on one GPU, against cuSPARSE in the same run.

    python bench/sparse_products.py [FOLDER] [--scale 0.25] [--only NAME ...] [--processes 12] [--seconds 200]

Matrices come from lib/matrices.py: those in FOLDER, or made there first. Both products are made from nothing: lengths
of rows, columns and values, in float64. Ours has ascending columns and always the same bits; cuSPARSE's, which is the
product that CuPy offers, has neither. "again" is our product of new values in the same places. Each result times a
vector is compared with A (A x). Times are the best of several by the clock, the GPU idle before and after.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import cupy
import cupyx.scipy.sparse as device_sparse
import numpy as np
from cupyx import cusparse
from lib.matrices import MATRICES
from lib.timing import best
from scipy import sparse
from spmv import as_they_come, file_of, maker_of

from dsolver.kernels.cuda.sparse.products.product import numeric, product
from dsolver.kernels.formats.csr import Csr

MOST_PRODUCTS = 2**31 - 1
"""Products of numbers beyond which a matrix is left out: cuSPARSE's result is wrong then, and nothing says so."""


def error(start: Any, columns: Any, values: Any, want: Any, size: Any) -> float:
    """Largest error of a matrix times a vector, as part of the sums of absolute values."""
    made = device_sparse.csr_matrix((values, columns.astype(np.int32), start.astype(np.int32)), shape=(len(want),) * 2)
    x = cupy.asarray(np.random.default_rng(7).standard_normal(len(want)))
    return float((abs(made @ x - want) / size).max())


def measured(host: Any) -> tuple[float, ...] | str:
    """Products of numbers, entries of A A, seconds of cuSPARSE, ours, ours again, and the widest error; or why not."""
    lengths = np.diff(host.indptr).astype(np.int64)
    count = int(lengths[host.indices].sum())
    if count > MOST_PRODUCTS:
        return f"{count:.1e} products of numbers"
    theirs = device_sparse.csr_matrix(sparse.csr_matrix(host))
    a = Csr(theirs.indptr.astype(np.int64), theirs.indices, theirs.data)
    x = cupy.asarray(np.random.default_rng(7).standard_normal(host.shape[0]))
    want, size = theirs @ (theirs @ x), abs(theirs) @ (abs(theirs) @ abs(x)) + 1e-300
    ours, took = best(lambda: product(a, a, host.shape[1]))
    again = best(lambda: numeric(ours, a, a, host.shape[1]))[1]
    wrong = error(ours.start, ours.columns, ours.values, want, size)
    entries = len(ours.columns)
    try:
        vendor, slow = best(lambda: cusparse.spgemm(theirs, theirs))
        wrong = max(wrong, error(vendor.indptr, vendor.indices, vendor.data, want, size))
    except (cupy.cuda.memory.OutOfMemoryError, RuntimeError) as failed:
        print(f"    cuSPARSE: {failed}")
        slow = float("nan")
    return count, entries, slow, took, again, wrong


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, nargs="?", default=Path(tempfile.gettempdir()) / "dsolver-products")
    options.add_argument("--scale", type=float, default=0.25)
    options.add_argument("--only", nargs="+", default=tuple(MATRICES), choices=tuple(MATRICES))
    options.add_argument("--processes", type=int, default=12)
    options.add_argument("--seconds", type=float, default=1e9, help="begin no matrix after so many seconds")
    chosen = options.parse_args()
    began = time.perf_counter()
    maker = maker_of(chosen.folder, chosen.only, chosen.scale, chosen.processes)
    ratios = []
    print(
        f"{'':17}{'rows':>10}{'entries':>11}{'products':>11}{'of A A':>11}  cuSPARSE, ours, again in ms; times as fast"
    )
    for name in as_they_come(list(chosen.only), chosen.folder, maker, began + chosen.seconds):
        host = sparse.load_npz(file_of(chosen.folder, name)).astype(np.float64)
        found = measured(host)
        cupy.get_default_memory_pool().free_all_blocks()
        if isinstance(found, str):
            print(f"{name:17} left out: {found}", flush=True)
            continue
        count, entries, slow, took, again, wrong = found
        ratios.append(slow / took)
        print(
            f"{name:17}{host.shape[0]:10}{host.nnz:11}{count:11}{entries:11}  {1e3 * slow:8.2f} {1e3 * took:8.2f} "
            f"{1e3 * again:8.2f}  {slow / took:5.2f}  error {wrong:.0e}",
            flush=True,
        )
    if maker:
        maker.terminate()
    known = np.array([ratio for ratio in ratios if np.isfinite(ratio)])
    print(f"geometric mean {np.exp(np.log(known).mean()):.2f}, worst {known.min():.2f}, {len(known)} matrices")


if __name__ == "__main__":
    main()
