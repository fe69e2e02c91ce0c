"""Arrays of this process that workers of its host read where they lie."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from distributed import Client

import dsolver
from dsolver.engines.dask import lending
from dsolver.engines.spmd import client as gang
from dsolver.kernels.lent_arrays import Lender
from dsolver.problems import diffusion
from tests.clusters import cluster

GRID = (40, 40, 48)


@pytest.fixture(scope="module")
def apart() -> Iterator[Client]:
    with cluster(2, processes=True) as client:
        yield client


def arrays() -> tuple[Any, Any, Any]:
    """κ, b and a first guess, the last of which is no part of memory without gaps."""
    rng = np.random.default_rng(0)
    return rng.uniform(0.5, 2.0, GRID), rng.standard_normal(GRID), rng.standard_normal((*GRID, 2))[..., 0]


def solved(client: Any, chunks: Any) -> dsolver.Solution:
    kappa, b, guess = arrays()
    problem = diffusion(GRID, kappa, chunks=chunks)
    return dsolver.solve(problem, b, x0=guess, M="jacobi", maxiter=20, client=client, device="cpu")


@pytest.mark.parametrize("chunks", [(2, 1, 1), (1, 1, 2), (1, 2, 2)])
def test_arrays_are_read_by_their_owners_and_give_the_same_bits(
    apart: Client, chunks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang, "scatter_to_owners", None)  # nothing travels
    monkeypatch.setattr("dsolver.kernels.lent_arrays.WORTH", 1)
    found, known = solved(apart, chunks), solved(False, chunks)
    assert found.residuals == known.residuals
    assert np.array_equal(found.x, known.x)


def test_workers_that_cannot_read_get_copies_and_the_log_says_why(
    apart: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lending, "_known", {})
    monkeypatch.setattr(lending, "here", lambda: Lender(pid=1 << 22, place=8, secret=b""))
    with caplog.at_level(logging.INFO, "dsolver"):
        found = solved(apart, (2, 1, 1))
    assert np.array_equal(found.x, solved(False, (2, 1, 1)).x)
    assert "gets copies: [Errno 3] process 4194304 cannot be read: No such process" in caplog.text
