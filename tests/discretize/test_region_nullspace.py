"""Closed regions: thousands of pockets that nothing fixes, each solved with mean zero, however the grid is cut."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
import scipy.sparse.linalg
from scipy import ndimage

import dsolver
from dsolver import kernels
from dsolver.discretize.region_nullspace import RegionConstants
from dsolver.discretize.system import System
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.eager.handles import items_of
from dsolver.errors import InconsistentWarning
from dsolver.grid.box import STAR_OFFSETS, Triple
from dsolver.grid.partition import Partition
from dsolver.kernels import load
from dsolver.kernels.cpu.vectors import CpuVectors
from dsolver.multigrid import hierarchy
from dsolver.multigrid.algebraic.lattice import choice
from dsolver.preconditioners import auto
from dsolver.problems import Dirichlet, diffusion
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from dsolver.status import Status

F64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

THROUGH = {"x": "dirichlet", "y": "neumann", "z": "neumann"}


def porous(grid: Triple, solid: float, seed: int = 1) -> Mask:
    """White noise: cells that are solid with this probability."""
    mask: Mask = np.random.default_rng(seed).uniform(size=grid) < solid
    return mask


class Regions:
    """Regions of the cells that are not masked, as SciPy finds them; number 0 is the masked cells."""

    def __init__(self, mask: Mask, bc: Any = "neumann") -> None:
        self.label, self.count = ndimage.label(~mask)
        open_ = np.unique(self.label[[0, -1]]) if bc is THROUGH else np.zeros(1, dtype=int)
        self.closed = np.setdiff1d(np.arange(1, self.count + 1), open_)

    def means(self, x: F64) -> F64:
        """Means over closed regions."""
        means: F64 = np.asarray(ndimage.mean(x, self.label, self.closed))
        return means

    def balanced(self, f: F64) -> F64:
        """f with mean zero in each closed region."""
        means = np.zeros(self.count + 1)
        means[self.closed] = self.means(f)
        out: F64 = f - means[self.label]
        return out


@pytest.fixture(params=["by couplings", "lattice"])
def coarsening(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Coarsening of levels: media with pores by couplings."""
    if request.param == "lattice":
        monkeypatch.setattr(hierarchy, "leaves_lattice_at_once", lambda *_, **__: False)
    return str(request.param)


def noise(mask: Mask, seed: int = 2) -> F64:
    return np.where(mask, 0.0, np.random.default_rng(seed).standard_normal(mask.shape))


def solve(problem: dsolver.Problem, f: Any, **options: Any) -> dsolver.Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given: dict[str, Any] = {"device": "cpu", "rtol": 1e-9, "M": "mg"} | options
        return dsolver.solve(problem, f, **given)


@pytest.mark.usefixtures("coarsening")
@pytest.mark.parametrize("chunks", [(1, 1, 1), (1, 2, 1), (2, 2, 2)])
@pytest.mark.parametrize(("solid", "bc"), [(0.45, "neumann"), (0.45, THROUGH), (0.8, "neumann")])
def test_a_porous_cube(solid: float, bc: Any, chunks: Triple) -> None:
    mask = porous((40, 40, 40), solid)
    regions = Regions(mask, bc)
    solution = solve(diffusion(mask.shape, mask=mask, bc=bc, chunks=chunks), regions.balanced(noise(mask)))
    assert solution.converged
    assert solution.relative_residual <= 1e-9
    assert solution.closed_regions == len(regions.closed) > (5000 if solid == 0.8 else 300)
    assert abs(regions.means(solution.x)).max() <= 1e-12 * abs(solution.x).max()
    assert not solution.x[mask].any()


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 2, 2)])
@pytest.mark.parametrize(("solid", "most"), [(0.3, 14), (0.45, 16), (0.66, 24), (0.8, 18)])
def test_pores_are_coarsened_by_couplings(solid: float, most: int, chunks: Triple) -> None:
    """On the lattice these take 51, 83, 553 and 67 iterations."""
    mask = porous((40, 40, 40), solid)
    f = Regions(mask, THROUGH).balanced(noise(mask))
    assert solve(diffusion(mask.shape, mask=mask, bc=THROUGH, chunks=chunks), f).iterations <= most


