"""The fastest of some formats for rows, measured on their device."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from dsolver.kernels.formats.choice import Choice
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.general.operations import RowOperations

ENOUGH: Final = 1e-3  # seconds of products that tell formats apart
ROUNDS: Final = 3


def fastest(operations: RowOperations, rows: Csr, choices: Sequence[Choice], x: Array, y: Array) -> tuple[Choice, Any]:
    """The fastest of some formats here and now, with x and y of ones, and the rows in it. Two are held at a time."""
    best: tuple[float, Choice, Any] | None = None
    for choice in choices:
        product = operations.product(rows, rows.size, choice)
        took = _seconds(operations, product, x, y)
        if best is None or took < best[0]:
            best = took, choice, product
    assert best is not None
    why = f"the fastest of {len(choices)}, measured: {best[0] * 1e6:.0f} us"
    return replace(best[1], why=why), best[2]


def _seconds(operations: RowOperations, product: Any, x: Array, y: Array) -> float:
    """Seconds of a product, the least of some rounds; the first calls compile and are not counted."""
    times = 1
    found = []
    for _ in range(ROUNDS + 2):
        operations.wait()
        began = time.perf_counter()
        for _ in range(times):
            product.spmv(x, y)
        operations.wait()
        found.append((time.perf_counter() - began) / times)
        times = int(np.clip(ENOUGH / max(found[-1], 1e-7), 1, 100))
    return min(found[2:])
