"""Circuits with voltage sources: their currents are multipliers, which hold the potentials of one or two nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla

import dsolver
from dsolver.matrices.multipliers import WEIGHT, augmented, multipliers
from tests.support.clusters import cluster

F64 = npt.NDArray[np.float64]


def circuit(n: int, *, between: bool, sources: int | None = None, unit: float = 1.0) -> tuple[Any, Any, F64]:
    """Conductances of a net of n² nodes, columns of its sources (to ground, or most between nodes), currents fed."""
    rng, nodes = np.random.default_rng(0), np.arange(n * n).reshape(n, n)
    first = np.concatenate([nodes[:, :-1].ravel(), nodes[:-1].ravel()])
    second = np.concatenate([nodes[:, 1:].ravel(), nodes[1:].ravel()])
    wires = np.arange(len(first))
    ends = sp.csr_array((np.ones(len(first)), (wires, first)), shape=(len(first), n * n))
    ends -= sp.csr_array((np.ones(len(first)), (wires, second)), shape=(len(first), n * n))
    conductances = ends.T @ sp.diags_array(10.0 ** rng.uniform(-3.0, 1.0, len(first))) @ ends
    count = n * n // 200 if sources is None else sources
    plus, minus = rng.choice(n * n, (2, count), replace=False)
    held = sp.csr_array((np.full(count, unit), (plus, np.arange(count))), shape=(n * n, count))
    if between:
        last = count - count // 4
        held -= sp.csr_array((np.full(last, unit), (minus[:last], np.arange(last))), shape=(n * n, count))
    return conductances.tocsr(), held, np.concatenate([1e-3 * rng.standard_normal(n * n), np.full(count, 1.8 * unit)])


def whole(g: Any, b: Any, d: Any = None) -> Any:
    """Matrix of nodal analysis."""
    return sp.block_array([[g, b], [b.T, None if d is None else -sp.diags_array(d)]]).tocsr()


@pytest.mark.parametrize("between", [False, True])
def test_iterations_of_a_default_call_hardly_depend_on_the_size(between: bool) -> None:
    """Default calls: with 100² and 200² nodes, of values that factors have, too."""
    counts = []
    for n in (100, 200):
        g, b, fed = circuit(n, between=between)
        found = dsolver.solve(whole(g, b), fed, device="cpu", rtol=1e-10)
        assert found.converged
        assert found.solved_by == "minres with BlockDiagonal(Algebraic(), Jacobi())"
        exact = sla.spsolve(whole(g, b).tocsc(), fed)
        assert np.linalg.norm(found.x - exact) < 1e-7 * np.linalg.norm(exact)
        counts.append(found.iterations)
    assert counts[1] < 1.3 * counts[0] < 70
    lowered = dsolver.solve(whole(g, b), fed, device="cpu", rtol=1e-10, precond_dtype="float32")
    assert lowered.solved_by == "minres with BlockDiagonal(Algebraic(precision='float32'), Jacobi())"
    assert lowered.converged
    assert lowered.iterations < 1.2 * counts[1]
    blocks = dsolver.solve(dsolver.block([[g, b], [b.T, None]]), fed, device="cpu", rtol=1e-10)
    assert blocks.iterations == counts[1]  # more than 150 without conductances for sources
    assert np.array_equal(blocks.x, found.x)
    for negative in (-whole(g, b), dsolver.block([[-g, -b], [-b.T, None]])):
        assert np.array_equal(dsolver.solve(negative, fed, device="cpu", rtol=1e-10).x, -found.x)


def test_units_and_inner_resistances_of_sources_do_not_matter() -> None:
    """Sources: in other units, and with resistances from none to those of an open switch."""
    g, b, fed = circuit(110, between=True)
    _, scaled, fed_scaled = circuit(110, between=True, unit=2.0**20)
    plain = dsolver.solve(whole(g, b), fed, device="cpu")
    units = dsolver.solve(dsolver.block([[g, scaled], [scaled.T, None]]), fed_scaled, device="cpu")
    assert plain.converged
    assert units.converged
    assert units.iterations < 2 * plain.iterations
    resistances = np.where(np.arange(b.shape[1]) % 2, 0.0, 10.0 ** np.linspace(-4.0, 4.0, b.shape[1]))
    real = dsolver.solve(whole(g, b, resistances), fed, device="cpu")
    assert real.converged
    assert real.iterations < 70


def test_the_matrix_in_place_of_sources_is_that_of_the_formula() -> None:
    """G + B W Bᵀ and W⁻¹: of a small circuit, from dense matrices."""
    g, b, _ = circuit(20, between=True)
    d = np.array([0.0, 3.0])
    held, inverse = augmented(whole(g, b, d), 2)
    dense = b.toarray()
    w = 1.0 / (d + (dense**2 / g.diagonal()[:, None]).sum(axis=0) / WEIGHT)
    assert np.allclose(inverse.toarray(), np.diag(1.0 / w))
    assert np.allclose(held.toarray(), g.toarray() + dense @ np.diag(w) @ dense.T)


def test_a_source_in_a_unit_whose_square_is_no_number() -> None:
    """Columns of 1e-170: no conductance is infinite."""
    g, b, _ = circuit(20, between=False)
    held, inverse = augmented(whole(g, b @ sp.diags_array([1.0, 1e-170])), 2)
    assert np.isfinite(held.data).all()
    assert (inverse.diagonal() > 0.0).all()


def test_other_last_rows_are_no_multipliers() -> None:
    """Matrices without multipliers: other signs, other orders, long columns, multipliers that are coupled."""
    g, b, _ = circuit(20, between=False)
    a = whole(g, b)
    assert multipliers(a) == 2
    assert multipliers(a[::-1][:, ::-1].tocsr()) == 0
    assert multipliers(whole(g, b, [-1.0, -1.0])) == 0
    assert multipliers(whole(g, sp.csr_array(np.ones((400, 2))))) == 0
    assert multipliers(whole(-g, b)) == 0
    coupled = sp.block_array([[g, b], [b.T, sp.csr_array([[0.0, 1.0], [1.0, 0.0]])]]).tocsr()
    assert multipliers(coupled) == 0
    both = dsolver.matrix(whole(sp.csr_array(abs(g)), b))  # couplings are positive: no algebraic multigrid for these
    assert isinstance(both, dsolver.Problem)
    assert "Direct" in str(dsolver.solve(both, np.ones(402), device="cpu").solved_by)


def test_workers_and_updates() -> None:
    """Circuits on two workers and in `Solver.update`: same bits, a single source, another order of rows, and back."""
    g, b, fed = circuit(100, between=True)
    first, grounded = whole(g, b), sp.csr_array(g + 0.01 * sp.eye_array(10_000))
    single = whole(grounded, b[:, :1])
    order = np.random.default_rng(1).permutation(first.shape[0])
    problem = dsolver.block([[g, b], [b.T, None]], chunks=2)
    with cluster(2) as client:
        there = dsolver.solve(problem, fed, client=client)
        assert np.array_equal(there.x, dsolver.solve(problem, fed, device="cpu").x)
        assert dsolver.solve(single, fed[:10_001], client=client).converged
    with dsolver.Solver(first, device="cpu") as solver:
        before = solver.solve(fed)
        everywhere = np.arange(first.shape[0])
        for factor, rows in ((2.0, everywhere), (1.0, order), (1.0, everywhere)):
            solver.update(factor * first[rows][:, rows])
            after = solver.solve(factor * fed[rows])
            assert after.converged
            assert np.allclose(after.x, before.x[rows], rtol=1e-5, atol=1e-5 * np.abs(before.x).max())
    assert np.array_equal(after.x, before.x)


def test_sources_of_alternating_currents_are_rows_like_others() -> None:
    """Complex circuits: no fields are made of them, whose matrix stands for A in M alone."""
    g, b, fed = circuit(100, between=False, sources=1)
    capacities = 1j * sp.diags_array(10.0 ** np.random.default_rng(1).uniform(-3.0, 0.0, 10_000))
    a = whole(sp.csr_array(g + capacities), b)
    found = dsolver.solve(a, fed, device="cpu")
    exact = sla.spsolve(a.tocsc(), fed.astype(complex))
    assert found.converged
    assert np.linalg.norm(found.x - exact) < 1e-6 * np.linalg.norm(exact)


def test_a_circuit_near_a_function() -> None:
    """Functions whose matrix for M is a circuit: of a function no fields are made."""
    g, b, fed = circuit(100, between=False)
    a = whole(g, b)
    found = dsolver.solve(dsolver.operator(lambda x: a @ x, shape=a.shape[0], M_from=a), fed, device="cpu")
    assert found.converged
    assert np.linalg.norm(a @ found.x - fed) <= 1.01e-8 * np.linalg.norm(fed)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    """Circuits on a GPU: as blocks, for rows that lie there are not looked at for multipliers."""
    g, b, fed = circuit(24, between=False)
    problem = dsolver.block([[g, b], [b.T, None]])
    there = dsolver.solve(problem, fed, M="block-diagonal", device="cuda", precond_dtype="float64")
    here = dsolver.solve(problem, fed, M="block-diagonal", device="cpu")
    assert there.converged
    assert np.allclose(there.x, here.x, rtol=1e-5, atol=1e-6 * np.abs(here.x).max())