def test_pores_take_as_many_iterations_however_they_are_cut() -> None:
    """Levels that follow couplings from the finest one on are the same for any cut, and so is what smooths them."""
    mask = porous((40, 40, 40), 0.45)
    f = Regions(mask, THROUGH).balanced(noise(mask))
    cuts: list[Triple] = [(1, 1, 1), (2, 2, 1), (5, 1, 1)]
    found = [solve(diffusion(mask.shape, mask=mask, bc=THROUGH, chunks=cut), f).iterations for cut in cuts]
    assert found == [found[0]] * 3


def seen_as_pores(mask: Mask, periodic: tuple[bool, bool, bool]) -> bool:
    """Findings of set-up for κ = 1 in the cells that are not masked."""
    weights = np.zeros((len(STAR_OFFSETS), *mask.shape[::-1]))
    for row, offset in zip(weights, STAR_OFFSETS, strict=True):
        beside = mask
        for axis, step in enumerate(offset):
            beside = np.roll(beside, -step, axis)
            if step and not periodic[axis]:
                beside[(slice(None),) * axis + (-1 if step > 0 else 0,)] = True
        row[:] = np.where(mask | beside, 0.0, -1.0).T
    weights[STAR_OFFSETS.index((0, 0, 0))] = 6.0
    partition = Partition(mask.shape, (1, 1, 1), periodic)
    engine = EagerEngine(partition, load("cpu"))
    made = engine.per_chunk(lambda backend, _: backend.asarray(weights.reshape(-1)))
    return choice.leaves_lattice_at_once(engine, partition, STAR_OFFSETS, made, masked=True)


