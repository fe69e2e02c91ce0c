"""Choices of M="auto" for a grid and for a matrix, and how it corrects itself."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.errors import DeviceMemoryError
from dsolver.kernels.direct.fill import Fill, fill_of
from dsolver.krylov.control import giving_up
from dsolver.matrices import elimination
from dsolver.multigrid import hierarchy
from dsolver.multigrid.algebraic.lattice import choice as lattice_choice
from dsolver.preconditioners import Algebraic, Auto, Chebyshev, Direct, Jacobi, Multigrid, alternatives, auto
from dsolver.preconditioners.direct import choice
from dsolver.preconditioners.registry import value_type
from dsolver.program import plan
from dsolver.program.spec import SolveSpec
from dsolver.session.solving import last_attempts
from tests.support import hard_systems
from tests.support.clusters import cluster

GRID = (20, 18, 16)
X, Y, Z = np.indices(GRID)
RNG = np.random.default_rng(0)
CHANNELS = np.where((X % 5 == 2) & (Y % 4 == 1), 1e5, 1.0)
FIELDS: dict[str, Any] = {
    "constant": 2.0,
    "smooth": lambda x, y, z: np.exp(0.1 * x + np.sin(y) - 0.2 * z),
    "blocks": np.where((X // 4 + Y // 4 + Z // 4) % 2, 1e4, 1.0),
    "white noise": np.exp(RNG.standard_normal(GRID)),
    "channels": CHANNELS,
    "decades": 10.0 ** RNG.uniform(-3.0, 3.0, GRID),
}


@pytest.fixture
def _costly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Factors count as too much work, whatever the matrix."""
    for name in ("CHEAP", "SURE"):
        monkeypatch.setattr(choice, name, Fill(entries=0.0, products=0.0))
    monkeypatch.setattr(choice, "FEW", 0)
    monkeypatch.setattr(choice, "BAND", 0)
    monkeypatch.setattr(choice, "INSTEAD", 0)
    monkeypatch.setattr(choice, "RATE", {"cpu": 1e-9, "cuda": 1e-9})


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def taken(problem: Any, device: Any = "cpu", **more: Any) -> Any:
    with dsolver.Solver(problem, device=device, **more) as solver:
        return solver.preconditioner


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FIELDS)
def test_a_grid_gets_the_multigrid_that_suits_its_coefficients_however_it_is_cut(name: str, device: str) -> None:
    expected = Algebraic() if name in ("channels", "decades", "blocks") else Multigrid()
    for chunks in ((1, 1, 1), (2, 1, 2)):
        assert taken(dsolver.problems.diffusion(GRID, FIELDS[name], chunks=chunks), device) == expected


def test_pores_are_followed_and_axes_that_differ_everywhere_are_not() -> None:
    solid = RNG.random(GRID) < 0.4
    assert taken(dsolver.problems.diffusion(GRID, mask=solid)) == Algebraic()
    assert taken(dsolver.problems.diffusion(GRID, [1.0, 1.0, 1e4])) == Multigrid()
    assert taken(dsolver.problems.diffusion(GRID, CHANNELS), M="mg") == Multigrid()


