"""Solves give what was recorded of them, to the last bit: see `tests.support.recorded`, which writes the records."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from distributed import Client

from tests.support import recorded
from tests.support.clusters import cluster
from tests.support.recorded import FILES, History, computations, difference

# To the last bit for every problem, those with dense inverses and M="chebyshev" included: `tests.support.recorded`
# tells why no library's kernels take part.
ON_CPU = dict(computations("cpu"))
ON_GPU = dict(computations("cuda"))


@cache
def records(device: str) -> dict[str, list[History]]:
    return recorded.read(device)


@pytest.mark.parametrize(
    ("name", "engine"),
    [*((name, "resident") for name in ON_CPU), *((name, "reference") for name in ON_CPU if name.endswith("2x2x2"))],
)
def test_every_history_is_as_recorded(name: str, engine: str) -> None:
    assert difference(ON_CPU[name](engine=engine, device="cpu"), records("cpu")[name]) == ""


def test_nothing_is_recorded_that_is_not_computed() -> None:
    assert list(records("cpu")) == list(ON_CPU)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with cluster(2) as made:
        yield made


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("hpcg several 2x2x2", "resident"),
        ("smooth 2x2x2", "resident"),
        ("pores with jumps 2x2x2", "resident"),
        ("27 points 2x1x1", "graph"),
        ("27 points float32 2x1x1", "graph"),
    ],
)
def test_so_they_are_on_a_cluster(name: str, engine: str, client: Client) -> None:
    assert difference(ON_CPU[name](engine=engine, device="cpu", client=client), records("cpu")[name]) == ""


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["resident", "reference"])
@pytest.mark.parametrize("name", ON_GPU)
def test_every_history_on_a_gpu_is_as_recorded(name: str, engine: str) -> None:
    if not FILES["cuda"].exists():
        pytest.skip(f"{FILES['cuda'].name} is missing: python -m tests.support.recorded --write --device cuda")
    assert difference(ON_GPU[name](engine=engine, device="cuda"), records("cuda")[name]) == ""


# -- a difference is seen ----------------------------------------------------------------------------------------------


def test_a_difference_of_one_bit_is_told() -> None:
    was: Any = {"b": "00", "status": "converged", "iterations": 1, "residuals": [(1.0).hex(), (0.5).hex()], "x": "aa"}
    assert difference([was], [was]) == ""
    now = {**was, "residuals": [(1.0).hex(), (0.5 + 2.0**-53).hex()]}
    assert difference([now], [was]) == "right-hand side 0: residuals[1] is 0.5000000000000001, was 0.5"
    assert difference([{**was, "residuals": was["residuals"][:1]}], [was]).endswith("1 residuals, were 2")
    assert difference([{**was, "x": "ab"}], [was]).endswith("x is ab, was aa")
    assert difference([{**was, "b": "01"}], [was]).endswith("NumPy makes other random numbers")
    assert difference([was, was], [was]) == "2 histories in place of 1"
