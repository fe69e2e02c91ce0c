"""Factors by SuperLU, which comes with SciPy.

X. S. Li, An overview of SuperLU, ACM Trans. Math. Software 31, 2005.
"""

import ctypes
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
from scipy.linalg import cython_blas
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

from dsolver.kernels.cpu.process_setting import ProcessSetting
from dsolver.kernels.direct.fill import DENSE
from dsolver.kernels.direct.libraries import Factors, Kind, SingularError, Values

DIAGONAL: Final = 0.01
"""A diagonal pivot is taken down to this part of its column's largest entry, where entries have mirror images: with
off-diagonal ones the fill is up to four times as much."""
LONGER: Final = 2.0
"""Longest column over the longest row from which on A is factored: webs have half the entries then, and a full column
of 20,000 rows 10⁵ in place of 2 × 10⁸."""


class OneThread:
    """One thread of OpenBLAS, where SciPy brings it, while factors are made: a setting of the process.

    SuperLU calls it for each supernode, and complex ones are shared among its threads however small they are: these
    wait for each other for 20 times as long as one of them works.
    """

    def __init__(self) -> None:
        library = ctypes.CDLL(cython_blas.__file__)
        self._set = getattr(library, "openblas_set_num_threads_local", None) or setter_of(library)
        self._before = 1
        self.kept = ProcessSetting(self._take, lambda: self._set(self._before)).kept

    def _take(self) -> None:
        self._before = self._set(1)


def setter_of(library: Any) -> Callable[[int], int]:
    """Setter of OpenBLAS's threads that returns how many there were: older ones have none, other libraries no need."""
    for prefix in ("", "scipy_"):
        get, put = (getattr(library, f"{prefix}openblas_{verb}_num_threads", None) for verb in ("get", "set"))
        if get is not None and put is not None:
            return partial(_exchange, get, put)
    return lambda _: 1


def _exchange(get: Callable[[], int], put: Callable[[int], Any], threads: int) -> int:
    """Threads before, and others from now on."""
    before = get()
    put(threads)
    return before


ONE_THREAD: Final = OneThread()


class SuperLU(Factors):
    """Factors of Aᵀ, or of A."""

    def __init__(self, made: Any, itemsize: int, trans: str) -> None:
        self._made, self._trans = made, trans
        self.nbytes = made.nnz * (itemsize + 4)

    def solve(self, b: Values) -> Values:
        """x with A x = b."""
        return self._made.solve(b, trans=self._trans)


def factors(a: Any, kind: Kind) -> SuperLU:
    """Factors of a SciPy CSR array. SingularError: a pivot vanishes; MemoryError.

    They are those of Aᵀ, whose compressed columns are the compressed rows of A, but where A has longer columns: as rows
    they come to be pivots early, and fill all that follows.
    """
    options: dict[str, Any] = {"permc_spec": "COLAMD"}
    longest = np.diff(a.indptr).max(initial=0)  # minimum degree looks at it in every step, COLAMD leaves it out
    turned = not kind.mirrored and np.bincount(a.indices).max(initial=0) > LONGER * longest
    columns = a.tocsc() if turned else csc_array((a.data, a.indices, a.indptr), shape=a.shape)
    if kind.mirrored:
        options["diag_pivot_thresh"] = DIAGONAL
    if kind.mirrored and kind.positive and longest <= DENSE * math.sqrt(a.shape[0]):
        options |= {"permc_spec": "MMD_AT_PLUS_A", "options": {"SymmetricMode": True}}
    try:
        with ONE_THREAD.kept():
            return SuperLU(splu(columns, **options), a.data.dtype.itemsize, "N" if turned else "T")
    except RuntimeError as error:  # its own error for an exact zero
        raise SingularError(str(error)) from error