@pytest.mark.parametrize(
    ("spacing", "few", "expected"),
    [(1.0, 0, Multigrid()), (1.0, 27_000, Algebraic()), ((10.0, 10.0, 1.0), 0, Algebraic())],
)
def test_bodies_are_followed_where_the_lattice_gets_coarser_along_some_axes_alone_and_on_few_points_of_gpus(
    spacing: Any, few: int, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lattice of cubes took 0.6 to 0.9 of the processor time, that of flat cells 1.5 times as long."""
    monkeypatch.setitem(lattice_choice.FEW, "cpu", few)
    x, y, z = np.indices((30, 30, 30)) // 10
    kappa = np.where((x + y + z) % 2, 1e4, 1.0)
    for chunks in ((1, 1, 1), (1, 1, 2)):
        assert taken(dsolver.problems.diffusion(kappa.shape, kappa, spacing=spacing, chunks=chunks)) == expected


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["constant", "smooth", "white noise", "channels"])
def test_a_grid_gets_jacobi_where_its_diagonal_dominates_however_it_is_cut(name: str, device: str) -> None:
    field = FIELDS[name]
    most = float(np.max(field(X, Y, Z) if callable(field) else field))
    for times, expected in ((0.5, Jacobi()), (1e-4, None)):
        sigma = times * 6.0 * most  # couplings are at most 1 / (1 + times) of the diagonal
        for chunks in ((1, 1, 1), (2, 1, 2)):
            problem = dsolver.problems.diffusion(GRID, field, sigma, chunks=chunks)
            assert (taken(problem, device) == Jacobi()) is (expected is not None)


def test_jacobi_takes_few_iterations_whatever_the_coefficients() -> None:
    b = RNG.standard_normal((2, *GRID))
    for field in (1.0, FIELDS["white noise"]):
        sigma = 0.026 * 6.0 * float(np.max(field))
        problem = dsolver.problems.diffusion(GRID, field, sigma)
        with dsolver.Solver(problem, device="cpu") as solver:
            both = solver.solve([b[0], b[1]])
            assert solver.preconditioner == Jacobi()
            assert both.converged
            assert max(solution.iterations for solution in both) <= 85
            assert np.array_equal(solver.solve(b[1], x0="fmg").x, both.x[1]), "there are no levels to guess by"
        assert np.allclose(both.x[0], dsolver.solve(problem, b[0], M="mg", device="cpu").x, rtol=1e-5, atol=1e-7)


def test_the_choice_follows_the_time_step() -> None:
    sigmas = {1.0: Jacobi(), 0.01: Multigrid(), 2.0: Jacobi()}
    b = RNG.standard_normal(GRID)
    with dsolver.Solver(dsolver.problems.diffusion(GRID, sigma=3.0), device="cpu") as solver:
        assert solver.preconditioner == Jacobi()
        for sigma, expected in sigmas.items():
            solver.update(sigma=sigma, reuse=None)
            assert solver.preconditioner == expected
            new = dsolver.solve(dsolver.problems.diffusion(GRID, sigma=sigma), b, device="cpu")
            assert np.array_equal(solver.solve(b).x, new.x)
        solver.update(sigma=1.5)
        assert solver.solve(b).notes == ()


def test_every_engine_takes_jacobi_with_the_same_bits() -> None:
    problem = dsolver.problems.diffusion(GRID, FIELDS["white noise"], 100.0, chunks=(2, 1, 2))
    b = RNG.standard_normal(GRID)
    expected = dsolver.solve(problem, b, device="cpu")
    with cluster(2) as client:
        for engine in ("resident", "graph"):
            with dsolver.Solver(problem, engine=engine, device="cpu", client=client) as solver:
                found = solver.solve(b)
                assert solver.preconditioner == Jacobi()
            assert np.array_equal(np.asarray(found.x), expected.x)
            assert found.residuals == expected.residuals


def test_eigenvalues_are_found_with_multigrid_whatever_is_added_to_the_diagonal() -> None:
    found = [dsolver.eigsh(dsolver.problems.diffusion(GRID, sigma=sigma), 2, device="cpu") for sigma in (0.0, 0.5)]
    assert found[1].solved_by == "lobpcg with Multigrid()"
    assert np.allclose(found[1].values - 0.5, found[0].values, rtol=1e-6)


def laplacian(n: int, shift: float = 0.0) -> Any:
    line = sp.diags_array([-np.ones(n - 1), np.full(n, 2.0 + shift / 2), -np.ones(n - 1)], offsets=[-1, 0, 1])
    return sp.csr_array(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line))


def test_nobody_looks_again_where_a_lattice_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(hierarchy, "leaves_lattice_at_once", lambda *_, **__: looked.append(1))
    for m in ("auto", "mg"):
        assert taken(dsolver.problems.diffusion(GRID, FIELDS["smooth"]), M=m) == Multigrid()
    assert looked == [1]


@pytest.mark.usefixtures("_costly")
def test_a_matrix_gets_algebraic_multigrid_if_it_is_large_and_elliptic(monkeypatch: pytest.MonkeyPatch) -> None:
    assert taken(laplacian(40)) == Chebyshev()
    monkeypatch.setattr(auto, "MANY", 1000)
    assert taken(laplacian(40)) == Algebraic()
    assert taken(laplacian(40, shift=1.0)) == Jacobi()  # a dominant diagonal
    some = sp.diags_array(np.where(np.arange(1600) % 2, 2.0, 0.0))
    assert taken(laplacian(40) + some) == Chebyshev(), "it does not dominate in each row"
    both_signs = laplacian(40) @ laplacian(40)
    assert taken(both_signs) == Chebyshev()
    near = np.stack([np.ones(1600), np.arange(1600.0)], axis=1)
    assert auto.usual_preconditioner(dsolver.matrix(both_signs, near_nullspace=near)) == "amg"
    one_sided = laplacian(40).tolil()
    one_sided[0, 200] = 1e-14
    assert taken(sp.csr_array(one_sided)) == Chebyshev()
    assert auto.usual_preconditioner(dsolver.matrix(laplacian(40)), "minres") == "jacobi"


def recirculating(n: int) -> sp.csr_array:
    """Diffusion with a flow in a circle, by upwind differences, on a square."""
    h = 1.0 / (n + 1)
    x, y = np.meshgrid((np.arange(n) + 1) * h, (np.arange(n) + 1) * h, indexing="ij")
    u, v = 4 * x * (x - 1) * (1 - 2 * y), -4 * y * (y - 1) * (1 - 2 * x)
    back = sp.diags_array([-np.ones(n - 1), np.ones(n)], offsets=[-1, 0]) / h
    eye, a = sp.eye_array(n), laplacian(n) * (0.01 / h**2)
    for speed, one_sided in ((u, sp.kron(back, eye)), (v, sp.kron(eye, back))):
        a = a + sp.diags_array(np.maximum(speed, 0).ravel()) @ one_sided
        a = a - sp.diags_array(np.minimum(speed, 0).ravel()) @ one_sided.T
    return sp.csr_array(a)


def with_hubs(rows: int) -> sp.csr_array:
    """Laplacian of a graph in which the first rows are coupled to many, plus a little."""
    rng = np.random.default_rng(0)
    i = np.repeat(np.arange(rows), 4)
    j = (i * rng.random(len(i)) ** 4).astype(int)
    links = sp.coo_array((np.ones(len(i)) * (i != j), (i, j)), shape=(rows, rows)).tocsr()
    links = links + links.T
    return sp.csr_array(sp.diags_array(np.asarray(links.sum(axis=1)).ravel() + 0.01) - links)


def test_time_steps_solved_at_once_are_elliptic() -> None:
    """Couplings to the step before have no mirror images; of both signs they are no transport."""
    lines = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(30, 30))
    step = sp.eye_array(900) + 5.0 * sp.kronsum(lines, lines)
    steps = sp.csr_array(sp.kron(sp.eye_array(40), step) - sp.kron(sp.eye_array(40, k=-1), sp.eye_array(900)))
    assert auto.usual_preconditioner(dsolver.matrix(steps), "gmres") == "amg"
    b = np.random.default_rng(0).standard_normal(steps.shape[0])
    solution = dsolver.solve(steps, b, device="cpu")
    assert solution.converged
    assert solution.iterations <= 25
    signs = sp.diags_array(np.random.default_rng(1).choice([-1.0, 1.0], steps.shape[0] - 900), offsets=-900)
    both = sp.csr_array(sp.kron(sp.eye_array(40), step) + signs)
    assert auto.usual_preconditioner(dsolver.matrix(both), "gmres") == "jacobi"


@pytest.mark.usefixtures("_costly")
def test_an_elliptic_matrix_that_is_not_symmetric_gets_algebraic_multigrid() -> None:
    stray = laplacian(40).tolil()
    stray[5, 800] = 0.3
    for a in (recirculating(40), sp.csr_array(stray)):
        b = RNG.standard_normal(1600)
        assert taken(a) == Algebraic()
        solution = dsolver.solve(a, b, device="cpu")
        assert solution.converged
        assert solution.iterations <= 40
        assert np.linalg.norm(b - a @ solution.x) <= 1.01e-8 * np.linalg.norm(b)
    one_way = sp.csr_array(sp.eye_array(400) - 0.99 * sp.diags_array(np.ones(399), offsets=1))
    assert auto.usual_preconditioner(dsolver.matrix(one_way), "gmres") == "jacobi"


@pytest.mark.usefixtures("_costly")
def test_few_long_rows_get_jacobi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "MANY", 1000)
    assert taken(with_hubs(2000)) == Jacobi()
    assert taken(laplacian(40)) == Algebraic()


@pytest.mark.usefixtures("_costly")
def test_graphs_without_distances_get_jacobi_and_meshes_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "MANY", 1000)
    ends = np.random.default_rng(0).integers(0, 3000, (2, 12_000))
    links = sp.coo_array((np.ones(12_000) * (ends[0] != ends[1]), tuple(ends)), shape=(3000, 3000)).tocsr()
    links = links + links.T
    graph = sp.csr_array(sp.diags_array(np.asarray(links.sum(axis=1)).ravel() + 0.01) - links)
    assert taken(graph) == Jacobi()
    solution = dsolver.solve(graph, RNG.standard_normal(3000), device="cpu")
    assert solution.converged
    assert solution.iterations <= 60
    line = sp.diags_array([np.ones(13), np.ones(14), np.ones(13)], offsets=[-1, 0, 1])
    near = sp.csr_array(sp.kron(sp.kron(line, line), line))
    box = sp.diags_array(near.sum(axis=1) + 0.01) - near
    assert taken(sp.csr_array(box)) == Algebraic(), "27 points"


@pytest.mark.usefixtures("_costly")
def test_what_is_definite_and_not_elliptic_goes_on_with_algebraic_multigrid() -> None:
    a = sp.csr_array(laplacian(60, shift=0.01) @ laplacian(60, shift=0.01))
    b = RNG.standard_normal(3600)
    solution = dsolver.solve(a, b, device="cpu")
    assert "goes on with 'amg'" in solution.notes[0]
    assert solution.converged
    assert solution.iterations <= 150
    assert np.linalg.norm(b - a @ solution.x) <= 1.01e-8 * np.linalg.norm(b)


@pytest.mark.usefixtures("_costly")
def test_what_was_slow_is_not_begun_with_for_the_next_matrix() -> None:
    """Steps of one Solver, as of a pressure, whose matrices are alike."""
    a, b = laplacian(60, shift=0.01) @ laplacian(60, shift=0.01), RNG.standard_normal(3600)
    with dsolver.Solver(a, device="cpu") as solver:
        first = solver.solve(b)
        solver.update(1.1 * a)
        second = solver.solve(b)
        solver.update(a, reuse=None)
        anew = solver.solve(b)
    assert "goes on with 'amg'" in first.notes[0]
    assert second.notes == ()
    assert second.iterations < first.iterations - 15
    assert (anew.x.tobytes(), anew.notes) == (first.x.tobytes(), first.notes), "the bits of a new Solver"


@pytest.mark.usefixtures("_costly")
def test_what_was_learnt_of_a_matrix_holds_for_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of one Solver: M stays where a new one needs as many iterations, and what was slow does not come back."""
    a, b = laplacian(60, shift=0.01) @ laplacian(60, shift=0.01), RNG.standard_normal(3600)
    with dsolver.Solver(a, device="cpu") as solver:
        solutions = [solver.solve(b)]
        monkeypatch.setattr(alternatives, "FURTHER", dict.fromkeys(alternatives.FURTHER, 1))
        for factor in (1.1, 1.2, 1.3):
            solver.update(factor * a)
            solutions.append(solver.solve(b))
    assert [solution.solved_by for solution in solutions] == ["cg with Algebraic()"] * 4
    assert ["goes on" in " ".join(solution.notes) for solution in solutions] == [True, False, False, False]
    assert solutions[1].iterations == solutions[2].iterations > 24
    assert solutions[3].notes[0].startswith("M is that of an earlier matrix")


@pytest.mark.usefixtures("_costly")
def test_an_indefinite_matrix_tells_nothing_of_the_next_one() -> None:
    b = RNG.standard_normal(3600)
    with dsolver.Solver(laplacian(60, shift=-0.05), device="cpu") as solver:
        assert solver.solve(b).solved_by.startswith("minres")
        solver.update(laplacian(60))
        assert solver.solve(b).solved_by == "cg with Chebyshev()"


def test_cheap_factors_are_made_at_once_whatever_the_matrix() -> None:
    stray = laplacian(40).tolil()
    stray[5, 800] = 0.3
    for a in (laplacian(40), laplacian(40) @ laplacian(40), recirculating(40), with_hubs(300), sp.csr_array(stray)):
        assert taken(a) == Direct()
    line = sp.diags_array([-np.ones(9999), np.full(10000, 2.0), -np.ones(9999)], offsets=[-1, 0, 1])
    assert taken(sp.csr_array(line)) == Direct(), "it has no fill"
    assert taken(laplacian(40), method="cg") == Chebyshev(), "a method that was asked for"
    floating = sp.csgraph.laplacian(abs(laplacian(40)))
    assert taken(sp.csr_array(floating)) == Chebyshev(), "constants are in its null space"


def test_factors_need_not_be_cheap_where_nothing_tells_how_many_iterations_are_needed() -> None:
    helmholtz = laplacian(100, shift=-1.0) - sp.diags_array(5.0 * (np.arange(10000) % 7 == 0))
    one_sided = laplacian(100) + sp.diags_array(np.random.default_rng(0).uniform(-1.0, 1.0, 9800), offsets=200)
    assert taken(sp.csr_array(helmholtz)) == taken(sp.csr_array(one_sided)) == Direct()
    assert taken(sp.csr_array(one_sided + 12.0 * sp.eye_array(10000))) == Jacobi(), "its diagonal dominates"


def test_on_cpus_factors_need_not_be_cheap_where_they_cost_less_than_iterations_are_likely_to() -> None:
    mixed = np.random.default_rng(0).permutation(8100)
    line = sp.diags_array([-np.ones(17), np.full(18, 2.0), -np.ones(17)], offsets=[-1, 0, 1])
    box = sp.csr_array(sp.kron(sp.eye_array(18), laplacian(18)) + sp.kron(line, sp.eye_array(324)))
    plate = sp.csr_array(laplacian(90) @ laplacian(90))
    for a in (laplacian(90), laplacian(90)[mixed][:, mixed], plate):
        problem = dsolver.matrix(sp.csr_array(a))
        assert auto.usual_preconditioner(problem, None, "cpu") == "direct"
        assert auto.usual_preconditioner(problem, None, "cuda") == "chebyshev", "iterations are far quicker there"
    for a, why in (
        (box, "factors take more in space"),
        (laplacian(130), "or with more rows"),
    ):
        assert auto.usual_preconditioner(dsolver.matrix(a), None, "cpu") == "chebyshev", why
    dominated = dsolver.matrix(laplacian(90, shift=1.0))
    assert auto.usual_preconditioner(dominated, None, "cpu") == "jacobi", "few iterations are needed"
    assert taken(laplacian(90)) == Direct()
    guided = dsolver.matrix(plate, near_nullspace=np.stack([np.ones(8100), np.arange(8100.0)], axis=1))
    assert auto.usual_preconditioner(guided, None, "cpu") == "chebyshev", "who brings these vectors wants multigrid"


def test_more_factors_are_made_at_once_by_a_library_that_is_quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    plate = sp.csr_array(laplacian(90) @ laplacian(90))
    fill = fill_of(plate, mirrored=True)
    monkeypatch.setattr(choice, "INSTEAD", int(0.7 * fill.products / plate.nnz))
    asked: list[int] = []
    for library, m in (("superlu", "chebyshev"), ("pardiso", "direct")):

        def taken_library(_: Any, __: Any, entries: int, name: str = library, **___: Any) -> str:
            asked.append(entries)
            return name

        monkeypatch.setattr(choice, "chosen", taken_library)
        assert auto.usual_preconditioner(dsolver.matrix(plate), None, "cpu") == m
    assert set(asked) == {plate.nnz}


def test_what_is_slow_goes_on_with_factors_where_they_cost_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elimination, "FAR", 0.0)  # they promise nothing
    plate = sp.csr_array(laplacian(60) @ laplacian(60))
    b = RNG.standard_normal(3600)
    with dsolver.Solver(plate, device="cpu") as solver:
        solution = solver.solve(b)
        assert solver.preconditioner == Direct()
        several: Any = solver.solve(np.stack([b, plate @ b], axis=1))
    assert "took 'chebyshev': after" in solution.notes[0]
    assert "goes on with 'direct'" in solution.notes[0]
    assert solution.converged
    assert solution.iterations <= 43
    for x, right in zip((solution.x, *several.x.T), (b, b, plate @ b), strict=True):
        assert np.linalg.norm(right - plate @ x) <= 1.01e-8 * np.linalg.norm(right)


