"""Diffusion problems: the matrix, entry by entry; the order of the error; what is left open; what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import dask.array as da
import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from dask.delayed import delayed
from hypothesis import strategies as st

import dsolver
from dsolver import kernels, problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.engines.eager.engine import EagerEngine
from dsolver.errors import InconsistentWarning, InputError
from dsolver.grid.box import Triple
from dsolver.grid.partition import Partition
from dsolver.preconditioners import Identity
from dsolver.problems import Dirichlet, Neumann, Problem, Robin, diffusion
from dsolver.problems.discretization import Patch
from dsolver.problems.fluxes.coefficients import field_of, kappa_of
from dsolver.problems.fluxes.form import FluxForm
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from dsolver.status import Status
from tests.support.programs import blocks_of

F64 = npt.NDArray[np.float64]
BACKENDS = ("numpy", "cpu")
FACES = ("x-", "x+", "y-", "y+", "z-", "z+")


def solve(problem: Problem, f: Any, **options: Any) -> F64:
    """The solution by plain conjugate gradients on this CPU."""
    solution = dsolver.solve(problem, f, **({"M": None, "rtol": 1e-11, "device": "cpu", "maxiter": 5000} | options))
    # b is balanced where it was not: x solves that, and the status says that it does not solve what was given.
    assert solution.status in (Status.CONVERGED, Status.INCOMPATIBLE_RHS), solution
    assert solution.true_residual <= 1e-8 * solution.b_norm
    x: F64 = solution.x
    return x


class Assembled:
    """Matrix, applied, and right-hand side that a program makes of a problem."""

    def __init__(self, problem: Problem, backend: str, chunks: Any = (1, 1, 1)) -> None:
        spec = SolveSpec.plan(problem, chunks, m=Identity())
        self.partition = spec.partition
        self.program = Solve(EagerEngine(self.partition, kernels.load(backend)), spec)
        for name, values in problem.coefficients.items():
            self.program.load_coefficient(self.blocks(values), name)
        if problem.coefficients:
            self.program.set_up()

    def blocks(self, values: Any) -> dict[int, Any]:
        return {chunk.number: values[chunk.box.slices] for chunk in self.partition}

    def whole(self, name: str) -> F64:
        out = np.full(self.partition.grid, np.nan)
        for number, block in blocks_of(self.program, name).items():
            out[self.partition[number].box.slices] = block
        return out

    def times(self, x: F64) -> F64:
        """A x; x must be zero at masked cells."""
        self.program.set_x(self.blocks(x))
        self.program.b_from_x()
        return self.whole("b")

    def right(self, f: F64) -> F64:
        """b of a source f."""
        self.program.set_b(self.blocks(f))
        return self.whole("b")


# -- the matrix, entry by entry ----------------------------------------------------------------------------------------


def by_the_book(
    kappa: tuple[F64, F64, F64], sigma: F64, sizes: tuple[F64, F64, F64], bc: dict[str, Any], mask: Any
) -> tuple[Any, F64, F64]:
    """Matrix and volumes and what boundaries add to b, one face of one cell at a time. Rows are numbered x fastest.

    bc: by face ("dirichlet", g), ("neumann", g), ("robin", alpha, g) or "periodic"; the numbers are arrays of the face.
    """
    grid = tuple(map(len, sizes))
    row = np.arange(sigma.size).reshape(grid, order="F")
    entries: dict[tuple[int, int], float] = {}
    volumes, extra = np.zeros(grid), np.zeros(grid)

    def add(i: int, j: int, value: float) -> None:
        entries[i, j] = entries.get((i, j), 0.0) + value

    for cell in product(*map(range, grid)):
        own = int(row[cell])
        if mask is not None and mask[cell]:
            continue
        volumes[cell] = np.prod([sizes[a][cell[a]] for a in range(3)])
        add(own, own, sigma[cell] * volumes[cell])
        for axis, side in product(range(3), (0, 1)):
            area = volumes[cell] / sizes[axis][cell[axis]]
            half = sizes[axis][cell[axis]] / 2 / kappa[axis][cell]
            place = cell[axis] + (-1, 1)[side]
            condition = bc["xyz"[axis] + "-+"[side]]
            if not 0 <= place < grid[axis] and condition != "periodic":
                face = tuple(c for a, c in enumerate(cell) if a != axis)
                numbers = [g[face] for g in condition[1:]]
                if condition[0] == "dirichlet":
                    add(own, own, area / half)
                    extra[cell] += area / half * numbers[0]
                elif condition[0] == "neumann":
                    extra[cell] += area * numbers[0]
                else:
                    alpha, g = numbers
                    add(own, own, area * alpha / (1 + alpha * half))
                    extra[cell] += area * g / (1 + alpha * half)
                continue
            other = tuple(place % grid[axis] if a == axis else c for a, c in enumerate(cell))
            if mask is not None and mask[other]:
                continue
            conductance = area / (half + sizes[axis][other[axis]] / 2 / kappa[axis][other])
            add(own, own, conductance)
            add(own, int(row[other]), -conductance)
    rows, columns = zip(*entries, strict=True) if entries else ((), ())
    return scipy.sparse.csr_array((list(entries.values()), (rows, columns)), shape=(row.size,) * 2), volumes, extra


SIZES = st.integers(1, 5)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Problem, Any, F64, F64, Any, Any]:
    """A problem with its coefficients given in every way, what it must become, a cut and a mask."""
    grid: Triple = draw(st.tuples(SIZES, SIZES, SIZES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    stretched = draw(st.booleans())
    h = [rng.uniform(0.5, 2.0, n) if stretched else np.full(n, 0.7) for n in grid]
    centers = np.meshgrid(*(np.cumsum(along) - along / 2 for along in h), indexing="ij")

    def coefficient(low: float) -> tuple[Any, F64]:
        return given(draw(st.sampled_from(["number", "array", "function"])), low, rng, centers)

    if draw(st.booleans()):
        kappa, values = coefficient(0.2)
        kappas = (values, values, values)
    else:
        (k_x, x), (k_y, y), (k_z, z) = (coefficient(0.2) for _ in range(3))
        kappa, kappas = (k_x, k_y, k_z), (x, y, z)
    sigma, sigmas = coefficient(0.0) if draw(st.booleans()) else (0.0, np.zeros(grid))
    mask = rng.uniform(size=grid) < 0.3 if draw(st.booleans()) else None
    if mask is not None:  # cells that nothing fixes are tested below
        sigma = sigmas = sigmas + 0.1
    bc: dict[str, Any] = {}
    book: dict[str, Any] = {}
    for axis in range(3):
        if draw(st.booleans()):
            bc["xyz"[axis]] = "periodic"
            book |= {"xyz"[axis] + side: "periodic" for side in "-+"}
        else:
            for face in ("xyz"[axis] + "-", "xyz"[axis] + "+"):
                shape = tuple(n for a, n in enumerate(grid) if a != axis)
                kind = draw(st.sampled_from(["dirichlet", "number", "neumann", "robin"]))
                bc[face], book[face] = condition(kind, rng, shape)
    cut = tuple(draw(st.integers(1, n)) for n in grid)
    problem = diffusion(grid, kappa, sigma, spacing=h, bc=bc, mask=mask)
    return problem, *by_the_book(kappas, sigmas, (h[0], h[1], h[2]), book, mask), cut, mask


def given(kind: str, low: float, rng: np.random.Generator, centers: Any) -> tuple[Any, F64]:
    """A coefficient as a user gives it, and its values."""
    if kind == "number":
        value = float(rng.uniform(low, 3.0))
        return value, np.full(centers[0].shape, value)
    if kind == "array":
        values = rng.uniform(low, 3.0, centers[0].shape)
        return values, values
    a, b, c = rng.uniform(0.1, 1.0, 3)

    def function(x: Any, y: Any, z: Any) -> Any:
        return low + np.exp(-a * x) + np.sin(b * y) ** 2 + np.cos(c * z) ** 2

    return function, function(*centers)


def condition(kind: str, rng: np.random.Generator, face: tuple[int, ...]) -> tuple[Any, Any]:
    """A condition as a user gives it, and as the book reads it."""
    g, alpha = rng.standard_normal(face), rng.uniform(0.0, 2.0, face)
    if kind == "number":
        return Dirichlet(1.5), ("dirichlet", np.full(face, 1.5))
    if kind == "dirichlet":
        return Dirichlet(g), (kind, g)
    return (Neumann(g), (kind, g)) if kind == "neumann" else (Robin(alpha, g), (kind, alpha, g))


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(cases(), st.sampled_from(BACKENDS), st.integers(0, 100))
def test_matrix_and_right_hand_side_are_those_of_the_book(case: Any, backend: str, seed: int) -> None:
    problem, matrix, volumes, extra, cut, mask = case
    rng = np.random.default_rng(seed)
    assembled = Assembled(problem, backend, cut)
    assert abs(matrix - matrix.T).max() <= 1e-14 * abs(matrix).max()
    f = rng.standard_normal(problem.grid)
    right = volumes * f + extra
    if assembled.program.system.singular:
        assert not matrix.sum(axis=1).max() > 1e-12
        right -= volumes * right.sum() / volumes.sum()
    np.testing.assert_allclose(assembled.right(f), right, rtol=1e-12, atol=1e-12)
    x = rng.standard_normal(problem.grid)
    if mask is not None:
        x[mask] = 0.0
    x[matrix.diagonal().reshape(x.shape, order="F") == 0.0] = 0.0  # a cell that is all there is: any diagonal serves
    expected = (matrix @ x.ravel(order="F")).reshape(problem.grid, order="F")
    found = assembled.times(x)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * abs(matrix).max())


@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(cases(), st.integers(0, 100))
def test_the_form_that_is_differentiated_is_that_of_the_book(case: Any, seed: int) -> None:
    problem, matrix, volumes, extra, _, mask = case
    rng = np.random.default_rng(seed)
    form, kappa, sigma = FluxForm(problem, np, np.asarray), kappa_of(problem), problem.rule.sigma
    f = rng.standard_normal((2, *problem.grid))
    np.testing.assert_allclose(form.right_hand_side(kappa, f), volumes * f + extra, rtol=1e-12, atol=1e-12)
    left, right = rng.standard_normal((2, 2, *problem.grid)) * (1.0 if mask is None else ~mask)
    sigma = field_of(problem, "sigma") if sigma is None else sigma
    found = form.of_fluxes(kappa, left, right) + form.of_sigma(sigma, left, right)
    rows = [(x.ravel(order="F"), y.ravel(order="F")) for x, y in zip(left, right, strict=True)]
    assert found == pytest.approx(sum(x @ (matrix @ y) for x, y in rows), rel=1e-11, abs=1e-11 * abs(matrix).max())


def test_rows_of_masked_cells_are_decoupled_with_a_positive_diagonal() -> None:
    values = np.full((4, 4, 4), 5.0)
    values[1:3, 1:3, 1:3] = 0.0  # what prepared values are at masked cells
    problem = diffusion((4, 4, 4), np.ones((4, 4, 4)), mask=np.zeros((4, 4, 4), dtype=bool))
    partition = Partition(problem.grid)
    patch = Patch(
        backend=kernels.load("numpy"),
        partition=partition,
        number=0,
        own={"kappa": values},
        halos={"kappa": np.empty(0)},
    )
    weights = problem.values(np, patch).reshape(7, 4, 4, 4)
    diagonal = problem.offsets.index((0, 0, 0))
    assert (weights[diagonal] > 0.0).all()
    for k, (di, dj, dk) in enumerate(problem.offsets):
        if k != diagonal:
            assert not weights[k][1:3, 1:3, 1:3].any()
            read = np.roll(weights[k], (dk, dj, di), axis=(0, 1, 2))  # by the cell that is read
            assert not read[1:3, 1:3, 1:3].any()


def test_what_stands_at_masked_cells_never_enters() -> None:
    mask = np.zeros((4, 4, 4), dtype=bool)
    mask[1:3, 1:3, 1:3] = True
    assembled = Assembled(diffusion((4, 4, 4), mask=mask), "cpu")
    assert not assembled.times(np.where(mask, 1e300, 0.0)).any()
    assert not assembled.right(np.where(mask, 1e300, 0.0)).any()


# -- the order of the error --------------------------------------------------------------------------------------------


def phase(x: Any, y: Any, z: Any) -> Any:
    return x + 2 * y - z + 0.3


def exact(x: Any, y: Any, z: Any) -> Any:
    return np.sin(phase(x, y, z))


def kappa(x: Any, y: Any, z: Any) -> Any:
    return np.exp(0.5 * x - 0.3 * y + 0.2 * z)


def source(x: Any, y: Any, z: Any) -> Any:
    """−∇·(κ∇u) of the two above."""
    return kappa(x, y, z) * (6 * np.sin(phase(x, y, z)) + 0.3 * np.cos(phase(x, y, z)))


def flux(face: str) -> Callable[..., Any]:
    """κ ∂u/∂n."""
    outward = (1, 2, -1)["xyz".index(face[0])] * (1 if face[1] == "+" else -1)
    return lambda x, y, z: outward * kappa(x, y, z) * np.cos(phase(x, y, z))


def robin(face: str) -> Callable[..., Any]:
    return lambda x, y, z: flux(face)(x, y, z) + 2.0 * exact(x, y, z)


CONDITIONS: dict[str, dict[str, Any]] = {
    "dirichlet": {face: Dirichlet(exact) for face in FACES},
    "neumann": {face: Neumann(flux(face)) for face in FACES},
    "robin": {face: Robin(2.0, robin(face)) for face in FACES},
    "mixed": {
        "x-": Neumann(flux("x-")),
        "x+": Dirichlet(exact),
        "y-": Robin(2.0, robin("y-")),
        "y+": Neumann(flux("y+")),
        "z-": Dirichlet(exact),
        "z+": Robin(lambda *_: 2.0, robin("z+")),
    },
}


def cells(n: int, stretched: bool) -> tuple[F64, Any, Any]:
    """Cell sizes, the same along all axes, and their centers' coordinates and volumes."""
    t = np.arange(n + 1) / n
    h = np.diff(t + 0.1 * np.sin(2 * np.pi * t) if stretched else t)
    c = np.cumsum(h) - h / 2
    return h, np.meshgrid(c, c, c, indexing="ij", sparse=True), h[:, None, None] * h[None, :, None] * h


