"""Files of MATLAB that hold one sparse matrix, as `save` writes them up to version 7."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dsolver.matrices.canonical import imported


def matlab_matrix(path: Path) -> Any:
    """A matrix of `scipy.sparse` from a file: its only one, or that of a field A, as the SuiteSparse collection has it.

    Raises:
        ValueError: it has none, or several.
    """
    found = _matrices(imported("io").loadmat(str(path), appendmat=False))
    if len(found) != 1:
        names = ", ".join(found) or "none"
        raise ValueError(f"one sparse matrix is looked for, and it holds {names}: save the one that is wanted alone")
    (matrix,) = found.values()
    return matrix


def _matrices(variables: dict[str, Any]) -> dict[str, Any]:
    """Sparse matrices by name."""
    found = {}
    for name, value in variables.items():
        if hasattr(value, "nnz"):
            found[name] = value
        elif isinstance(value, np.ndarray) and value.size == 1 and "A" in (value.dtype.names or ()):
            field = value["A"].item()
            if hasattr(field, "nnz"):
                found[f"{name}.A"] = field
    return found
