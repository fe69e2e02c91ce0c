"""Preconditioners of general matrices against dense formulas, and as operators of SciPy's kind."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg

import dsolver
from dsolver import problems
from dsolver.cost.memory import of_chunk
from dsolver.errors import InputError
from dsolver.kernels import colorings
from dsolver.kernels.colorings import COLORINGS
from dsolver.kernels.cpu.colorings.setup import HostSweeps
from dsolver.preconditioners import IC0, ILU0, Algebraic, BlockJacobi, Identity, Preconditioner, SymGS
from dsolver.preconditioners.registry import preconditioner_of
from dsolver.program.spec import SolveSpec
from tests.kernels.colorings.test_colorings import csr
from tests.matrices.test_matrix import arrow, graph_laplacian, lattice

F64 = npt.NDArray[np.float64]
DEVICES = ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
A = graph_laplacian(60, 5.0, 1)
BOUNDS = (0, 22, 41, 60)
ALL = ("l1-jacobi", "block-jacobi", "symgs", "ic0", "ilu0")


def solver(m: Any, device: str = "cpu", a: Any = A, **options: Any) -> dsolver.Solver:
    problem = dsolver.matrix(a, chunks=np.diff(BOUNDS).tolist(), **options) if a is A else dsolver.matrix(a, **options)
    if device == "numpy":
        return dsolver.Solver(problem, M=m, kernels="numpy", engine="reference")
    return dsolver.Solver(problem, M=m, device=device, engine="reference")  # type: ignore[arg-type]


def dense(opened: dsolver.Solver) -> F64:
    """M, column by column."""
    with opened as made:
        m = made.aspreconditioner()
        return np.stack([m @ column for column in np.eye(m.shape[0])], axis=1)


def chunked(inverse: Callable[[F64, int], F64]) -> F64:
    """Block diagonal matrix of a function of each chunk's own part and its first row."""
    whole, out = A.toarray(), np.zeros(A.shape)
    for a, b in pairwise(BOUNDS):
        out[a:b, a:b] = inverse(whole[a:b, a:b], a)
    return out


def colored(own: F64, first: int, name: str) -> tuple[F64, F64, F64]:
    """L, D and U in the order of a coloring."""
    color = colorings.colored(HostSweeps(), HostSweeps().graph_of(csr(own)), name, first)
    earlier, d = color[None, :] < color[:, None], np.diag(own.diagonal())
    return (own - d) * earlier, d, (own - d) * ~earlier


def swept(name: str) -> Callable[[F64, int], F64]:
    def inverse(own: F64, first: int) -> F64:
        lower, d, upper = colored(own, first, name)
        m: F64 = (d + lower) @ np.linalg.inv(d) @ (d + upper)
        return np.linalg.inv(m).astype(np.float64)

    return inverse


def incomplete(own: F64, first: int) -> F64:
    """ILU(0) as in the books (Saad, algorithm 10.4), in the order of the colors."""
    color = colorings.colored(HostSweeps(), HostSweeps().graph_of(csr(own)), "greedy", first)
    order = np.argsort(color, kind="stable")
    a = own[np.ix_(order, order)]
    pattern = a != 0.0
    for i in range(len(a)):
        for k in np.flatnonzero(pattern[i, :i]):
            a[i, k] /= a[k, k]
            rest = np.arange(len(a)) > k
            a[i] -= np.where(rest & pattern[i], a[i, k] * np.where(pattern[k], a[k], 0.0), 0.0)
    out = np.empty_like(a)
    out[np.ix_(order, order)] = np.linalg.inv((np.tril(a, -1) + np.eye(len(a))) @ np.triu(a))
    return out


def blocked(size: int) -> Callable[[F64, int], F64]:
    def inverse(own: F64, first: int) -> F64:
        block = (first + np.arange(len(own))) // size
        return np.linalg.inv(np.where(block[:, None] == block[None, :], own, 0.0))

    return inverse