def test_factors_follow_where_the_other_one_is_slow_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elimination, "FAR", 0.0)  # they promise nothing
    monkeypatch.setattr(alternatives, "ENOUGH", 0)  # and cost too much to be made without a look at what else there is
    plate = sp.csr_array(laplacian(60) @ laplacian(60))
    b = RNG.standard_normal(3600)
    with dsolver.Solver(plate, device="cpu") as solver:
        solution = solver.solve(b)
        assert solver.preconditioner == Direct()
    assert "goes on with 'amg'" in solution.notes[0]
    assert "took 'amg': after" in solution.notes[1]
    assert "goes on with 'direct'" in solution.notes[1]
    assert solution.converged
    assert 40 <= solution.iterations <= 90
    assert np.linalg.norm(b - plate @ solution.x) <= 1.01e-8 * np.linalg.norm(b)
    serial = dsolver.solve(plate, b, engine="reference")
    np.testing.assert_array_equal(serial.x, solution.x)


def test_other_solves_go_on_with_the_patience_of_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elimination, "FAR", 0.0)
    monkeypatch.setattr(alternatives, "ENOUGH", 0)
    monkeypatch.setattr(choice, "RATE", {"cpu": 2.0})
    plate = sp.csr_array(laplacian(60) @ laplacian(60))
    b = np.random.default_rng(0).standard_normal(3600)
    with dsolver.Solver(plate, device="cpu") as solver:
        easy = solver.solve(b, rtol=0.01)
        assert solver.preconditioner == Algebraic()
        hard = solver.solve(b, rtol=1e-12)
        assert repr(solver.preconditioner) == repr(Direct())
    assert easy.converged
    assert hard.converged
    assert "goes on with 'direct'" in hard.notes[0]