@pytest.mark.parametrize("periodic", [(False, False, False), (True, False, False), (True, True, True)])
@pytest.mark.parametrize("grid", [(12, 9, 10), (40, 3, 40), (48, 1, 48)])
def test_faces_of_the_grid_are_no_pores(grid: Triple, periodic: tuple[bool, bool, bool]) -> None:
    """Lines end there, too, short ones most often; and at an obstacle."""
    assert not seen_as_pores(np.zeros(grid, dtype=bool), periodic)
    obstacle = np.zeros(grid, dtype=bool)
    obstacle[: grid[0] // 4, :, : grid[2] // 4] = True
    assert not seen_as_pores(obstacle, periodic)
    assert seen_as_pores(porous(grid, 0.3), periodic)


@pytest.mark.usefixtures("coarsening")
def test_pockets_cost_no_iterations() -> None:
    """A medium's iterations are those of the same without its pockets."""
    mask = porous((40, 40, 40), 0.45)
    regions = Regions(mask, THROUGH)
    filled = mask | np.isin(regions.label, regions.closed)
    f = regions.balanced(noise(mask))
    for chunks in ((1, 1, 1), (2, 2, 2)):
        found, without = (
            solve(diffusion(mask.shape, mask=m, bc=THROUGH, chunks=chunks), np.where(m, 0.0, f)) for m in (mask, filled)
        )
        assert without.closed_regions == 0
        assert abs(found.iterations - without.iterations) <= 3
        np.testing.assert_allclose(found.x[~filled], without.x[~filled], rtol=0, atol=1e-6 * abs(without.x).max())


@pytest.mark.parametrize("seed", [1, 2])
def test_levels_that_are_hardly_coupled_get_smaller_all_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far down on the lattice what is left of couplings may have the other sign: no axis seemed worth coarsening, and
    set-up never ended. At 68³, 45 % solid, that happened at 8³, which is more than is inverted."""
    for name in ("leaves_lattice", "leaves_lattice_at_once"):
        monkeypatch.setattr(hierarchy, name, lambda *_, **__: False)
    monkeypatch.setitem(kernels.DENSE_ROWS, "cpu", 4)
    mask = porous((20, 20, 20), 0.45, seed)
    f = Regions(mask, THROUGH).balanced(noise(mask))
    assert solve(diffusion(mask.shape, mask=mask, bc=THROUGH), f).converged


# -- region by region --------------------------------------------------------------------------------------------------


def directly(mask: Mask, kappa: F64, sizes: tuple[F64, F64, F64], f: F64, bc: Any) -> F64:
    """The solution of each region by itself, by SciPy's direct solver; closed ones with mean zero by volume."""
    regions = Regions(mask, bc)
    shape = mask.shape
    volume = sizes[0][:, None, None] * sizes[1][:, None] * sizes[2]
    row = np.arange(mask.size).reshape(shape)
    matrix = scipy.sparse.lil_matrix((mask.size, mask.size))
    for axis in range(3):
        h = np.broadcast_to(np.expand_dims(sizes[axis], tuple(a for a in range(3) if a != axis)), shape)
        area = volume / h
        here, there = (np.moveaxis(row, axis, 0)[part].ravel() for part in (slice(None, -1), slice(1, None)))
        half = (h / 2 / kappa).ravel()
        link = area.ravel()[here] / (half[here] + half[there])
        link[mask.ravel()[here] | mask.ravel()[there]] = 0.0
        for a, b in ((here, there), (there, here)):
            matrix[a, b] = -link
        diagonal = np.zeros(mask.size)
        np.add.at(diagonal, here, link)
        np.add.at(diagonal, there, link)
        if bc is THROUGH and axis == 0:
            for end in (row[0].ravel(), row[-1].ravel()):
                diagonal[end] += area.ravel()[end] / half[end]
        matrix[row.ravel(), row.ravel()] = matrix.diagonal() + diagonal
    a = matrix.tocsr()
    x: F64 = np.zeros(mask.size)
    for number in range(1, regions.count + 1):
        cells: Any = np.flatnonzero(regions.label == number)
        v, b = volume.ravel()[cells], (f * volume).ravel()[cells]
        inner = a[cells][:, cells].toarray()
        if number in regions.closed:
            bordered = np.block([[inner, v[:, None]], [v[None, :], np.zeros((1, 1))]])
            x[cells] = np.linalg.solve(bordered, np.append(b - v * b.sum() / v.sum(), 0.0))[:-1]
        else:
            x[cells] = np.linalg.solve(inner, b)
    return x.reshape(shape)


@pytest.mark.usefixtures("coarsening")
@pytest.mark.parametrize("options", [{}, {"M": None}, {"M": "jacobi"}, {"precond_dtype": "float32"}, {"x0": "fmg"}])
@pytest.mark.parametrize("bc", ["neumann", THROUGH])
@pytest.mark.parametrize("chunks", [(1, 1, 1), (3, 1, 2)])
def test_is_the_direct_solution_of_each_region(chunks: Triple, bc: Any, options: dict[str, Any]) -> None:
    grid = (11, 10, 9)
    rng = np.random.default_rng(3)
    mask, kappa, f = porous(grid, 0.6), rng.uniform(0.5, 2.0, grid), rng.standard_normal(grid)
    sizes = rng.uniform(0.7, 1.3, 11), rng.uniform(0.7, 1.3, 10), rng.uniform(0.7, 1.3, 9)
    expected = directly(mask, kappa, sizes, np.where(mask, 0.0, f), bc)
    problem = diffusion(grid, kappa, mask=mask, spacing=sizes, bc=bc, chunks=chunks)
    with pytest.warns(InconsistentWarning):
        solution = dsolver.solve(problem, f, device="cpu", rtol=1e-12, **options)
    np.testing.assert_allclose(solution.x, expected, rtol=0, atol=1e-9 * abs(expected).max())


def test_the_text_book_kernels_have_the_same_solution() -> None:
    mask = porous((11, 10, 9), 0.6)
    f = Regions(mask).balanced(noise(mask))
    problem = diffusion(mask.shape, mask=mask, bc="neumann", chunks=(2, 1, 2))
    found, expected = (solve(problem, f, kernels=kernels, rtol=1e-11).x for kernels in ("numpy", "auto"))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * abs(expected).max())