def error(n: int, kind: str, stretched: bool) -> float:
    """The volume-weighted root mean square of the error on n³ cells."""
    h, centers, volumes = cells(n, stretched)
    problem = diffusion((n, n, n), kappa, spacing=[h, h, h], bc=CONDITIONS[kind])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentWarning)  # sums of the exact fluxes are not the integrals
        found = solve(problem, source(*centers), rtol=1e-9, M="mg")
    u = exact(*centers)
    if kind == "neumann":
        assert abs((found * volumes).sum()) <= 1e-12
        found += (u * volumes).sum()
    return float(np.sqrt(((found - u) ** 2 * volumes).sum()))


@pytest.mark.parametrize("stretched", [False, True])
@pytest.mark.parametrize("kind", CONDITIONS)
def test_errors_fall_with_the_square_of_the_cell_size(kind: str, stretched: bool) -> None:
    coarse, fine = (error(n, kind, stretched) for n in (20, 40))
    assert abs(np.log2(coarse / fine) - 2.0) <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("stretched", [False, True])
@pytest.mark.parametrize("kind", CONDITIONS)
def test_errors_fall_with_the_square_of_the_cell_size_at_64(kind: str, stretched: bool) -> None:
    coarse, fine = (error(n, kind, stretched) for n in (32, 64))
    assert abs(np.log2(coarse / fine) - 2.0) <= 0.1


