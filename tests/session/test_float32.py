"""Systems in float32: half the memory on every engine and device, down to what rounding allows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver import problems
from dsolver.cost.memory import of_chunk
from dsolver.errors import InconsistentWarning, InputError
from dsolver.preconditioners import Jacobi
from dsolver.program.spec import SolveSpec
from dsolver.session.follower import ATTAINED
from tests.support.clusters import cluster

N = 8
SHAPE = (N, N, N)


def rough(seed: int) -> Any:
    return np.exp(np.random.default_rng(seed).standard_normal(SHAPE))


def right() -> Any:
    return np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)


def lattice() -> sp.csr_array:
    return sp.csr_array(problems.poisson7(SHAPE).to_scipy())


SYSTEMS: dict[str, Any] = {
    "poisson": lambda: problems.poisson7(SHAPE),
    "poisson27": lambda: problems.poisson27(SHAPE),
    "diffusion": lambda: problems.diffusion(SHAPE, rough(1)),
    "held": lambda: problems.diffusion(SHAPE, rough(1), bc=problems.Dirichlet(2.0)),
    "closed": lambda: problems.diffusion(SHAPE, rough(1), bc=problems.Neumann()),
    "fixed": lambda: problems.diffusion(SHAPE, rough(1), fixed=(rough(2) > 3.0, rough(3))),
    "masked": lambda: problems.diffusion(SHAPE, rough(1), mask=rough(2) > 2.0),
    "islands": lambda: problems.diffusion(SHAPE, rough(1), mask=rough(2) > 1.0, bc="neumann"),
    "matrix": lattice,
    "chunks": lambda: dsolver.matrix(lattice(), chunks=3),
    "flow": lambda: sp.csr_array(lattice() + sp.diags_array([np.full(N**3 - 1, 0.3)], offsets=[1])),
}


def solved(system: Any, **arguments: Any) -> dsolver.Solution:
    b = right().ravel() if sp.issparse(system) or not getattr(system, "lattice", False) else right()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentWarning)
        return dsolver.solve(system, b, **{"client": False, **arguments})


def agree(found: dsolver.Solution, expected: dsolver.Solution) -> bool:
    return bool(np.abs(found.x - expected.x).max() <= 1e-3 * np.abs(expected.x).max())


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", SYSTEMS)
def test_x_is_float32(name: str, device: Any) -> None:
    system = SYSTEMS[name]()
    for m in ("auto", "amg", "jacobi"):
        found, expected = (solved(system, M=m, device=device, **more) for more in ({"dtype": "float32"}, {}))
        assert found.x.dtype == np.float32
        assert found.status is expected.status
        assert found.true_residual <= 1e-5 * found.b_norm
        assert "rtol=1e-08 is out of reach in float32: 1e-05 was taken" in found.notes
        assert agree(found, expected)


@pytest.mark.parametrize("method", ["fcg", "minres", "gmres", "fgmres", "bicgstab"])
def test_methods(method: Any) -> None:
    found = solved(lattice(), dtype="float32", method=method, rtol=1e-6, device="cpu")
    assert found.converged
    assert found.notes == ()
    assert found.x.dtype == np.float32
    assert agree(found, solved(lattice(), device="cpu"))


def test_a_solver() -> None:
    b = right()
    with dsolver.Solver(SYSTEMS["diffusion"](), dtype="float32", client=False, device="cpu") as solver:
        both = solver.solve([b, 2.0 * b], x0=None)
        assert [x.dtype for x in both.x] == [np.float32] * 2
        solver.update(kappa=rough(3))
        again = solver.solve(b, x0=both[0].x)
        assert solver.hierarchy.levels[0].values == "float32"
    assert agree(again, dsolver.solve(problems.diffusion(SHAPE, rough(3)), b, client=False, device="cpu"))


def test_right_hand_sides_of_any_size() -> None:
    expected = solved(lattice(), dtype="float32", device="cpu").x
    for size in (1e-30, 1e30):
        found = dsolver.solve(
            lattice(), right().ravel() * np.float32(size), dtype="float32", client=False, device="cpu"
        )
        assert found.converged
        assert np.abs(found.x / np.float32(size) - expected).max() <= 1e-3 * np.abs(expected).max()


def test_the_same_bits_on_a_cluster(tmp_path: Any) -> None:
    import dask.array as da

    system = dsolver.matrix(lattice(), chunks=3)
    expected = solved(system, dtype="float32", engine="reference", device="cpu")
    with cluster(2) as client:
        for engine in ("resident", "graph"):
            found = solved(system, dtype="float32", client=client, engine=engine, device="cpu")
            assert found.residuals == expected.residuals
            assert (found.x == expected.x).all()
        spread = dsolver.solve(SYSTEMS["diffusion"](), da.from_array(right(), chunks=4), dtype="float32", client=client)
        assert isinstance(spread.x, da.Array)
        assert spread.x.dtype == spread.x.compute().dtype == np.float32
    for more in ({"checkpoint": tmp_path / "saved"}, {"resume": tmp_path / "saved"}):
        assert agree(
            solved(SYSTEMS["diffusion"](), dtype="float32", device="cpu", **more), solved(SYSTEMS["diffusion"]())
        )


def test_a_type_of_numpy_is_as_good_as_its_name() -> None:
    types: tuple[Any, ...] = (np.float32, np.dtype(np.float32))
    for given in types:
        assert agree(solved(lattice(), dtype=given), solved(lattice(), dtype="float32"))
        assert dsolver.solve(lattice(), right().ravel(), M="amg", precond_dtype=given, device="cpu").converged


def test_what_rounding_leaves_of_b_is_no_reason_for_factors() -> None:
    """Both are far from singular: an x of many times the length of b is all that is in the way."""
    plane, ones = sp.csr_array(problems.poisson5((100, 100)).to_scipy()), np.ones(10_000)
    box = problems.diffusion((24, 24, 24), np.random.default_rng(0).lognormal(sigma=2.0, size=(24, 24, 24)))
    for system, b in ((plane, ones), (box, np.ones(box.shape))):
        found = dsolver.solve(system, b, dtype="float32", rtol=2e-7, M="auto", client=False, device="cpu")
        assert found.status is dsolver.Status.STAGNATED
        assert found.notes == (ATTAINED,)
        assert "all that rounding leaves to reach" in found.advice
        assert 1e-6 < found.true_residual / found.b_norm < 1e-4


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_matrix_beyond_float32_is_told_where_numbers_end() -> None:
    found = dsolver.solve(1e39 * lattice(), right().ravel(), dtype="float32", device="cpu")
    assert found.status is dsolver.Status.NOT_FINITE
    assert "beyond 3e38" in found.status.advice


def test_half_the_memory_is_forecast() -> None:
    problem = dsolver.matrix(lattice()).planned(1)
    wide, narrow = (
        of_chunk(SolveSpec.plan(problem, problem.chunks or (1, 1, 1), m=Jacobi(), dtype=d), 0, cuda=False)
        for d in ("float64", "float32")
    )
    assert narrow.vectors == wide.vectors / 2
    assert narrow.matrices[0] < 0.8 * wide.matrices[0]
    both = (dsolver.estimate(problem, M="jacobi", dtype=d, workers=1, device="cpu") for d in ("float64", "float32"))
    assert [plan.workers[0].vectors for plan in both] == [wide.vectors, narrow.vectors]


@pytest.mark.parametrize(
    ("system", "arguments", "message"),
    [
        ("matrix", {"dtype": "float16"}, "dtype must be 'float64' or 'float32', not 'float16'"),
        ("matrix", {"dtype": np.float16}, "dtype must be 'float64' or 'float32', not 'float16'"),
        ("matrix", {"dtype": "float32", "precond_dtype": "float64"}, "dtype='float32' is the value type of M, too"),
        ("complex", {"dtype": "float32"}, "A is complex, and dtype='float32' is for real matrices"),
    ],
)
def test_what_is_refused(system: str, arguments: dict[str, Any], message: str) -> None:
    a = lattice() if system == "matrix" else (1.0 + 1.0j) * lattice()
    with pytest.raises(InputError, match=message):
        dsolver.solve(a, right().ravel(), client=False, **arguments)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["diffusion", "held", "fixed", "closed", "masked", "matrix", "chunks"])
def test_on_a_gpu(name: str) -> None:
    import cupy

    system = SYSTEMS[name]()
    for m in ("jacobi", "amg"):
        found, expected = solved(system, M=m, dtype="float32", device="cuda"), solved(system, M=m, device="cpu")
        assert found.x.dtype == np.float32
        assert found.status is expected.status
        assert agree(found, expected)
    there = dsolver.solve(lattice(), cupy.asarray(right().ravel()), M="jacobi", dtype="float32", device="cuda")
    assert isinstance(there.x, cupy.ndarray)
    assert there.x.dtype == np.float32