def test_several_right_hand_sides_and_another_kappa() -> None:
    mask = porous((16, 16, 16), 0.6)
    regions = Regions(mask)
    several = np.stack([regions.balanced(noise(mask, seed)) for seed in range(3)])
    kappa = np.random.default_rng(4).uniform(0.5, 2.0, mask.shape)
    with dsolver.Solver(diffusion(mask.shape, mask=mask, bc="neumann", chunks=(2, 2, 1)), device="cpu") as solver:
        assert solver.closed_regions == regions.count
        together = solver.solve(list(several), rtol=1e-9)
        alone = [solver.solve(f, rtol=1e-9) for f in several]
        for one, other in zip(together, alone, strict=True):
            assert np.array_equal(one.x, other.x)
        solver.update(kappa=kappa)
        found = solver.solve(several[0], rtol=1e-9)
    assert found.converged
    assert abs(regions.means(found.x)).max() <= 1e-12 * abs(found.x).max()
    assert abs(found.x - alone[0].x).max() > 1e-3 * abs(found.x).max()


# -- what is special ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 2, 2)])
def test_sources_that_do_not_balance_are_counted_and_the_worst_is_named(chunks: Triple) -> None:
    mask = porous((16, 16, 16), 0.7)
    regions = Regions(mask)
    f = regions.balanced(noise(mask))
    sizes = np.bincount(regions.label.ravel())
    wrong = regions.closed[np.argsort(sizes[1:])[-3:]]
    for number, by in zip(wrong, (0.1, 0.5, 0.2), strict=True):
        cells = np.flatnonzero(regions.label == number)
        f.flat[cells] += by / len(cells) ** 0.5
    problem = diffusion(mask.shape, mask=mask, bc="neumann", chunks=chunks)
    with pytest.warns(InconsistentWarning) as caught:
        solution = dsolver.solve(problem, f, device="cpu", rtol=1e-9)
    assert len(caught) == 1
    told = str(caught[0].message)
    i, j, k = np.argwhere(np.transpose(regions.label, (2, 1, 0)) == wrong[1])[0][::-1]
    assert f"not in 3 of {regions.count};" in told
    assert f"that of cell {(int(i), int(j), int(k))}, it is {0.5 / np.linalg.norm(f):.1e}" in told
    assert solution.status is Status.INCOMPATIBLE_RHS
    assert abs(regions.means(solution.x)).max() <= 1e-12 * abs(solution.x).max()


@pytest.mark.parametrize("chunks", [(1, 1), (2, 1)])
@pytest.mark.parametrize("bc", ["neumann", {"x-": Dirichlet(1.0)}])
@pytest.mark.parametrize("kappa", [np.eye(2), 1.0 + 0.0j], ids=["tensor", "complex"])
def test_regions_of_rows_by_fluxes_are_those_of_the_grid(kappa: Any, bc: Any, chunks: Any) -> None:
    mask = np.zeros((12, 10), dtype=bool)
    mask[5] = mask[8, :7] = True
    f, sizes = noise(mask), (np.repeat([1.0, 3.0], 6), 1.0)
    label, count = ndimage.label(~mask)
    volumes = np.broadcast_to(sizes[0][:, None], mask.shape)
    excess, whole = (ndimage.sum(each, label, np.arange(count + 1)) for each in (f * volumes, volumes))
    given: dict[str, Any] = {"mask": mask, "bc": bc, "spacing": sizes}
    plain, by_fluxes = diffusion(mask.shape, **given), diffusion(mask.shape, kappa, chunks=chunks, **given)
    expected, found = (solve(problem, f - (excess / whole)[label], M="auto") for problem in (plain, by_fluxes))
    assert found.closed_regions == expected.closed_regions
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-6)
    with pytest.warns(InconsistentWarning, match=r"closed regions .* that of cell \(\d+, \d+\), it is"):
        expected, found = (dsolver.solve(problem, f, device="cpu", rtol=1e-9) for problem in (plain, by_fluxes))
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-6)


