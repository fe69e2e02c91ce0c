"""Files of MATLAB that hold one sparse matrix, as `save` writes them up to version 7."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

from dsolver.matrices.canonical import imported


def matlab_matrix(path: Path) -> Any:
    """A matrix from a file: its only one, or a field A, as the SuiteSparse collection has it. ValueError: none."""
    sparse = imported("sparse")
    if not path.exists():
        raise FileNotFoundError(path)
    program = Path(__file__).with_name("matlab_reader.py")
    ended = subprocess.run([sys.executable, "-P", program, path.absolute()], capture_output=True, check=False)
    if ended.returncode < 0:
        raise ValueError(f"SciPy's reader died of it, by signal {-ended.returncode}")
    if ended.returncode:
        raise ValueError(ended.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    return sparse.load_npz(io.BytesIO(ended.stdout))