CASES: list[tuple[Any, Callable[[], F64]]] = [
    *((SymGS(coloring=name), lambda name=name: chunked(swept(name))) for name in COLORINGS),
    (IC0(), lambda: chunked(incomplete)),
    (ILU0(), lambda: chunked(incomplete)),
    (BlockJacobi(), lambda: chunked(blocked(8))),
    (BlockJacobi(size=3), lambda: chunked(blocked(3))),
    ("l1-jacobi", lambda: np.diag(1.0 / np.abs(A.toarray()).sum(axis=1))),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", range(len(CASES)), ids=[str(m) for m, _ in CASES])
def test_they_are_what_the_books_say(device: str, case: int) -> None:
    m, expected = CASES[case]
    found, wanted = dense(solver(m, device)), expected()
    assert np.abs(found - wanted).max() <= 1e-14 * np.abs(wanted).max()
    assert np.abs(found - found.T).max() <= 1e-14 * np.abs(wanted).max()
    assert np.linalg.eigvalsh(found).min() > 0.0


@pytest.mark.parametrize("m", ALL)
def test_an_order_inside_chunks_keeps_them_positive_definite(m: str) -> None:
    found = dense(solver(m, order="rcm"))
    assert np.abs(found - found.T).max() <= 1e-14 * np.abs(found).max()
    assert np.linalg.eigvalsh(found).min() > 0.0
    if m in ("l1-jacobi", "block-jacobi"):  # the others follow the order
        assert found == pytest.approx(dense(solver(m)), abs=1e-14)


def test_blocks_are_those_of_bsr() -> None:
    a = sp.bsr_array(graph_laplacian(60, 5.0, 1), blocksize=(3, 3))
    assert (dense(solver(BlockJacobi(), a=a, chunks=2)) == dense(solver(BlockJacobi(size=3), a=a, chunks=2))).all()


def test_iterations_fall() -> None:
    """Gauss-Seidel from zero halves the iterations of Jacobi on a lattice; no fill saves a few more (Saad, 10.3)."""
    a = lattice(40)
    b = np.random.default_rng(0).standard_normal(a.shape[0])

    def iterations(m: Any) -> int:
        solution = dsolver.solve(a, b, M=m, device="cpu")
        assert solution.converged
        return solution.iterations

    jacobi = iterations("jacobi")
    counts = {name: iterations(SymGS(coloring=name)) for name in COLORINGS}
    assert max(counts.values()) <= 0.65 * jacobi
    assert counts["levels"] == min(counts.values())
    assert iterations(IC0(coloring="levels")) < counts["levels"]


def test_matrices_that_are_not_symmetric_have_factors_that_are_not() -> None:
    n = 24
    wind = sp.diags_array([-np.ones(n - 1), np.ones(n)], offsets=[-1, 0])
    a = (lattice(n) + 0.5 * sp.kron(wind, sp.eye_array(n))).tocsr()
    found = dense(solver("ilu0", a=a))
    expected = incomplete(a.toarray(), 0)
    assert np.abs(found - expected).max() <= 1e-13 * np.abs(expected).max()
    b = np.random.default_rng(0).standard_normal(n * n)
    counts = {}
    for m in ("jacobi", "l1-jacobi", "block-jacobi", "symgs", "ilu0"):
        solution = dsolver.solve(a, b, M=m, method="bicgstab", device="cpu")
        assert solution.converged
        counts[m] = solution.iterations
    assert max(counts["symgs"], counts["ilu0"]) < 0.7 * counts["jacobi"]
    with pytest.raises(InputError, match=r"IC0.* is for symmetric matrices, and A is not: .*use M='ilu0'"):
        dsolver.solve(a, b, M="ic0", device="cpu")


def test_rows_of_zeros_are_no_hindrance_to_l1_jacobi() -> None:
    found = dsolver.solve(sp.csr_array(np.diag([2.0, 4.0, 0.0])), np.array([1.0, 2.0, 0.0]), M="l1-jacobi")
    assert found.converged
    np.testing.assert_allclose(found.x, [0.5, 0.5, 0.0])


def test_in_float32_they_move_half_the_bytes_and_x_is_as_good() -> None:
    b = np.random.default_rng(2).standard_normal(60)
    for m in ALL:
        one, two = (dsolver.solve(A, b, M=m, device="cpu", precond_dtype=kind) for kind in ("float64", "float32"))
        assert two.converged
        assert abs(two.iterations - one.iterations) <= 2
        assert one.x == pytest.approx(two.x, rel=1e-5, abs=1e-7)


def test_several_right_hand_sides_have_the_bits_that_each_has_alone() -> None:
    b = np.random.default_rng(8).standard_normal((60, 2))
    for m in ALL:
        with solver(m) as made:
            together = made.solve([b[:, 0], b[:, 1]])
            for number in range(2):
                alone = made.solve(b[:, number])
                assert alone.residuals == together[number].residuals
                assert (alone.x == together[number].x).all()


# -- what is refused ---------------------------------------------------------------------------------------------------

KERSHAW = sp.csr_array(np.array([[3.0, -2, 0, 2], [-2, 3, -2, 0], [0, -2, 3, -2], [2, 0, -2, 3]]))
"""Positive definite, but its incomplete factors are not (Kershaw, J. Comput. Phys. 26, 1978)."""


def test_a_pivot_that_is_not_positive_is_told_and_a_shift_helps() -> None:
    b = np.arange(4.0)
    with pytest.raises(InputError, match=r"M='ic0' breaks down in row 3, where the pivot is -5: use .*shift='auto'"):
        dsolver.solve(KERSHAW, b, M=IC0(coloring="levels"), device="cpu")
    for shift in ("auto", 1.0):
        found = dense(solver(IC0(coloring="levels", shift=shift), a=KERSHAW))
        assert np.linalg.eigvalsh(found).min() > 0.0
    hollow = KERSHAW - sp.diags_array([3.0, 0.0, 0.0, 0.0])
    with pytest.raises(InputError, match=r"row 0, where the pivot is 0: use .* with a positive diagonal"):
        dsolver.solve(hollow, b, M=IC0(coloring="levels", shift="auto"), device="cpu")


def test_a_pivot_that_rounding_has_left_of_zero_is_told() -> None:
    """Without fill nothing is left out of a line's factors: the last pivot of a singular one is zero."""
    weights = np.random.default_rng(0).uniform(1.0, 3.0, 50)
    ends = sp.diags_array([-np.ones(50), np.ones(50)], offsets=[0, 1], shape=(50, 51)).tocsr()
    line = (ends.T @ sp.diags_array(weights) @ ends).tocsr()
    b = np.cos(np.arange(51.0))
    b -= b.mean()
    with pytest.raises(InputError, match="M='ic0' breaks down in row"):
        dsolver.solve(line, b, M=IC0(coloring="levels"), device="cpu")
    solution = dsolver.solve(line, b, M=IC0(coloring="levels", shift="auto"), device="cpu")
    assert np.linalg.norm(line @ solution.x - b) <= 1e-8 * np.linalg.norm(b)


@pytest.mark.parametrize("m", ALL)
def test_grids_are_refused(m: str) -> None:
    with pytest.raises(InputError, match=f"M='{m}' is for general matrices"):
        dsolver.solve(problems.poisson7((4, 4, 4)), np.ones((4, 4, 4)), M=m, device="cpu")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: SymGS(coloring="rainbow"), "coloring must be one of 'greedy', 'jpl'"),
        (lambda: IC0(shift=-1.0), "shift must be 'auto' or a number from 0"),
        (lambda: ILU0(shift="some"), "shift must be"),  # type: ignore[arg-type]
        (lambda: BlockJacobi(size=0), "size must be an integer from 1 to 128"),
    ],
)
def test_options_are_checked(make: Callable[[], Preconditioner], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make()


def test_a_singular_block_is_told() -> None:
    a = sp.csr_array(np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.0], [0.5, 0.0, 2.0]]))
    with pytest.raises(InputError, match="a block of 2 rows among rows 0 to 2 is singular"):
        dsolver.solve(a, np.ones(3), M=BlockJacobi(size=2), device="cpu")


