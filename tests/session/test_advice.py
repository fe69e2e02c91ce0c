"""Advice on solves that have not converged: for the cause that was seen, and never what was in use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.preconditioners import Algebraic, Chebyshev, Direct, Jacobi
from dsolver.preconditioners.registry import NAMED
from dsolver.session.solving.advice import Case, advice_on
from dsolver.status import Status


def lattice(n: int) -> sp.csr_array:
    line = sp.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    return sp.csr_array(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line))


def wind(n: int) -> sp.csr_array:
    return sp.csr_array(lattice(n) + 0.1 * sp.diags_array(np.ones(n * n - 1), offsets=1))


def plate(n: int) -> sp.csr_array:
    return sp.csr_array(lattice(n) @ lattice(n))


LATTICE, WIND = lattice(40), wind(40)


def advice(a: sp.csr_array = LATTICE, **more: Any) -> str:
    case: dict[str, Any] = {
        "status": Status.MAX_ITERATIONS,
        "problem": dsolver.matrix(a),
        "method": "cg",
        "used": (Chebyshev(),),
        "restart": None,
        "residuals": [1.0] * 101,
        "true_residual": 1.0,
        "b_norm": 1.0,
        "limit": 1e-8,
    }
    return advice_on(Case(**{**case, **more}))


def test_more_iterations_are_advised_where_the_residual_falls_and_nowhere_else() -> None:
    falling = [0.9**k for k in range(101)]
    assert "75 more are needed. Raise maxiter" in advice(residuals=falling, true_residual=falling[-1])
    assert "1 more are needed" in advice(residuals=[1.0, 1e-7, 2e-8], true_residual=2e-8)
    assert "8 more are needed" in advice(residuals=[1.0, 0.1], true_residual=0.1, limit=3e-9), "after one iteration"
    assert "no iteration: raise maxiter" in advice(residuals=[1.0])
    assert "in the first iteration: raise maxiter" in advice(residuals=[1.0, 1.0])
    assert "in the first iterations: raise maxiter" in advice(residuals=[1.0, 1.5, 1.2, 1.1])
    for residuals in ([1.0] * 101, [2.0**k for k in range(41)], [1.0 - 1e-5 * k for k in range(101)]):
        text = advice(residuals=residuals, true_residual=residuals[-1])
        assert "maxiter" not in text
        assert "more iterations are no help" in text


@pytest.mark.parametrize(
    ("a", "used", "expected"),
    [
        (LATTICE, (Chebyshev(),), "Use M='amg' or 'direct'."),
        (LATTICE, (Chebyshev(), Algebraic()), "Use M='direct'."),
        (WIND, (Jacobi(),), "Use M='amg' or 'ilu0' or 'direct'."),
        (WIND, (Direct(),), "Use M='amg' or 'ilu0'."),
    ],
)
def test_what_was_in_use_is_not_advised(a: sp.csr_array, used: tuple[Any, ...], expected: str) -> None:
    assert expected in advice(a, used=used)
    assert "'auto'" not in advice(a, used=used)


def test_causes_have_advice_of_their_own() -> None:
    assert "Loosen rtol" in advice(status=Status.STAGNATED, true_residual=1e-7)
    assert "Loosen rtol" not in advice(status=Status.STAGNATED, true_residual=1e-3)
    assert "no help. Loosen rtol" in advice(true_residual=1e-13)
    assert "nullspace" in advice(status=Status.STAGNATED, true_residual=1e-3)
    called = dsolver.operator(lambda x: x, shape=1600, symmetric=True)
    assert "null vectors out of b" in advice(problem=called, status=Status.STAGNATED, true_residual=1e-3)
    assert "rigid_body_modes" in advice(plate(8), used=(Algebraic(),))
    assert "rigid_body_modes" not in advice(LATTICE, used=(Algebraic(),))
    assert "Leave restart=5 out" in advice(WIND, method="gmres", restart=5)
    assert "restart" not in advice(WIND, method="gmres")
    assert "'gmres'" in advice(WIND, method="bicgstab")
    assert advice(status=Status.INCOMPATIBLE_RHS) == Status.INCOMPATIBLE_RHS.advice


def test_what_rounding_holds_up_is_not_for_another_preconditioner() -> None:
    found = dsolver.solve(LATTICE, np.ones(1600), M="amg", rtol=0.0, device="cpu")
    assert found.status is Status.STAGNATED
    assert "loosen rtol, or raise atol" in found.advice
    assert "M=" not in found.advice


def test_a_solution_has_it() -> None:
    a = wind(12)
    b = np.random.default_rng(0).standard_normal(144)
    short = dsolver.solve(a, b, M="jacobi", restart=3, maxiter=20, device="cpu")
    assert not short.converged
    assert "Leave restart=3 out" in short.advice
    assert dsolver.solve(a, b, device="cpu").advice == Status.CONVERGED.advice


def test_it_needs_no_preconditioner_that_registers_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(NAMED, "hpcg", raising=False)
    short = dsolver.solve(dsolver.problems.poisson5((16, 16)), np.ones((16, 16)), M=None, maxiter=1)
    assert "M='auto'" in short.advice


def test_a_breakdown_with_all_that_rounding_leaves_is_no_breakdown() -> None:
    """A tolerance of zero: factors leave nothing that GMRES could divide by."""
    found = dsolver.solve(lattice(12), np.ones(144), rtol=0.0, M="direct", device="cpu")
    assert found.status is Status.STAGNATED
    assert "all that rounding leaves to reach" in found.advice
