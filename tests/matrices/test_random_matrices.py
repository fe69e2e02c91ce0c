"""Random matrices of all kinds against SciPy's direct solver, with every method on the engines of this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import spsolve

import dsolver
from dsolver.krylov.methods import METHODS
from dsolver.preconditioners import Algebraic

F64 = npt.NDArray[np.float64]

AMG: Final = Algebraic(coarse_rows=8, gathered_rows=16)
ALWAYS: Final = (None, "jacobi", "l1-jacobi")
PRECONDITIONERS: Final = {
    "definite": (*ALWAYS, "chebyshev", "block-jacobi", "symgs", "ic0", "ilu0", AMG),
    "long rows": (*ALWAYS, "chebyshev"),
    "unsymmetric": (*ALWAYS, "block-jacobi", "ilu0"),
    "indefinite": (None,),
    "saddle point": (None,),
    "constants": (*ALWAYS, "chebyshev", AMG),
    "null vector": (*ALWAYS, "chebyshev"),
}
"""Each M that a kind of matrix may have."""
SERVED: Final = {
    "unsymmetric": ("gmres", "fgmres", "bicgstab"),
    "indefinite": ("minres", "gmres", "fgmres"),
    "saddle point": ("minres", "gmres", "fgmres"),
    "constants": ("cg", "fcg", "minres"),
    "null vector": ("cg", "fcg", "minres"),
}
"""Methods for kinds that not all of them solve."""
ENGINES: Final[tuple[dict[str, Any], ...]] = (
    {"engine": "reference", "kernels": "numpy"},
    {"engine": "reference", "device": "cpu"},
    {"engine": "resident", "device": "cpu"},
)
FORMATS: Final = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A system.

    Attributes:
        a: (n, n), without duplicates.
        b: (n,).
        null: (n,), A null = 0; None where A is regular.
        given: that null vector, where dsolver does not find it by itself.
    """

    a: sp.csr_array
    b: F64
    null: F64 | None = None
    given: F64 | None = None

    @property
    def solution(self) -> F64:
        """Solution by SciPy: of a singular system the shortest one, for the part of b that A reaches."""
        if self.null is None:
            found: F64 = np.atleast_1d(spsolve(self.a.tocsc(), self.b))
            return found
        n = self.null / np.linalg.norm(self.null)
        bordered = sp.block_array([[self.a, n[:, None]], [n[None, :], None]]).tocsc()
        x: F64 = spsolve(bordered, np.append(self.b - n * (n @ self.b), 0.0))[:-1]
        return x


def links(rng: np.random.Generator, rows: int, degree: float, *, decades: float = 2.0) -> sp.csr_array:
    """Weights between random pairs: symmetric, with an empty diagonal."""
    count = int(rows * degree / 2)
    i, j = rng.integers(0, rows, (2, count))
    weights = 10.0 ** rng.uniform(-decades / 2, decades / 2, count)
    off = sp.coo_array((weights * (i != j), (i, j)), shape=(rows, rows)).tocsr()
    return (off + off.T).tocsr()


def sums(a: sp.csr_array) -> F64:
    found: F64 = np.asarray(abs(a).sum(axis=1)).ravel()
    return found


def connected(rng: np.random.Generator, rows: int, degree: float) -> sp.csr_array:
    """Laplacian of a graph that hangs together."""
    chain = sp.diags_array([np.ones(rows - 1), np.ones(rows - 1)], offsets=[-1, 1]) if rows > 1 else links(rng, rows, 0)
    off = (links(rng, rows, degree) + chain).tocsr()
    return (sp.diags_array(sums(off)) - off).tocsr()