@pytest.mark.parametrize("stretched", [False, True])
def test_errors_fall_with_the_square_of_the_cell_size_where_axes_are_periodic(stretched: bool) -> None:
    """κ = 2 + cos 2πx, u = sin(2πx + y): periodic along x and z; Neumann and Dirichlet along y."""
    found = []
    for n in (20, 40):
        h, (x, y, _), volumes = cells(n, stretched)
        k = 2.0 + np.cos(2 * np.pi * x) + np.zeros((n, n, n))
        u = np.sin(2 * np.pi * x + y) + np.zeros((n, n, n))
        f = (2 * np.pi) ** 2 * np.sin(2 * np.pi * x) * np.cos(2 * np.pi * x + y) + k * (4 * np.pi**2 + 1) * u
        bc = {
            "x": "periodic",
            "z": "periodic",
            "y-": Neumann(lambda x, y, _: -(2.0 + np.cos(2 * np.pi * x)) * np.cos(2 * np.pi * x + y)),
            "y+": Dirichlet(lambda x, y, _: np.sin(2 * np.pi * x + y)),
        }
        error = solve(diffusion((n, n, n), k, spacing=[h, h, h], bc=bc), f, rtol=1e-9, M="mg") - u
        found.append(float(np.sqrt((error**2 * volumes).sum())))
    assert abs(np.log2(found[0] / found[1]) - 2.0) <= 0.1


def test_a_reaction_term_and_one_kappa_for_each_axis() -> None:
    """u = cos πx cos πy cos πz has no flux through the faces of the unit cube."""
    found = []
    for n in (12, 24):
        _, (x, y, z), _ = cells(n, False)
        u = np.cos(np.pi * x) * np.cos(np.pi * y) * np.cos(np.pi * z)
        sigma = 1.0 + x + 0.0 * u
        f = (np.pi**2 * (1.0 + 10.0 + 0.1) + sigma) * u
        problem = diffusion((n, n, n), (1.0, 10.0, 0.1), sigma, spacing=1 / n, bc="neumann")
        found.append(float(np.sqrt(((solve(problem, f) - u) ** 2).mean())))
    assert abs(np.log2(found[0] / found[1]) - 2.0) <= 0.1


# -- cells to keep -----------------------------------------------------------------------------------------------------