def test_where_factors_have_no_room_the_other_one_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(spec: SolveSpec, *_: Any) -> None:
        if isinstance(spec.preconditioner, Direct):
            raise DeviceMemoryError("too much")

    monkeypatch.setattr(elimination, "FAR", 0.0)
    monkeypatch.setattr(last_attempts, "check_memory", full)
    plate = sp.csr_array(laplacian(60) @ laplacian(60))
    solution = dsolver.solve(plate, RNG.standard_normal(3600), device="cpu")
    assert "goes on with 'amg'" in solution.notes[0]
    assert len(solution.notes) == 1
    assert solution.converged


INDEFINITE = [
    sp.csr_array([[1.0, 2.0], [2.0, 1.0]]),
    sp.csr_array(laplacian(12) - 1.3 * sp.eye_array(144)),
]


@pytest.mark.usefixtures("_costly")
@pytest.mark.parametrize("a", INDEFINITE)
def test_what_is_found_to_be_indefinite_goes_on_with_minres(a: sp.csr_array) -> None:
    many = RNG.standard_normal((a.shape[0], 3))
    with dsolver.Solver(a, device="cpu") as solver:
        solution = solver.solve(many[:, 0], rtol=1e-10)
        assert "goes on with MINRES" in solution.notes[0]
        assert repr(solver.preconditioner) == repr(Jacobi())
        again = solver.solve(many[:, 0], rtol=1e-10)
        assert again.notes == ()
        several = solver.solve(many, rtol=1e-10)
        assert several.converged
    with dsolver.Solver(a, device="cpu") as solver:
        together = solver.solve(many, rtol=1e-10)
        assert together.converged
    for x in (together.x, several.x):
        np.testing.assert_allclose(a @ x, many, atol=1e-8)
    np.testing.assert_allclose(a @ solution.x, many[:, 0], atol=1e-8)
    serial = dsolver.solve(a, many[:, 0], rtol=1e-10, engine="reference")
    np.testing.assert_array_equal(serial.x, solution.x)
    assert not dsolver.solve(a, many[:, 0], method="cg", device="cpu").converged  # what is asked for stays