def case_of(kind: str, rows: int, degree: float, seed: int) -> Case:
    """A system of some kind."""
    rng = np.random.default_rng(seed)
    b = rng.standard_normal(rows)
    off = links(rng, rows, degree)
    above = sums(off) + rng.uniform(0.2, 2.0, rows)
    if kind == "definite":  # with few links some rows have a diagonal alone
        return Case(a=(sp.diags_array(above) - off).tocsr(), b=b)
    if kind == "long rows":
        full = np.zeros((rows, rows))
        full[rng.integers(rows)] = rng.uniform(-1.0, 1.0, rows) / rows
        long = sp.csr_array(full + full.T)
        return Case(a=(sp.diags_array(above + sums(long)) - off + long).tocsr(), b=b)
    if kind == "unsymmetric":
        one_way = sp.triu(off).tocsr() - 0.5 * sp.tril(off).tocsr()
        return Case(a=(sp.diags_array(above * rng.choice([-1.0, 1.0], rows)) - one_way).tocsr(), b=b)
    if kind == "indefinite":
        mild = links(rng, rows, degree, decades=0.5)
        return Case(a=(sp.diags_array((1.0 + sums(mild)) * rng.choice([-1.0, 1.0], rows)) - mild).tocsr(), b=b)
    if kind == "saddle point":  # zeros on the diagonal, and none is stored
        few = rows // 3
        tie = sp.eye_array(few, rows - few) + 0.1 * sp.random_array((few, rows - few), density=0.2, rng=rng)
        upper = (sp.eye_array(rows - few) + 0.1 * links(rng, rows - few, 2.0, decades=0.5)).tocsr()
        upper = upper + sp.diags_array(sums(upper))
        return Case(a=sp.block_array([[upper, tie.T], [tie, None]]).tocsr() if few else upper.tocsr(), b=b)
    closed = connected(rng, rows, degree)
    if kind == "constants":
        return Case(a=closed, b=b - b.mean(), null=np.ones(rows))
    scale = rng.uniform(0.5, 2.0, rows)
    null = 1.0 / scale
    b = b - null * (null @ b) / (null @ null)
    return Case(a=(sp.diags_array(scale) @ closed @ sp.diags_array(scale)).tocsr(), b=b, null=null, given=null)


def dressed(a: sp.csr_array, form: str, wide: bool, doubled: bool, seed: int) -> Any:
    """The matrix in some format, its entries in any order, and perhaps each as the sum of two of them."""
    rng, entries = np.random.default_rng(seed), a.tocoo()
    row, column, values = entries.row, entries.col, entries.data
    if doubled:
        part = rng.uniform(0.0, 1.0, len(values))
        row, column, values = np.tile(row, 2), np.tile(column, 2), np.concatenate([values * part, values * (1 - part)])
    order = rng.permutation(len(values))
    width = np.int64 if wide else np.int32
    made = sp.coo_array((values[order], (row[order].astype(width), column[order].astype(width))), shape=a.shape)
    if form == "csr" and len(values):  # rows with duplicates in any order, which conversion would have summed
        by_row = np.argsort(row[order], kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=a.shape[0]))]).astype(width)
        columns = column[order][by_row].astype(width)
        return sp.csr_matrix((values[order][by_row], columns, start), shape=a.shape)
    return made.asformat(form)


@settings(
    max_examples=80, print_blob=True, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    kind=st.sampled_from(sorted(PRECONDITIONERS)),
    rows=st.integers(2, 60),
    degree=st.floats(0.0, 10.0),
    seed=st.integers(0, 10_000),
    chunks=st.integers(1, 5),
    form=st.sampled_from(FORMATS),
    wide=st.booleans(),
    doubled=st.booleans(),
    engine=st.sampled_from(ENGINES),
    data=st.data(),
)
def test_random_matrices_against_the_direct_solver(
    kind: str,
    rows: int,
    degree: float,
    seed: int,
    chunks: int,
    form: str,
    wide: bool,
    doubled: bool,
    engine: dict[str, Any],
    data: st.DataObject,
) -> None:
    method: Any = data.draw(st.sampled_from(SERVED.get(kind, tuple(METHODS))))
    m = data.draw(st.sampled_from(PRECONDITIONERS[kind]))
    case = case_of(kind, rows, degree, seed)
    given_matrix = dressed(case.a, form, wide, doubled, seed)
    block = getattr(given_matrix, "blocksize", (1, 1))[0]  # blocks of rows stay whole
    problem = dsolver.matrix(given_matrix, chunks=min(chunks, rows // block), nullspace=case.given)
    options: dict[str, Any] = {"restart": 30} if "gmres" in method else {}
    found = dsolver.solve(problem, case.b, method=method, M=m, rtol=1e-12, maxiter=5000, **options, **engine)
    expected = case.solution
    assert found.x.shape == case.b.shape
    assert np.linalg.norm(found.x - expected) <= 1e-8 * np.linalg.norm(expected), found