def test_too_many_colors_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.preconditioners.relaxation.chunk_factors.FEW", 100)
    line = sp.diags_array([-np.ones(39), np.full(40, 2.0), -np.ones(39)], offsets=[-1, 0, 1]).tocsr()
    with pytest.raises(InputError, match="coloring='levels' has 40 colors for 40 rows, each padded to 32"):
        dsolver.solve(line, np.ones(40), M=SymGS(coloring="levels"), device="cpu")


def test_rows_that_are_far_longer_than_the_others_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.preconditioners.relaxation.chunk_factors.FEW", 100)
    with pytest.raises(InputError, match=r"M='ilu0' is not for .* \(90 entries in a row, 3 on average\)"):
        dsolver.solve(arrow(90), np.ones(90), M="ilu0", device="cpu")


def test_the_estimate_knows_their_slices() -> None:
    a = lattice(60)
    problem = dsolver.matrix(a, chunks=1).planned(1)

    assert problem.chunks is not None
    chunks = problem.chunks

    def resident(m: Any, dtype: str = "float64") -> int:
        spec = SolveSpec.plan(problem, chunks, m=preconditioner_of(m), precond_dtype=dtype)
        return of_chunk(spec, 0, cuda=False).resident

    plain, swept, lowered = resident("jacobi"), resident("symgs"), resident("symgs", "float32")
    assert 12 * a.nnz < swept - plain < 30 * a.nnz
    assert 8 * a.nnz < lowered - plain < 0.8 * (swept - plain)