def test_cells_to_keep_are_those_that_a_mask_does_not_leave_out() -> None:
    mask = np.random.default_rng(3).uniform(size=(9, 8, 7)) < 0.2
    f = np.random.default_rng(4).standard_normal(mask.shape)
    expected = solve(diffusion(f.shape, sigma=0.1, mask=mask), f)

    def kept(x: Any, y: Any, z: Any) -> Any:
        return ~mask[tuple(np.int64(part) for part in (x, y, z))]

    for active in (
        ~mask,
        (~mask).astype(int),
        np.asfortranarray(-200 * ~mask),
        da.from_array(255 * ~mask),
        da.from_array(~mask, chunks=4),
        kept,
    ):
        assert np.array_equal(solve(diffusion(f.shape, sigma=0.1, active=active), f), expected)
    with pytest.raises(InputError, match="mask and active were given: leave out one"):
        diffusion(f.shape, mask=mask, active=~mask)
    with pytest.raises(InputError, match="active has dtype float64: it must be True at the cells to keep"):
        diffusion(f.shape, active=mask * 1.0)
    told = r"active has integers of more than two kinds, as labels are.*active == [12]$"
    with pytest.raises(InputError, match=told):
        diffusion(f.shape, active=mask + np.uint8(1))
    with pytest.raises(InputError, match=told):
        solve(diffusion(f.shape, sigma=0.1, active=da.from_array(mask + 1, chunks=4)), f)
    halves = 1 + np.arange(f.size).reshape(f.shape) // -(-f.size // 2)  # each block has one label
    with pytest.raises(InputError, match=told):
        solve(diffusion(f.shape, sigma=0.1, active=da.from_array(halves, chunks=(-(-len(f) // 2), -1, -1))), f)


@pytest.mark.parametrize("sigma", [0.0, 1.0])
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 1)])
def test_a_mask_that_leaves_out_every_cell_is_refused(sigma: float, chunks: Triple) -> None:
    for mask in (np.ones((4, 4, 4), bool), lambda x, y, z: x + y + z > 0.0):
        with pytest.raises(InputError, match="every cell is left out: mask is true at cells to leave out"):
            solve(diffusion((4, 4, 4), sigma=sigma, mask=mask, chunks=chunks), np.zeros((4, 4, 4)))


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 1)])
def test_a_mask_that_keeps_all_cells_from_fixed_faces_says_so(chunks: Triple) -> None:
    mask, f = np.zeros((6, 5, 4), bool), np.zeros((6, 5, 4))
    mask[[0, -1]] = True
    ends = {"x-": Dirichlet(1.0), "x+": Dirichlet(0.0)}
    with pytest.warns(RuntimeWarning, match="no cell that the mask leaves is connected with a face where bc fixes u"):
        solution = dsolver.solve(diffusion(f.shape, bc=ends, mask=mask, chunks=chunks), f, device="cpu")
    assert "active= at those to keep" in solution.notes[0]
    assert not dsolver.solve(diffusion(f.shape, bc="neumann", mask=mask, chunks=chunks), f, device="cpu").notes
    mask[0, 2, 2] = False  # one cell reaches a face
    assert not dsolver.solve(diffusion(f.shape, bc=ends, mask=mask, chunks=chunks), f, device="cpu").notes


# -- faces without a name ----------------------------------------------------------------------------------------------


def test_nothing_flows_through_faces_that_are_not_named() -> None:
    grid, nothing = (12, 5, 4), np.zeros((12, 5, 4))
    ends = {"x-": Dirichlet(1.0), "x+": Dirichlet(0.0)}
    x = solve(diffusion(grid, bc=ends), nothing, rtol=1e-12)
    np.testing.assert_allclose(x, np.broadcast_to(1.0 - (np.arange(12)[:, None, None] + 0.5) / 12, grid), atol=1e-10)
    assert np.array_equal(x, solve(diffusion(grid, bc={**ends, "y": "neumann", "z": "neumann"}), nothing, rtol=1e-12))
    without, held = (solve(diffusion(grid, bc=bc), np.ones(grid)) for bc in (None, "dirichlet"))
    assert np.array_equal(without, held)


def test_a_problem_shows_the_condition_of_each_face() -> None:
    bc = {"x-": Dirichlet(1.0), "y": Robin(2.0, np.ones((4, 6))), "z+": Neumann(lambda x, *_: x)}
    assert repr(diffusion((4, 5, 6), bc=bc, chunks=(2, 1, 1))) == (
        "<Problem diffusion 4 × 5 × 6: u = 1 at x-, no flux at x+ z-, κ ∂u/∂n + 2 u = an array at y- y+, κ ∂u/∂n = a "
        "function at z+, 2 × 1 × 1 chunks>"
    )
    assert repr(diffusion((4, 5))) == "<Problem diffusion 4 × 5: u = 0 at x- x+ y- y+>"
    assert "periodic at x- x+" in diffusion((4, 5), bc={"x": "periodic"})._repr_html_()
    assert repr(problems.poisson7((4, 5, 6))) == "<Problem poisson7 4 × 5 × 6>"


def test_a_condition_of_none_is_refused() -> None:
    bc: Any = {"x-": Dirichlet(1.0), "y": None}
    with pytest.raises(InputError, match="bc has None for 'y': leave it out where nothing flows"):
        diffusion((4, 5, 6), bc=bc)


# -- chunks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bc", ["dirichlet", "periodic", {"x": "periodic", "z-": "dirichlet", "z+": Dirichlet(2.0)}])
@pytest.mark.parametrize("grid", [(11, 7, 13), (1, 17, 6), (2, 9, 5)])
def test_any_cut_gives_the_same_solution(grid: Triple, bc: Any) -> None:
    rng = np.random.default_rng(4)
    k, f = rng.uniform(0.1, 10.0, grid), rng.standard_normal(grid)
    f -= f.mean()
    mask = rng.uniform(size=grid) < 0.1
    sigma = 0.01 if bc != "periodic" else 0.0
    mask &= bool(sigma)
    whole = solve(diffusion(grid, k, sigma, bc=bc, mask=mask), f)
    most = tuple(min(2, n) for n in grid)
    uneven: Any = tuple((1, n - 3, 2) if n > 3 else (n,) for n in grid)
    cut: Any
    for cut in ((1, 1, 1), (1, 2, 1), most, uneven):
        found = solve(diffusion(grid, k, sigma, bc=bc, mask=mask, chunks=cut), f)
        np.testing.assert_allclose(found, whole, rtol=1e-7, atol=1e-9 * abs(whole).max())