# -- corrected while solving -------------------------------------------------------------------------------------------

RIGHT = RNG.standard_normal(GRID)
THIN = dsolver.problems.diffusion(GRID, CHANNELS, chunks=(2, 1, 2))


@pytest.fixture
def _misled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows tell nothing, lattices are never left, and ten iterations are many."""
    monkeypatch.setattr(auto, "follows_couplings", lambda *_, **__: False)
    monkeypatch.setattr(hierarchy, "leaves_lattice_at_once", lambda *_, **__: False)
    monkeypatch.setattr(alternatives, "FURTHER", dict.fromkeys(alternatives.FURTHER, 2))
    monkeypatch.setattr(giving_up, "SLOW_FROM", 10)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.usefixtures("_misled")
def test_a_solve_that_is_slow_goes_on_with_the_other_multigrid_and_says_so(device: Any) -> None:
    with dsolver.Solver(THIN, device=device) as solver:
        solution = solver.solve(RIGHT, rtol=1e-10)
        assert isinstance(solver.preconditioner, Algebraic)
        again = solver.solve(RIGHT, rtol=1e-10)
        several: Any = solver.solve(np.stack([RIGHT, 2.0 * RIGHT], axis=-1), rtol=1e-10)
        solver.update(kappa=2.0)
        assert repr(solver.preconditioner) == repr(Multigrid())
        assert solver.solve(RIGHT, rtol=1e-8).notes == ()
    (note,) = solution.notes
    assert "took 'mg': after 10 iterations" in note
    assert "goes on with 'amg'" in note
    assert solution.converged
    assert len(solution.residuals) == solution.iterations + 1 > 15
    assert again.notes == several[0].notes == ()
    np.testing.assert_allclose(again.x, solution.x, rtol=1e-7, atol=1e-7)


@pytest.mark.usefixtures("_misled")
def test_a_slow_solve_goes_on_as_it_was_where_the_other_multigrid_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def checked(spec: SolveSpec, _: Any, __: SolveSpec | None = None) -> None:
        if isinstance(spec.preconditioner, Algebraic):
            raise DeviceMemoryError("9 GiB are needed, 8 are there")

    monkeypatch.setattr(last_attempts, "check_memory", checked)
    with dsolver.Solver(THIN, device="cpu") as solver:
        solution = solver.solve(RIGHT, rtol=1e-10)
        assert repr(solver.preconditioner) == repr(Multigrid())
    (note,) = solution.notes
    assert note.endswith(
        "the solve goes on with 'mg' all the same, as 'amg' has no room: 9 GiB are needed, 8 are there"
    )
    assert solution.converged
    expected = dsolver.solve(THIN, RIGHT, device="cpu", M="mg", rtol=1e-10)
    np.testing.assert_allclose(solution.x, expected.x, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("engine", "workers"), [("reference", 0), ("resident", 0), ("resident", 2)])
def test_a_slow_solve_begins_anew_as_it_was_where_the_other_preconditioner_cannot_be_made(
    engine: Any, workers: int
) -> None:
    """Incomplete factors of a singular matrix meet a zero pivot, whatever their shift."""
    _, a, b = hard_systems.system(137)
    with ExitStack() as stack:
        client = stack.enter_context(cluster(workers)) if workers else None
        where: dict[str, Any] = {"device": "cpu", "client": client, "engine": engine}
        solver = stack.enter_context(dsolver.Solver(a, method="gmres", **where))
        found = [solver.solve(b, maxiter=60), solver.solve(b, maxiter=60)]
        several: Any = solver.solve(np.stack([b, 2.0 * b], axis=1), maxiter=60)
        first: Any = stack.enter_context(dsolver.Solver(a, method="gmres", **where))
        anew: Any = first.solve(np.stack([b, 2.0 * b], axis=1), maxiter=60)
        expected = dsolver.solve(a, b, M=None, method="gmres", maxiter=60, **where)
    for solution in (*found, *several, *anew):
        assert any("all the same, begun anew, as 'ilu0' fails: M='ilu0' breaks down" in n for n in solution.notes)
        assert solution.iterations == 60
    assert all((solution.x == expected.x).all() for solution in (*found, several[0], anew[0]))


@pytest.mark.usefixtures("_misled")
def test_it_is_the_same_one_by_one_serially_together_and_in_float32() -> None:
    first = dsolver.solve(THIN, RIGHT, device="cpu")
    assert first.notes
    seen: list[int] = []
    stepped = dsolver.solve(THIN, RIGHT, device="cpu", callback=lambda state: seen.append(state.iteration))
    serial = dsolver.solve(THIN, RIGHT, device="cpu", engine="reference")
    assert stepped.residuals == serial.residuals == first.residuals
    assert seen == list(range(1, first.iterations + 1))
    with dsolver.Solver(THIN, device="cpu") as solver:
        several: Any = solver.solve([RIGHT, -RIGHT])
    assert several[0].residuals == first.residuals
    lowered = dsolver.solve(THIN, RIGHT, device="cpu", precond_dtype="float32")
    assert lowered.converged
    assert lowered.notes


@pytest.mark.usefixtures("_costly")
def test_a_value_type_for_m_does_not_depend_on_what_auto_takes() -> None:
    """Jacobi, which stores nothing, is not refused; one that was asked for is."""
    a, b = laplacian(40, shift=1.0), RNG.standard_normal(1600)
    found = dsolver.solve(a, b, device="cpu", precond_dtype="float32")
    assert found.solved_by == "cg with Jacobi()"
    assert np.array_equal(found.x, dsolver.solve(a, b, device="cpu").x)
    assert dsolver.estimate(dsolver.matrix(a), workers=1, precond_dtype="float32").iterations > 0
    with pytest.raises(dsolver.InputError, match="works in float64 alone"):
        dsolver.solve(a, b, M="jacobi", precond_dtype="float32")


@pytest.mark.usefixtures("_misled", "_costly")
def test_it_is_corrected_the_other_way_too_and_for_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = laplacian(40), RNG.standard_normal(1600)
    monkeypatch.setattr(plan, "value_type", lambda *asked, **_: value_type(*asked, cuda=True))  # as on GPUs
    for name, then in (("chebyshev", "float32"), ("amg", "float64")):
        with dsolver.Solver(a, device="cpu") as solver:
            solution = solver.solve(b)
            assert solver._session.spec.precond_dtype == then, "the usual one of what it goes on with"
        assert f"took '{name}'" in solution.notes[0]
        assert solution.converged
        assert np.linalg.norm(b - a @ solution.x) <= 1e-8 * np.linalg.norm(b)  # b and x stay
        monkeypatch.setattr(auto, "MANY", 1000)
    monkeypatch.setattr(auto, "follows_couplings", lambda *_, **__: True)
    solution = dsolver.solve(dsolver.problems.poisson7(GRID), RIGHT, device="cpu", rtol=1e-12)
    assert "took 'mg'" in solution.notes[0]  # a constant stencil is not looked at
    assert solution.converged
    smooth = dsolver.problems.diffusion(GRID, FIELDS["smooth"])
    solution = dsolver.solve(smooth, RIGHT, device="cpu", rtol=1e-12)
    assert "took 'amg'" in solution.notes[0]
    assert solution.converged


@pytest.mark.usefixtures("_misled")
@pytest.mark.parametrize(("method", "corrected"), [("fcg", True), ("minres", False)])
def test_the_pace_of_other_methods_tells_nothing_of_m(method: Any, *, corrected: bool) -> None:
    solution = dsolver.solve(THIN, RIGHT, device="cpu", method=method)
    assert solution.converged
    assert bool(solution.notes) is corrected


@pytest.mark.usefixtures("_misled", "_costly")
def test_a_guess_of_full_multigrid_is_zero_where_multigrid_has_been_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "MANY", 1000)
    monkeypatch.setattr(giving_up, "SLOW_FROM", 2)
    monkeypatch.setattr(giving_up, "SLOW_EVERY", 2)
    b = RNG.standard_normal(1600)
    with dsolver.Solver(laplacian(40), device="cpu") as solver:
        first = solver.solve(b, x0="fmg")
        assert solver.preconditioner == Chebyshev()
        again = solver.solve(b, x0="fmg")
    assert "took 'amg'" in first.notes[0]
    assert again.converged
    assert again.residuals[0] == pytest.approx(np.linalg.norm(b))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(dsolver.InputError, match="M='auto'"):
        taken(laplacian(5), M=Auto())
    with pytest.raises(dsolver.InputError, match="full multigrid"):
        dsolver.solve(laplacian(5), np.ones(25), x0="fmg")


def test_waves_in_a_plane_take_factors_in_place_of_minres() -> None:
    line, unit = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(150, 150)), sp.eye_array(150)
    a = sp.csr_array(sp.kron(line, unit) + sp.kron(unit, line) - 0.1 * sp.eye_array(150**2))
    b = np.random.default_rng(0).standard_normal(150**2)
    found = dsolver.solve(a, b, device="cpu")
    assert found.converged
    assert found.solved_by == "fgmres with Direct()"
    assert "indefinite" in " ".join(found.notes)
    assert np.linalg.norm(a @ found.x - b) <= 1e-8 * np.linalg.norm(b)