# -- as an operator ----------------------------------------------------------------------------------------------------


def test_scipys_solvers_take_it() -> None:
    a = graph_laplacian(300, 6.0, 2)
    b = np.random.default_rng(1).standard_normal(300)
    with dsolver.Solver(dsolver.matrix(a, chunks=2), M="ic0", device="cpu") as made:
        m = made.aspreconditioner()
        for method in (scipy.sparse.linalg.gmres, scipy.sparse.linalg.cg):
            x, info = method(a, b, M=m, rtol=1e-10)
            assert info == 0
            assert x == pytest.approx(made.solve(b, rtol=1e-11).x, rel=1e-7, abs=1e-9)
        with pytest.raises(InputError, match=r"r has shape \(299,\), but must be \(300,\)"):
            m.matvec(b[1:])
    with pytest.raises(InputError, match="closed"):
        m.matvec(b)


def test_multigrid_on_a_grid_is_one_too() -> None:
    problem = problems.poisson7((8, 6, 4), chunks=(2, 1, 1))
    r = np.random.default_rng(5).standard_normal(problem.grid)
    with dsolver.Solver(problem, device="cpu") as made:
        m = made.aspreconditioner()
        x = made.solve(r).x
        assert m.shape == (192, 192)
        z = m @ r.ravel()
        assert 0.5 * abs(x).max() < abs(z).max() < 2.0 * abs(x).max()
        assert (made.solve(r).x == x).all(), "a solve after it is the same"
    with dsolver.Solver(problem, M=None, device="cpu") as made:
        assert (made.aspreconditioner() @ r.reshape(192, 1) == r.reshape(192, 1)).all()


def test_vectors_of_the_operator_are_in_the_order_of_a() -> None:
    parts = np.arange(60) % 2
    found = dense(dsolver.Solver(dsolver.matrix(A, partition=parts), M="jacobi", device="cpu"))
    assert found == pytest.approx(np.diag(1.0 / A.diagonal()), rel=1e-15)


