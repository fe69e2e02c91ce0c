"""Functions of the user's as M and A, on every engine: of whole arrays and by chunk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from distributed import Client

import dsolver
from dsolver import problems
from dsolver.errors import InputError
from tests.clusters import cluster

F64 = npt.NDArray[np.float64]
GRID = (9, 7, 6)
CHUNKS = (2, 1, 2)
PLANE = (13, 11)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with cluster(2) as made:
        yield made


def laplacian(u: F64) -> F64:
    """That of a point's neighbors, of an array with a layer around it."""
    center = (slice(1, -1),) * u.ndim
    total = 2.0 * u.ndim * u[center]
    for axis in range(u.ndim):
        for side in (slice(None, -2), slice(2, None)):
            total = total - u[(*center[:axis], side, *center[axis + 1 :])]
    return total


def polynomial(r: F64, *_: Any) -> F64:
    """(2 - A / 6) r / 6, of an array with a layer around it: symmetric and positive definite."""
    inner: F64 = r[(slice(1, -1),) * r.ndim]
    return (2.0 * inner - laplacian(r) / 6.0) / 6.0


def whole_polynomial(r: F64) -> F64:
    return polynomial(np.pad(r, 1))


BY_CHUNK = dsolver.by_chunk(polynomial, halo=1)
ENGINES = ["resident", "graph", "reference"]


def solved(m: Any, engine: Any, client: Client | None, **more: Any) -> dsolver.Solution:
    b = np.random.default_rng(3).standard_normal(GRID)
    named: Any = {} if engine == "reference" else {"client": client}
    return dsolver.solve(problems.poisson7(GRID, chunks=CHUNKS), b, M=m, engine=engine, device="cpu", **named, **more)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("m", [whole_polynomial, BY_CHUNK], ids=["whole", "chunk"])
def test_a_function_is_the_same_on_every_engine(m: Any, engine: Any, client: Client) -> None:
    expected = solved(whole_polynomial, "reference", None)
    found = solved(m, engine, client)
    assert found.converged
    assert found.residuals == expected.residuals
    assert (found.x == expected.x).all()
    gathered = m is whole_polynomial and engine != "reference"
    assert [note for note in found.notes if "gathered on one worker" in note] == list(found.notes)[:gathered]


@pytest.mark.parametrize("halo", [0, 2])
def test_a_function_by_chunk_gets_what_lies_around_its_chunk(halo: int) -> None:
    """Around the end along a periodic axis, zero outside the grid along others, in the user's axes."""
    weights = np.array([[0.0, -1.0, 0.0], [-1.0, 4.0, -1.0], [0.0, -1.0, 0.0]])
    problem = problems.stencil(PLANE, weights, chunks=(3, 2), periodic=(True, False))
    b = np.random.default_rng(4).standard_normal(PLANE)
    seen: list[tuple[F64, tuple[slice, ...]]] = []

    def m(r: F64, where: tuple[slice, ...]) -> F64:
        seen.append((r.copy(), where))
        return r[tuple(slice(halo, n - halo) for n in r.shape)]

    dsolver.solve(problem, b, M=dsolver.by_chunk(m, halo=halo), maxiter=1)
    around = np.pad(np.pad(b, ((halo, halo), (0, 0)), mode="wrap"), ((0, 0), (halo, halo)))
    assert len({where[0].start for _, where in seen}) == 3
    for r, (x, y) in seen[:6]:
        assert (r == around[x.start : x.stop + 2 * halo, y.start : y.stop + 2 * halo]).all()


@pytest.mark.gpu
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 1)])
def test_on_a_gpu_chunks_are_its_arrays_and_whole_ones_are_as_b_is(chunks: Any) -> None:
    cupy = pytest.importorskip("cupy")
    b = np.random.default_rng(3).standard_normal(GRID)
    problem = problems.diffusion(GRID, kappa=1.0 + b * b, chunks=chunks)
    kinds: list[type] = []

    def seen(r: Any, *where: Any) -> Any:
        kinds.append(type(r))
        return polynomial(r) if where else whole_polynomial(r) if type(r) is np.ndarray else r / 6.0

    for m, right, kind in (
        (seen, b, np.ndarray),
        (seen, cupy.asarray(b), cupy.ndarray),
        (dsolver.by_chunk(seen, halo=1), b, cupy.ndarray),
    ):
        kinds.clear()
        assert dsolver.solve(problem, right, M=m, device="cuda").converged
        assert set(kinds) == {kind}


def test_a_complex_vector_is_given_whole_and_by_chunk(client: Client) -> None:
    kappa = np.full(GRID, 1.0 + 0.3j)
    problem = problems.diffusion(GRID, kappa=kappa, chunks=CHUNKS)
    b = np.random.default_rng(5).standard_normal(GRID) + 1j
    found = [
        dsolver.solve(problem, b, M=lambda r: r * (1.0 - 0.3j), **where)
        for where in ({"engine": "reference"}, {"client": client, "device": "cpu"})
    ]
    assert found[0].converged
    assert found[0].residuals == found[1].residuals


def test_a_function_that_fails_on_a_worker_says_so(client: Client) -> None:
    def broken(r: F64) -> F64:
        return r.ravel()

    with pytest.raises(InputError, match=r"M returned an array of shape \(378,\).*b's shape \(9, 7, 6\)"):
        solved(broken, "resident", client)
    with pytest.raises(InputError, match=r"M returned an array of shape \(2,\).*the chunk's shape"):
        solved(dsolver.by_chunk(lambda *_: np.zeros(2)), "resident", client)


def test_a_function_that_cannot_be_sent_is_refused(client: Client) -> None:
    lock = threading.Lock()

    def m(r: F64) -> F64:
        with lock:
            return r

    with pytest.raises(InputError, match="M cannot be sent to workers"):
        solved(m, "resident", client)


def test_a_reordered_matrix_gets_vectors_in_its_users_order(client: Client) -> None:
    a = scipy.sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(40, 40)).tocsr()
    problem = dsolver.matrix(a, partition=np.arange(40) % 2)
    found = dsolver.solve(problem, np.arange(40.0), M=np.linalg.inv(a.toarray()), client=client, device="cpu")
    assert found.iterations == 1


def test_functions_by_chunk_are_for_grids() -> None:
    problem = dsolver.matrix(scipy.sparse.eye_array(8).tocsr())
    with pytest.raises(InputError, match="M is a function by chunk, which is for grids"):
        dsolver.solve(problem, np.ones(8), M=BY_CHUNK)
    with pytest.raises(InputError, match="halo must be an integer >= 0, not -1"):
        dsolver.by_chunk(polynomial, halo=-1)
