"""Matrices of other slices with the same entries, and all that could depend on who computes what when."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels import Backend
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.sell import SellMatrix, Slices
from tests.kernels.backends.boxes import F64, Box


def is_run(s: Slices, backend: Backend) -> npt.NDArray[np.bool_]:
    start, column_start = backend.to_host(s.start), backend.to_host(s.column_start)
    run: npt.NDArray[np.bool_] = np.diff(column_start) == np.diff(start) // SLICE
    return run & (np.diff(start) > 0)


def made_explicit(s: Slices, backend: Backend) -> Slices:
    """Entries with a column for each."""
    start, column_start, columns = (backend.to_host(v) for v in (s.start, s.column_start, s.columns))
    out = []
    for i in range(len(start) - 1):
        mine = columns[column_start[i] : column_start[i + 1]]
        if len(mine) == (start[i + 1] - start[i]) // SLICE:
            mine = (mine[:, None] + np.arange(SLICE, dtype=np.int32)).ravel()
        out.append(mine)
    put = backend.asarray
    return replace(s, column_start=put(start), columns=put(np.concatenate(out).astype(np.int32)))


def with_slices(b: Box, local: Slices) -> Any:
    """The matrix of the box with other slices."""
    if b.backend.name != "cuda":
        return replace(b.matrix, local=local)
    parts = {field.name: getattr(b.matrix, field.name) for field in fields(SellMatrix)}
    from dsolver.kernels.cuda.hpcg.matrix import with_launches

    return with_launches(SellMatrix(**{**parts, "local": local}), b.matrix.coarse)


def smoothed(b: Box, matrix: Any) -> list[F64]:
    """Results of every kind of half sweep."""
    s, x, e, w, c = (b.zeros() for _ in range(5))
    b.kernel("symgs")(matrix, b.vector(1), s)
    b.kernel("presmooth")(matrix, b.vector(1), x, e)
    first = b.block(x).copy()
    b.kernel("prolong")(b.transfer, b.vector(2, coarse=True), c)
    b.kernel("postsmooth")(matrix, b.vector(1), c, e, x, w)
    return [b.block(s), first, b.block(e), b.block(w), b.block(x)]


def everything(b: Box) -> list[F64]:
    """Results of all kernels that could depend on who computes what when."""
    r, x, y, e, w, c = b.vector(1), b.zeros(), b.zeros(), b.zeros(), b.zeros(), b.zeros()
    rc, product, dots = b.zeros(coarse=True), b.kept(), [b.scalar() for _ in range(4)]
    b.kernel("presmooth_restrict")(b.matrix, b.transfer, r, x, e, rc)
    b.kernel("prolong_postsmooth")(b.matrix, b.transfer, r, rc, e, x, c, w)
    b.kernel("spmv_dot")(b.matrix, x, y, dots[0])
    b.kernel("times_halo_dot")(b.outer, b.halo(4), x, product, dots[3])
    b.kernel("add_halo_dot")(b.outer, product, dots[3], y, dots[0])
    b.kernel("dot")(x, r, dots[1])
    b.kernel("update_x_r")(x, y, dots[0], b.scalar(1.0), b.scalar(1.0), b.scalar(0.0), b.scalar(np.inf), e, r, dots[2])
    return [b.backend.to_host(v).copy() for v in (x, y, e, r, rc, *dots)]