def test_a_dask_array_s_own_chunks_are_taken_as_they_are() -> None:
    f = np.random.default_rng(14).standard_normal((9, 8, 7))
    whole = solve(diffusion(f.shape), f)
    blocks = da.from_array(f, chunks=(4, (1, 7), 7))
    x: Any = solve(diffusion(f.shape, chunks=blocks.chunks), blocks)
    assert x.chunks == blocks.chunks
    np.testing.assert_allclose(x.compute(), whole, rtol=1e-8, atol=1e-11)


def obstacle(xp: Any = np) -> dict[str, tuple[Problem, Any]]:
    """Problems of every kind, with arrays of the module xp, each with a right-hand side."""
    grid = (21, 17, 19)
    rng = np.random.default_rng(15)
    k, f = xp.asarray(rng.uniform(0.1, 10.0, grid)), rng.standard_normal(grid)
    balanced, right = xp.asarray(f - f.mean()), xp.asarray(f)
    mask, wall = rng.uniform(size=grid) < 0.2, np.zeros(grid, dtype=bool)
    wall[8] = True
    beyond = xp.asarray(np.where(np.arange(21)[:, None, None] > 8, f - f[9:].mean(), f))
    weights = {o: xp.full(grid, 27.0 if o == (0, 0, 0) else -1.0) for o in problems.BOX_OFFSETS}
    outlet = Robin(lambda x, y, z: 1.0 + y + 0.0 * x * z, 2.0)
    flow = {"x-": outlet, "x+": "dirichlet", "y": "periodic", "z-": "dirichlet", "z+": Neumann(f[:, :, 0])}
    inlet = {"x": "periodic", "y": "dirichlet", "z-": Dirichlet(exact), "z+": "dirichlet"}
    stretched = (np.linspace(0.05, 0.1, 21), 0.05, 0.1)
    bc = {"x-": "dirichlet", "x+": "neumann", "y": "neumann", "z": "periodic"}
    return {
        "array": (diffusion(grid, k), right),
        "function": (diffusion(grid, kappa, 0.1, spacing=stretched, bc=flow), right),
        "axes": (diffusion(grid, (k, kappa, 2.0), 0.01, spacing=0.1, mask=xp.asarray(mask), bc=inlet), right),
        "wall": (diffusion(grid, k, mask=xp.asarray(wall), bc=bc), beyond),
        "neumann": (diffusion(grid, k, bc="neumann"), balanced),
        "weights": (problems.stencil(grid, weights, periodic=(True, False, True)), right),
    }


@pytest.mark.parametrize("kind", obstacle())
@pytest.mark.parametrize("M", ["mg", "jacobi"])
def test_every_kind_of_problem_with_every_kind_of_preconditioner(kind: str, M: str) -> None:
    problem, f = obstacle()[kind]
    expected = solve(problem, f, rtol=1e-12)
    uneven = replace(problem, chunks=((5, 16), (17,), (6, 7, 6)))
    np.testing.assert_allclose(solve(uneven, f, M=M), expected, rtol=1e-6, atol=1e-8 * abs(expected).max())


@pytest.mark.gpu
@pytest.mark.parametrize("kind", obstacle())
@pytest.mark.parametrize("M", ["mg", "jacobi"])
def test_a_gpu_has_the_same_solution(kind: str, M: str) -> None:
    cupy = pytest.importorskip("cupy")
    problem, f = obstacle()[kind]
    expected = solve(problem, f, rtol=1e-12)
    for chunks in (None, ((5, 16), (17,), (6, 7, 6))):
        for there, right in (obstacle()[kind], obstacle(cupy)[kind]):
            x = cupy.asnumpy(solve(replace(there, chunks=chunks), right, M=M, device="cuda"))
            np.testing.assert_allclose(x, expected, rtol=1e-6, atol=1e-8 * abs(expected).max())


@pytest.mark.gpu
def test_a_gpu_refuses_what_makes_no_sense() -> None:
    with pytest.raises(InputError, match="kappa must be positive and finite"):
        solve(diffusion((4, 4, 4), lambda x, y, z: x + y + z - 4.0), np.ones((4, 4, 4)), device="cuda")


@pytest.mark.gpu
def test_sizes_of_cells_may_lie_on_a_gpu() -> None:
    cupy = pytest.importorskip("cupy")
    sizes = [np.linspace(1.0, 2.0, n) for n in (4, 5, 6)]
    here, there = (diffusion((4, 5, 6), spacing=each).to_scipy() for each in (sizes, [*map(cupy.asarray, sizes)]))
    np.testing.assert_array_equal(there.toarray(), here.toarray())


# -- what is left open -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bc", ["neumann", "periodic", {"x": "periodic", "y": "neumann", "z": Robin(0.0, 0.0)}])
def test_a_constant_that_nothing_fixes_is_taken_so_that_the_mean_is_zero(bc: Any) -> None:
    rng = np.random.default_rng(5)
    f = rng.standard_normal((6, 5, 7))
    f -= f.mean()
    for sigma in (0.0, np.zeros((6, 5, 7))):
        problem = diffusion((6, 5, 7), rng.uniform(1.0, 2.0, (6, 5, 7)), sigma, bc=bc)
        x = solve(problem, f, x0=np.full((6, 5, 7), 3.0))
        assert abs(x.mean()) <= 1e-13 * abs(x).max()


def test_a_source_that_does_not_balance_is_told_and_balanced() -> None:
    f = np.random.default_rng(6).standard_normal((6, 6, 6))
    problem = diffusion((6, 6, 6), bc={"x": "neumann", "y": "neumann", "z": "periodic"})
    with pytest.warns(InconsistentWarning, match="A constant was subtracted"):
        x = solve(problem, f)
    np.testing.assert_allclose(x, solve(problem, f - f.mean()), rtol=1e-8, atol=1e-10)


def test_fluxes_that_balance_the_source_are_no_reason_for_a_warning() -> None:
    bc = {"x": Neumann(0.0), "y": Neumann(0.0), "z-": Neumann(1.0), "z+": Neumann(2.0)}
    x = solve(diffusion((4, 4, 8), bc=bc, spacing=0.5), np.full((4, 4, 8), -3.0 / 4.0))
    assert np.ptp(x[..., 0]) <= 1e-10
    # u'' = 3/4 with u' = -1 at the lower end
    np.testing.assert_allclose(np.diff(x[0, 0]) / 0.5, -1.0 + 0.75 * 0.5 * np.arange(1, 8), rtol=1e-9)