def test_many_regions_that_each_balance_nearly_are_told_of_together() -> None:
    count = 16**3 // 2
    mask = np.indices((16, 16, 16)).sum(axis=0) % 2 == 1
    f = np.where(mask, 0.0, 2e-10 / count**0.5)
    tube = np.zeros(mask.shape, dtype=bool)
    tube[0, :2, 0] = True  # a pocket of two cells, with a source that is balanced and large
    mask = (mask | ndimage.binary_dilation(tube)) & ~tube
    f[0, :2, 0] = 0.5**0.5, -(0.5**0.5)
    problem = diffusion(mask.shape, mask=mask, bc="neumann")
    with pytest.warns(
        InconsistentWarning, match=r"closed regions .* in all together it misses that by 2.0e-10"
    ) as told:
        dsolver.solve(problem, f, device="cpu")
    assert len(told) == 1


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 2, 2), (4, 4, 4)])
def test_cells_by_themselves(chunks: Triple) -> None:
    """A checkerboard has no links at all: x is zero, whatever the source."""
    mask = np.indices((8, 8, 8)).sum(axis=0) % 2 == 1
    problem = diffusion(mask.shape, mask=mask, bc="neumann", chunks=chunks)
    with pytest.warns(InconsistentWarning, match="not in 256 of 256"):
        solution = dsolver.solve(problem, np.ones(mask.shape), device="cpu")
    assert solution.closed_regions == 256
    assert abs(solution.x).max() <= 1e-15
    assert not solve(problem, np.zeros(mask.shape)).x.any()
    # One of them with a source that balances it, where σ is positive, is no closed region.
    sigma = np.zeros(mask.shape)
    sigma[2, 2, 2] = 0.5
    f = np.where(sigma > 0.0, 3.0, 0.0)
    solution = solve(diffusion(mask.shape, sigma=sigma, mask=mask, bc="neumann", chunks=chunks), f)
    assert solution.closed_regions == 255
    assert solution.x[2, 2, 2] == pytest.approx(6.0)


def test_one_cell_with_no_way_out() -> None:
    solution = solve(diffusion((1, 1, 1), bc="neumann"), np.zeros((1, 1, 1)))
    assert solution.closed_regions == 1
    assert not solution.x.any()


@pytest.mark.usefixtures("coarsening")
@pytest.mark.parametrize("across", ["pairs", "rings", "cubes"])
def test_pockets_with_one_cell_in_each_chunk(across: str) -> None:
    """Sweeps side by side leave (1, -1) as it is in such: a preconditioner has to have something else."""
    n, half = 16, 8
    mask = np.ones((n, n, n), dtype=bool)
    near = slice(half - 1, half + 1)
    if across == "pairs":
        mask[near, ::3, ::3] = False
    elif across == "rings":
        mask[near, near, ::3] = False
    else:
        mask[near, near, near] = False
    f = Regions(mask).balanced(noise(mask))
    solution = solve(diffusion(mask.shape, mask=mask, bc="neumann", chunks=(2, 2, 2)), f)
    assert solution.converged
    assert solution.iterations <= 12


def test_a_guess_in_a_region_of_one_cell_is_corrected() -> None:
    """A row with a diagonal in place of zeros, so its residual is not rounding."""
    mask = porous((8, 8, 8), 0.7)
    f = Regions(mask).balanced(noise(mask))
    solution = solve(
        diffusion(mask.shape, mask=mask, bc="neumann"), f, x0=np.random.default_rng(4).uniform(size=mask.shape)
    )
    assert solution.converged
    assert solution.residuals[-1] == pytest.approx(solution.true_residual, rel=1e-3)


