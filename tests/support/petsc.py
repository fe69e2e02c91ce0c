"""Matrices in PETSc's binary format, as PETSc writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dsolver.matrices.files.petsc import MATRIX


def write_petsc(path: str | Path, matrix: Any) -> None:
    """Write a matrix of `scipy.sparse`, with 32-bit numbers."""
    rows = matrix.tocsr()
    with Path(path).open("wb") as file:
        np.array([MATRIX, *rows.shape, rows.nnz], dtype=">i4").tofile(file)
        rows_of = (np.diff(rows.indptr).astype(">i4"), rows.indices.astype(">i4"))
        for part in (*rows_of, rows.data.astype(">c16" if rows.dtype.kind == "c" else ">f8")):
            part.tofile(file)