def test_it_is_applied_to_several_vectors_as_eigenvalue_solvers_do() -> None:
    several = np.random.default_rng(7).standard_normal((60, 3))
    with dsolver.Solver(A, M="ic0", device="cpu") as made:
        m = made.aspreconditioner()
        assert (m @ several == np.stack([m @ column for column in several.T], axis=1)).all()
        for product in (m @ several.tolist(), m * several, m(several), m.dot(several)):
            assert (product == m @ several).all()
        lazy = m @ da.from_array(several, chunks=(20, 2))
        assert isinstance(lazy, da.Array)
        assert (lazy.compute() == m @ several).all()
        assert repr(m) == f"<PreconditionerOperator (60, 60) of {made!r}>"
        found, _ = sp.linalg.lobpcg(A, several, M=m, largest=False, tol=1e-8, maxiter=60)
    assert found == pytest.approx(np.linalg.eigvalsh(A.toarray())[:3], rel=1e-9)


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (lambda m: m @ 3.0, r"r must be an array of shape \(60,\), not 3\.0"),
        (lambda m: m @ np.ones((60, 0)), r"r has shape \(60, 0\), but must be \(60,\) or \(60, k\)"),
        (lambda m: m @ [[1.0], [2.0, 3.0]], "r is no array: "),
        (lambda m: m @ A, r"r must be an array of shape \(60,\), not .*: pass r\.toarray\(\)"),
        (
            lambda m: m @ pytest.importorskip("xarray").DataArray(np.ones(60)),
            r"r is a DataArray with labels, which M has not: pass r\.values",
        ),
        (lambda m: sp.linalg.bicg(A, np.ones(60), M=m), "Mᵀ cannot be applied: use a method that needs M alone"),
        (copy.deepcopy, "an operator of a Solver is neither copied nor pickled"),
    ],
)
def test_other_uses_of_it_are_refused(use: Any, reason: str) -> None:
    with dsolver.Solver(A, M="jacobi", device="cpu") as made, pytest.raises(InputError, match=reason):
        use(made.aspreconditioner())


def test_messages_name_unusual_options_alone() -> None:
    assert Algebraic().asked == "Algebraic()"
    assert Algebraic(theta=0.1, coarsening="pmis").asked == "Algebraic(coarsening='pmis', theta=0.1)"
    assert Identity().asked == "Identity()"
    assert preconditioner_of(abs).asked == "Function(function=<built-in function abs>)"


def test_what_auto_has_chosen_is_told_where_it_has_no_levels() -> None:
    with (
        dsolver.Solver(sp.eye_array(20) * 2.0, device="cpu") as made,
        pytest.raises(InputError, match=r"^M=Direct\(\) has no levels to show: M='mg' and M='amg' have$"),
    ):
        _ = made.hierarchy


@pytest.mark.parametrize("chunks", [1, 2])
def test_levels_of_a_lattice_are_shown(chunks: int) -> None:
    rough = np.random.default_rng(0).lognormal(size=(16, 12, 20))
    for problem, formats in (
        (problems.poisson7((16, 12, 20), chunks=(1, 1, chunks)), ("stencil", "slices")),
        (problems.diffusion((16, 12, 20), rough, chunks=(1, 1, chunks)), ("slices", "slices")),
    ):
        with dsolver.Solver(problem, M="mg", device="cpu") as made:
            finest, coarse = made.hierarchy.levels[:2]
        assert (finest.rows, coarse.rows) == (16 * 12 * 20, 8 * 6 * 10)
        assert finest.entries == 7 * 3840 - 2 * (12 * 20 + 16 * 20 + 16 * 12)
        assert coarse.entries == (3 * 8 - 2) * (3 * 6 - 2) * (3 * 10 - 2)
        assert (finest.format, coarse.format) == formats
        assert coarse.matrix_bytes > 8 * coarse.entries / 2
        assert (finest.matrix_bytes > 1e5) == (finest.transfer_bytes > 1e4) == (formats[0] == "slices")


@pytest.mark.gpu
def test_cupys_solvers_take_it() -> None:
    import cupy
    import cupyx.scipy.sparse
    import cupyx.scipy.sparse.linalg

    a = graph_laplacian(3000, 6.0, 2)
    there, b = cupyx.scipy.sparse.csr_matrix(sp.csr_matrix(a)), cupy.ones(3000)
    with dsolver.Solver(a, M="symgs", device="cuda") as made:
        x, info = cupyx.scipy.sparse.linalg.cg(there, b, M=made.aspreconditioner())
    assert info == 0
    assert float(cupy.linalg.norm(there @ x - b)) <= 1e-4 * float(cupy.linalg.norm(b))