def test_a_mask_that_leaves_out_nothing_is_no_mask() -> None:
    f = np.random.default_rng(5).standard_normal((12, 12, 12))
    f -= f.mean()
    mask = np.zeros(f.shape, dtype=bool)
    found, expected = (solve(diffusion(f.shape, mask=m, bc="neumann"), f, rtol=1e-11) for m in (mask, None))
    assert found.closed_regions == expected.closed_regions == 1
    assert abs(found.iterations - expected.iterations) <= 1
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-9 * abs(expected.x).max())


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 2, 2)])
def test_one_region_of_all_cells_keeps_its_matrix(chunks: Triple) -> None:
    """A raised diagonal held islands of large κ, which are coupled to others 10⁶ times more weakly: 10 and 11
    iterations (on the lattice 86), and 8 without a mask."""
    x, y, z = np.indices((17, 13, 19))
    kappa = np.where((x // 2 + y // 3 + z // 4) % 2, 1e6, 1.0)
    mask = (x - 8) ** 2 + (y - 6) ** 2 + (z - 9) ** 2 < 16
    f = Regions(mask).balanced(noise(mask))
    solution = solve(diffusion(mask.shape, kappa, mask=mask, bc="neumann", chunks=chunks), f, rtol=1e-8)
    assert solution.converged
    assert solution.closed_regions == 1
    assert solution.iterations <= 9
    assert abs(solution.x[~mask].mean()) <= 1e-12 * abs(solution.x).max()
    assert not solution.x[mask].any()


def test_without_regions_that_are_closed_nothing_is_done_to_the_matrix() -> None:
    mask = np.zeros((12, 12, 12), dtype=bool)
    mask[4:6, 4:6, 4:6] = True
    levels = program(diffusion(mask.shape, mask=mask)).prepared.site.levels
    assert levels[0].exact is levels[0].chunks


def test_a_region_costs_what_its_own_cells_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is made of the whole grid in a solve."""
    mask = porous((12, 12, 12), 0.7)
    made = program(diffusion(mask.shape, mask=mask, bc="neumann"))
    made.set_b({0: Regions(mask).balanced(noise(mask)) + np.where(mask, 0.0, 1.0)})
    made.guess("zero")

    def refuse(*_: Any) -> None:
        raise AssertionError("a vector became a block of the grid")

    monkeypatch.setattr(CpuVectors, "unload", refuse)
    b = made.method.b
    assert made.system._null_space is not None
    found = made.system._null_space.project(b)
    assert found.part <= 1e-15
    made.system.balance(b)
    made.system.centered(b)


def program(problem: dsolver.Problem) -> Solve:
    """Set up in this process, on one chunk."""
    spec = SolveSpec.plan(problem, (1, 1, 1))
    partition = spec.partition
    made = Solve(EagerEngine(partition, load("cpu")), spec)
    for name, values in problem.coefficients.items():
        made.load_coefficient({0: np.asarray(values, dtype=np.float64)}, name)
    made.set_up()
    return made


def test_only_the_preconditioner_s_diagonal_is_raised() -> None:
    """A region of n cells by 1 / n², one cell and open ones not at all."""
    mask = np.ones((9, 5, 5), dtype=bool)
    mask[1, 1, 1] = mask[3:6, 1, 1] = mask[7:, 1, 1] = False
    problem = diffusion(mask.shape, mask=mask, bc={"x+": "dirichlet"})
    grid = program(problem).prepared.site.levels[0]
    exact, raised = (items_of(part.at("local"))[0] for part in (grid.exact, grid.chunks))
    factors = (raised.diagonal / exact.diagonal)[raised.layout.position].reshape(mask.shape[::-1]).T
    expected = np.ones(mask.shape)
    expected[3:6, 1, 1] += 1.0 / 9.0
    np.testing.assert_allclose(factors, expected, rtol=1e-15)
    assert raised.local is exact.local


@pytest.mark.gpu
@pytest.mark.parametrize("precond_dtype", ["float64", "float32"])
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 2, 2)])
@pytest.mark.parametrize("bc", ["neumann", THROUGH])
def test_a_gpu_has_the_same_solution(bc: Any, chunks: Triple, precond_dtype: str) -> None:
    mask = porous((40, 40, 40), 0.45)
    regions = Regions(mask, bc)
    f = regions.balanced(noise(mask))
    problem = diffusion(mask.shape, mask=mask, bc=bc, chunks=chunks)
    found = solve(problem, f, device="cuda", precond_dtype=precond_dtype)
    expected = solve(problem, f)
    assert found.converged
    assert found.closed_regions == len(regions.closed)
    assert abs(found.iterations - expected.iterations) <= 3
    assert abs(regions.means(found.x)).max() <= 1e-12 * abs(found.x).max()
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-6 * abs(expected.x).max())


@pytest.mark.gpu
def test_a_gpu_tells_sources_that_do_not_balance() -> None:
    mask = porous((16, 16, 16), 0.7)
    problem = diffusion(mask.shape, mask=mask, bc="neumann", chunks=(2, 2, 2))
    told = []
    for device in ("cpu", "cuda"):
        with pytest.warns(InconsistentWarning) as caught:
            dsolver.solve(problem, np.ones(mask.shape), device=device)
        told += [str(warning.message) for warning in caught]
    assert told[0] == told[1]


def test_a_solve_that_was_cut_short_has_not_found_that_b_has_no_solution() -> None:
    f = 1.0 + np.random.default_rng(0).standard_normal((12, 12))
    for maxiter, status in ((2, Status.MAX_ITERATIONS), (200, Status.INCOMPATIBLE_RHS)):
        with pytest.warns(InconsistentWarning):
            found = dsolver.solve(diffusion(f.shape, bc="neumann"), f, M="jacobi", maxiter=maxiter, device="cpu")
        assert found.status is status


def test_few_questions_are_asked_before_a_medium_with_pockets_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for a GPU: how many cells are in pockets, and how many pockets there are; not where couplings jump."""
    asked: list[str] = []

    def counted(name: str) -> None:
        ask = getattr(EagerEngine, name)

        def asking(*given: Any) -> Any:
            asked.append(name)
            return ask(*given)

        monkeypatch.setattr(EagerEngine, name, asking)

    counted("known")
    counted("global_sums")
    monkeypatch.setattr(auto, "jumping", lambda *_: pytest.fail("no choice depends on it"))
    mask = porous((10, 10, 10), 0.6)
    prepare = System.prepare

    def prepared(system: System) -> None:
        before = len(asked)
        prepare(system)
        asked[:] = ["prepare"] * (len(asked) - before)

    monkeypatch.setattr(System, "prepare", prepared)
    f = Regions(mask, THROUGH).balanced(noise(mask))
    solution = solve(diffusion(mask.shape, 1.0, mask=mask, bc=THROUGH), f, M="auto", engine="reference")
    assert solution.closed_regions > 1
    assert asked.count("prepare") == 2


def test_balance_as_iterations_go_on_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    mask, balanced = porous((10, 10, 10), 0.6), list[int]()
    f = Regions(mask, THROUGH).balanced(noise(mask))
    going_on = RegionConstants.balance_going_on

    def counted(space: RegionConstants, *given: Any) -> None:
        balanced.append(1)
        going_on(space, *given)

    monkeypatch.setattr(RegionConstants, "balance_going_on", counted)

    def solved() -> Any:
        return solve(diffusion(mask.shape, 1.0, mask=mask, bc=THROUGH), f, M="jacobi", engine="reference")

    found = solved()
    assert len(balanced) > 3
    monkeypatch.setattr(RegionConstants, "quiet", False)
    wanted = solved()
    assert found.residuals == wanted.residuals
    assert (found.x == wanted.x).all()