def test_a_source_in_float32_may_miss_balance_by_its_rounding() -> None:
    f = np.random.default_rng(0).standard_normal((24, 20, 16))
    f -= f.mean()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dsolver.solve(diffusion(f.shape, bc="neumann"), f.astype(np.float32), rtol=1e-11).converged
        assert dsolver.solve(diffusion(f.shape, bc="neumann"), f, dtype="float32").converged
    with pytest.warns(InconsistentWarning):
        dsolver.solve(diffusion(f.shape, bc="neumann"), f.astype(np.float32).astype(np.float64))


def test_where_sigma_or_a_robin_face_is_positive_somewhere_nothing_is_open() -> None:
    f = np.random.default_rng(7).standard_normal((5, 5, 5))
    sigma = np.zeros((5, 5, 5))
    sigma[4, 4, 4] = 1.0
    assert abs(solve(diffusion((5, 5, 5), 1.0, sigma, bc="neumann"), f).mean()) > 1e-3
    alpha = np.zeros((5, 5))
    alpha[0, 0] = 1.0
    for somewhere in (alpha, lambda x, y, z: np.where((y < 1) & (z < 1), 1.0, 0.0) + 0.0 * x):
        bc = dict.fromkeys(("y", "z", "x+"), Neumann()) | {"x-": Robin(somewhere)}
        assert abs(solve(diffusion((5, 5, 5), bc=bc), f).mean()) > 1e-3
    assert diffusion((5, 5, 5), bc=Robin(0.5)).singular is False, "told without a look at any row"


def test_a_source_of_zeros_has_the_solution_zero_even_where_constants_solve() -> None:
    assert not solve(diffusion((4, 4, 4), bc="neumann"), np.zeros((4, 4, 4)), x0=np.ones((4, 4, 4))).any()


def test_a_constant_source_alone_has_the_solution_zero_after_a_warning() -> None:
    with pytest.warns(InconsistentWarning):
        assert not abs(solve(diffusion((4, 4, 4), bc="periodic"), np.ones((4, 4, 4)))).max() > 1e-14


@pytest.mark.parametrize(
    ("kappa", "spacing", "chunks", "least"),
    [(1.0, (1.0, 1.0, 1e-4), (2, 2, 2), 5e-8), ((1e-6, 1.0, 1e6), 1.0, (1, 1, 1), 1e-3)],
)
def test_rounding_that_no_x_can_reach_is_no_reason_to_diverge(
    kappa: Any, spacing: Any, chunks: Any, least: float
) -> None:
    """Conjugate gradients with multigrid made more of it than of what was left, and ended as indefinite at 4 and 50."""
    f = np.random.default_rng(3).standard_normal((17, 13, 19))
    problem = diffusion(f.shape, kappa, spacing=spacing, bc="neumann", chunks=chunks)
    solution = dsolver.solve(problem, f - f.mean(), M="mg", device="cpu")  # which no factors follow
    assert solution.status is Status.STAGNATED, "at what float64 can reach: 1e-16 ‖A‖ ‖x‖ is about that"
    assert solution.iterations <= 20
    assert solution.relative_residual <= least


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 2)])
def test_a_constant_that_rounding_alone_fixes_does_not_make_a_matrix_indefinite(chunks: Any) -> None:
    f = 1.0 + np.random.default_rng(3).standard_normal((12, 12, 12))
    problem = diffusion(f.shape, sigma=1e-30, bc="neumann", chunks=chunks)
    with dsolver.Solver(problem, device="cpu") as solver:
        alone, *together = [solver.solve(f), *solver.solve([f, f])]
    ends = {solution.status for solution in (alone, *together)}
    # Which of these is rounding's choice, too.
    assert ends <= {Status.STAGNATED, Status.DIVERGED, Status.INCOMPATIBLE_RHS}


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("bc", ["neumann", "periodic"])
def test_multigrid_takes_what_rounding_makes_of_a_zero_for_zero(bc: str, precision: Any) -> None:
    """A constant that nothing fixes must not be amplified by the coarsest level: n·r drifts by rounding."""
    f = np.random.default_rng(13).standard_normal((64, 64, 64))
    f -= f.mean()
    problem = diffusion(f.shape, kappa, spacing=1 / 64, bc=bc)
    solution = dsolver.solve(problem, f, device="cpu", rtol=1e-10, precond_dtype=precision)
    assert solution.converged
    assert solution.iterations <= 20
    assert abs(solution.x.mean()) <= 1e-12 * abs(solution.x).max()


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 2, 2)])
@pytest.mark.parametrize(("jump", "reached"), [(1e6, 1e-8), (1e8, 1e-7)])
def test_what_rounding_leaves_of_the_sum_of_a_residual_does_no_harm(
    jump: float, reached: float, chunks: Triple
) -> None:
    """Rows with large entries make it; in rows with small ones it would be a large solution."""
    x, y, z = np.indices((13, 17, 19))
    f = np.random.default_rng(0).standard_normal(x.shape)
    value = np.where((x // 2 + y // 3 + z // 4) % 2, jump, 1.0)
    problem = diffusion(f.shape, value, bc="neumann", chunks=chunks)
    solution = dsolver.solve(problem, f - f.mean(), M="mg", device="cpu", rtol=reached)
    assert solution.converged
    assert solution.iterations <= 16


@pytest.mark.parametrize("bc", ["neumann", "periodic", {"x": "periodic", "y": "neumann", "z": "periodic"}])
def test_every_cell_may_be_a_chunk_of_its_own(bc: Any) -> None:
    f = np.random.default_rng(0).standard_normal((2, 2, 2))
    solution = dsolver.solve(diffusion(f.shape, bc=bc, chunks=(2, 2, 2)), f - f.mean(), device="cpu")
    assert solution.converged
    assert solution.iterations <= 2


# -- masks -------------------------------------------------------------------------------------------------------------


def wall(grid: Triple, at: int) -> npt.NDArray[np.bool_]:
    mask = np.zeros(grid, dtype=bool)
    mask[at] = True
    return mask


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 2, 1), (5, 1, 2)])
def test_a_wall_cuts_the_grid_in_two(chunks: Triple) -> None:
    """Each side is what a grid of its size with no flux through the wall would be."""
    rng = np.random.default_rng(8)
    k, f = rng.uniform(1.0, 3.0, (9, 6, 5)), rng.standard_normal((9, 6, 5))
    k[5] = f[5] = np.nan  # not looked at
    x = solve(diffusion((9, 6, 5), k, mask=wall((9, 6, 5), 5), chunks=chunks), f)
    assert not x[5].any()
    for part, face in ((slice(0, 5), "x+"), (slice(6, 9), "x-")):
        alone = diffusion(k[part].shape, k[part], bc=dict.fromkeys({"x-", "x+", "y", "z"} - {face}, "dirichlet"))
        np.testing.assert_allclose(x[part], solve(alone, f[part]), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("chunks", [(1, 1, 1), (3, 2, 1)])
def test_a_region_that_nothing_fixes_is_solved_with_mean_zero_beside_one_that_is_fixed(chunks: Triple) -> None:
    rng = np.random.default_rng(9)
    f = rng.standard_normal((9, 6, 5))
    bc = {"x-": Dirichlet(1.0)} | dict.fromkeys(("x+", "y", "z"), "neumann")
    problem = diffusion((9, 6, 5), mask=wall((9, 6, 5), 5), bc=bc, chunks=chunks)
    with pytest.warns(InconsistentWarning):
        x = solve(problem, f)
    assert abs(x[6:].mean()) <= 1e-12
    with pytest.warns(InconsistentWarning):
        closed = solve(diffusion((3, 6, 5), bc="neumann"), f[6:])
    np.testing.assert_allclose(x[6:], closed, rtol=1e-8, atol=1e-10)
    fixed = solve(diffusion((5, 6, 5), bc=bc), f[:5])
    np.testing.assert_allclose(x[:5], fixed, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 3, 2)])
