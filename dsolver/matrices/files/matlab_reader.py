"""A program that reads a MATLAB file for another process: its name is the argument, a matrix as `.npz` goes out.

SciPy's reader may die of a damaged file, by a signal. It imports nothing of dsolver, which would take longer than most
files.
"""

import io
import sys
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse


def only_matrix(path: str) -> Any:
    """The only sparse matrix of a file, or a field A, as the SuiteSparse collection has it. ValueError for no such."""
    found = {}
    for name, value in scipy.io.loadmat(path, appendmat=False).items():
        if scipy.sparse.issparse(value):
            found[name] = value
        elif isinstance(value, np.ndarray) and value.size == 1 and "A" in (value.dtype.names or ()):
            field = value["A"].item()
            if scipy.sparse.issparse(field):
                found[f"{name}.A"] = field
    if len(found) != 1:
        names = ", ".join(found) or "none"
        raise ValueError(f"one sparse matrix is looked for, and it holds {names}: save the one that is wanted alone")
    (matrix,) = found.values()
    return matrix


def main() -> None:
    """Write the matrix, or what is wrong, and end with status 1."""
    packed = io.BytesIO()
    try:
        scipy.sparse.save_npz(packed, only_matrix(sys.argv[1]), compressed=False)
    except Exception as error:  # of SciPy: what a damaged file makes it raise has no end
        sys.exit(f"{type(error).__name__}: {error}")
    sys.stdout.buffer.write(packed.getbuffer())


if __name__ == "__main__":
    main()
