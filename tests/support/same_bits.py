"""Bits of a solve on every engine, in this process and on a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from distributed import Client

import dsolver


def check_same_bits(problem: Any, b: Any, client: Client, **options: Any) -> dsolver.Solution:
    """Refuse a solve whose residuals or x differ between engines, here or on the client's workers; the one here."""
    given: dict[str, Any] = {"device": "cpu", **options}
    here = dsolver.solve(problem, b, client=False, engine="reference", **given)
    assert dsolver.solve(problem, b, client=False, engine="resident", **given).residuals == here.residuals
    for engine in ("resident", "graph"):
        there = dsolver.solve(problem, b, client=client, engine=engine, **given)
        assert there.residuals == here.residuals, engine
        assert np.array_equal(there.x, here.x), engine
    return here