def test_regions_that_nothing_fixes_are_counted(chunks: Triple) -> None:
    mask = wall((9, 6, 5), 5)
    mask[2] = True
    # Around a periodic axis the outer two are one.
    for x, count in (("neumann", 3), ("periodic", 2), ("dirichlet", 1)):
        problem = diffusion((9, 6, 5), mask=mask, bc={"x": x, "y": "neumann", "z": "neumann"}, chunks=chunks)
        assert dsolver.solve(problem, np.zeros((9, 6, 5)), device="cpu").closed_regions == count


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 2, 1), (4, 3, 1)])
def test_a_winding_channel_is_one_region(chunks: Triple) -> None:
    mask = np.zeros((9, 8, 2), dtype=bool)
    for i in range(1, 9, 2):
        mask[i] = True
        mask[i, 0 if i % 4 == 1 else -1] = False
    f = np.where(mask, 0.0, np.random.default_rng(10).standard_normal(mask.shape))
    f[~mask] -= f[~mask].mean()
    x = solve(diffusion(mask.shape, 2.0, mask=mask, bc="neumann", chunks=chunks), f)
    assert abs(x[~mask].mean()) <= 1e-12 * abs(x).max()
    for stopped, count in ((False, 1), (True, 2)):
        mask[3, -1] = stopped
        problem = diffusion(mask.shape, 2.0, mask=mask, bc="neumann", chunks=chunks)
        assert dsolver.solve(problem, np.zeros(mask.shape), device="cpu").closed_regions == count


def test_values_that_are_not_finite_are_seen_outside_the_mask() -> None:
    f = np.zeros((9, 6, 5))
    f[4, 3, 2] = np.nan
    with pytest.raises(InputError, match="b has values that are NaN or infinite"):
        solve(diffusion((9, 6, 5), mask=wall((9, 6, 5), 5)), f)


def test_tables_of_pandas_are_arrays() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    values = 1.0 + np.random.default_rng(0).random((5, 4))

    def of(array: Any) -> dsolver.problems.Problem:
        face, sizes = array(values[0]), array(values[:, 1])
        return diffusion(
            (5, 4), array(values), spacing=(sizes, 1.0), bc={"x-": Dirichlet(face)}, active=array(values > 1.2)
        )

    x = dsolver.solve(of(np.asarray), values).x
    tables = of(lambda array: (pandas.Series if array.ndim == 1 else pandas.DataFrame)(array))
    assert np.array_equal(dsolver.solve(tables, pandas.DataFrame(values)).x, x)
    line = diffusion((4,), pandas.Series(values[0]))
    assert np.array_equal(dsolver.solve(line, values[1]).x, dsolver.solve(diffusion((4,), values[0]), values[1]).x)


def test_a_mask_may_be_a_function() -> None:
    problem = diffusion((6, 6, 6), mask=lambda x, y, z: (x - 3) ** 2 + (y - 3) ** 2 + (z - 3) ** 2 < 2.0)
    x = solve(problem, np.ones((6, 6, 6)))
    inside = (x == 0.0).sum()
    assert inside == 8


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kappa": -1.0}, "kappa must be finite and > 0"),
        ({"kappa": np.nan}, "kappa must be finite and > 0"),
        ({"kappa": (1.0, 2.0)}, "kappa has 2 entries"),
        ({"kappa": (1.0, 0.0, 2.0)}, "kappa_y must be finite and > 0"),
        ({"kappa": np.ones((3, 4, 5))}, r"kappa has shape \(3, 4, 5\), but the grid is \(4, 4, 4\)"),
        ({"kappa": np.ones((3, 4, 4, 4))}, r"they must be equal; pass list.kappa. for one along each axis"),
        (
            {"kappa": np.ones((4, 4, 4, 3))},
            r"they must be equal; pass list.numpy.moveaxis.kappa, -1, 0.. for one along",
        ),
        ({"kappa": np.ones((3, 3, 4, 4, 4))}, r"pass numpy.moveaxis.kappa, .0, 1., .-2, -1.. for a full tensor"),
        ({"fixed": ([(0, 0, 0), (1, 1, 1)], 1.0)}, "an array of the grid's shape, True at the cells where u is held"),
        ({"kappa": (0.0, 1.0, 1.0)}, "kappa_x must be finite and > 0, .*; 1e-30 leaves lines of cells alone"),
        ({"kappa": 0j}, "kappa must be finite and not 0"),
        ({"kappa": np.array("x")}, "kappa has dtype <U1: real numbers are needed"),
        ({"kappa": "copper"}, "kappa must be a number, an array of shape"),
        ({"kappa": None}, "kappa must be a number, an array of shape"),
        ({"sigma": -1.0}, "sigma must be finite and not negative"),
        ({"spacing": 0.0}, "spacing along x must be finite and > 0"),
        ({"spacing": (1.0, 2.0)}, "spacing must be a number or one entry for each axis"),
        ({"spacing": (1.0, 2.0, np.ones(3))}, r"spacing along z has shape \(3,\)"),
        ({"bc": "wall"}, "unknown boundary condition 'wall'"),
        ({"bc": {"top": "neumann"}}, "bc names 'top'"),
        ({"bc": {"x": "neumann", "x-": "neumann"}}, "name an axis or its faces, not both"),
        ({"bc": {"x-": "periodic"}}, "periodic at one end of x only"),
        ({"bc": ("neumann", "neumann", "periodic")}, "bc must be one condition, or a mapping such as"),
        ({"bc": Dirichlet(np.ones((4, 5)))}, r"value at face x- has shape \(4, 5\)"),
        ({"bc": Neumann(np.inf)}, "flux at face x- must be finite"),
        ({"bc": Robin(-1.0)}, "negative alpha"),
        ({"kappa": np.ma.masked_greater(np.full((4, 4, 4), 2.0), 1.0)}, "kappa is a masked array"),
        ({"mask": True}, "mask must be an array"),
        ({"mask": np.zeros((4, 4, 4))}, "it must be True at the cells to leave out"),
        ({"chunks": (5, 1, 1)}, "5 chunks along x"),
        *(
            ({name: delayed(1.0)}, f"{name} is a Delayed.* of Dask: pass what it computes")
            for name in ("kappa", "sigma", "mask", "spacing")
        ),
        ({"kappa": (1.0, delayed(1.0), 1.0)}, "kappa_y is a Delayed.* of Dask"),
        ({"bc": Dirichlet(delayed(1.0))}, "value at face x- is a Delayed.* of Dask"),
        ({"kappa": 10**400}, "kappa must be finite and > 0"),
        ({"spacing": 10**400}, "spacing along x must be a number or 4 cell sizes"),
    ],
)
def test_what_cannot_be_right_is_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        diffusion((4, 4, 4), **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kappa": np.where(np.arange(64).reshape(4, 4, 4) == 5, -1.0, 1.0)}, "kappa must be positive and finite"),
        ({"kappa": lambda x, y, z: x + y + z - 4.0}, "kappa must be positive and finite"),
        (
            {"kappa": lambda x, y, z: (x + y + z).ravel()[:3]},
            r"the function for kappa returned an array of shape \(3,\)",
        ),
        (
            {"kappa": lambda x, *_: x.missing},
            r"function for kappa raised AttributeError.* at .*test_diffusion.py, line",
        ),
        ({"sigma": lambda x, *_: 1j * x}, "the function for sigma returned dtype complex128: real"),
        ({"bc": Neumann(lambda *_: None)}, "the function for a boundary condition returned dtype object"),
        ({"bc": Neumann(lambda x: x)}, "the function for a boundary condition raised TypeError"),
        ({"mask": lambda x, y, z: x + y + z - 4.0}, "mask returned float64: it must be True"),
        ({"bc": Dirichlet(lambda x, y, z: (x + y + z).ravel()[:3])}, r"the function for a boundary .* of shape \(3,\)"),
        ({"sigma": np.where(np.arange(64).reshape(4, 4, 4) == 5, -1.0, 1.0)}, "not negative .for eigsh add a constant"),
        ({"bc": Robin(lambda x, y, z: y - 1.0 + 0.0 * (x + z))}, "alpha of a Robin condition must be"),
    ],
)
def test_values_that_cannot_be_right_are_refused_where_they_are(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        solve(diffusion((4, 4, 4), chunks=(2, 1, 1), **arguments), np.ones((4, 4, 4)))


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 2)])
@pytest.mark.parametrize("name", ["kappa", "sigma"])
def test_a_cell_with_a_value_that_cannot_be_right_is_named(name: str, chunks: Triple) -> None:
    values = np.ones((4, 5, 6))
    values[3, 1, 4] = np.nan
    given: dict[str, Any] = {name: values}
    message = rf"{name} must be .* is not in 1 of the cells of chunk \d+, the first at \(3, 1, 4\): .*with mask="
    with pytest.raises(InputError, match=message):
        solve(diffusion((4, 5, 6), chunks=chunks, **given), np.ones((4, 5, 6)))


def test_the_v_cycle_of_hpcg_is_refused_for_rows_that_differ() -> None:
    with pytest.raises(InputError, match="same in all rows"):
        SolveSpec.plan(diffusion((8, 8, 8)), (1, 1, 1), m=Hpcg())


def test_what_is_sent_has_no_arrays() -> None:
    problem = diffusion((4, 4, 4), np.ones((4, 4, 4)), mask=np.zeros((4, 4, 4), dtype=bool))
    assert set(problem.coefficients) == {"kappa", "mask"}
    assert not problem.without_arrays.coefficients
    assert problem.rule is problem.without_arrays.rule
    assert Partition(problem.grid).grid == (4, 4, 4)


@pytest.mark.gpu
def test_a_solver_of_a_closed_box_on_a_gpu_goes_on_after_a_b_that_is_infinite() -> None:
    mask = np.zeros((16, 16), bool)
    mask[3, 4] = True
    b = np.where(mask, 0.0, np.random.default_rng(4).standard_normal((16, 16)))
    b[~mask] -= b[~mask].mean()
    with dsolver.Solver(problems.diffusion((16, 16), mask=mask, bc="neumann"), M="mg", device="cuda") as solver:
        with pytest.raises(InputError, match="NaN or infinite"):
            solver.solve(np.full((16, 16), np.inf))
        assert solver.solve(b).converged
