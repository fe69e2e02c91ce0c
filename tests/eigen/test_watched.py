"""Events of searches for eigenvalues and of least squares, and arguments that these lack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver import problems
from dsolver.eigen import search
from dsolver.engines.running_program import RunningProgram
from dsolver.engines.spmd.client import SpmdProgram
from dsolver.errors import InputError
from dsolver.monitor import events, watch
from dsolver.monitor.spans import from_columns
from dsolver.program.eigen import EigenProgram
from tests.support.clusters import cluster

GRID = (12, 12, 12)
ROWS = 200


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[events.Message]]:
    """Messages of a solve that is called for each superstep, with spans of all but the first, and all states."""
    for name in ("MEASURE_AFTER", "MEASURE_EVERY", "PUBLISH_EVERY"):
        monkeypatch.setattr(watch, name, -1.0)
    monkeypatch.setattr(RunningProgram, "stride", 0.0)
    messages: list[events.Message] = []
    unsubscribe = events.subscribe(messages.append)
    yield messages
    unsubscribe()


def told(heard: list[events.Message], what: str, phase: str) -> None:
    """Check the messages of the newest solve: start, states, spans with products, end."""
    assert heard[0]["event"] == "start"
    assert heard[0]["what"] == what
    assert heard[0]["iteration_bytes"] is None
    assert heard[-1]["event"] == "end"
    states, measured = ([m for m in heard if m["event"] == event] for event in ("state", "spans"))
    assert {m["phase"] for m in states} == {phase}
    assert [m["iteration"] for m in states] == sorted({m["iteration"] for m in states})
    assert heard[-1]["iteration"] == states[-1]["iteration"]
    assert measured
    for message in measured:
        spans = from_columns(message["spans"])
        assert any("spmv" in span.name for span in spans)
        assert {span.iteration for span in spans} == {message["iteration"]}
    heard.clear()


def matrix() -> Any:
    random = np.random.default_rng(0)
    return sp.random_array((ROWS, 60), density=0.1, rng=random).tocsr()


@pytest.mark.parametrize("engine", ["resident", "reference"])
def test_searches_for_eigenvalues_are_watched(
    heard: list[events.Message], monkeypatch: pytest.MonkeyPatch, engine: Any
) -> None:
    """Spans change no bit; without them the first call, of one iteration, tells how many another one has time for."""
    plain = dsolver.eigsh(problems.poisson7(GRID), 2, engine=engine, device="cpu")
    told(heard, "eigenvalues", "LOBPCG")
    monkeypatch.setattr(watch, "MEASURE_AFTER", 1e9)
    monkeypatch.setattr(search, "CALL_SECONDS", 60.0)
    alone = dsolver.eigsh(problems.poisson7(GRID), 2, engine=engine, device="cpu")
    assert not [m for m in heard if m["event"] == "spans"]
    states = [m["iteration"] for m in heard if m["event"] == "state"]
    assert states == [1, alone.iterations]
    assert np.array_equal(alone.values, plain.values)


@pytest.mark.parametrize("method", [dsolver.lsmr, dsolver.cgls])
def test_least_squares_are_watched(heard: list[events.Message], method: Any) -> None:
    method(matrix(), np.ones(ROWS), device="cpu")
    told(heard, "least squares", method.__name__.upper())


def test_both_are_watched_on_clusters(heard: list[events.Message], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpmdProgram, "stride", 0.0)
    with cluster(2) as client:
        for engine in ("resident", "graph"):
            options: dict[str, Any] = {"client": client, "device": "cpu", "engine": engine}
            dsolver.eigsh(problems.poisson7(GRID, chunks=(2, 1, 1)), 1, M="jacobi", maxiter=4, **options)
            assert len(heard[0]["workers"]) == 2
            told(heard, "eigenvalues", "LOBPCG")
            dsolver.lsmr(matrix(), np.ones(ROWS), chunks=2, maxiter=6, **options)
            told(heard, "least squares", "LSMR")


def test_a_search_that_fails_is_told(heard: list[events.Message], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(EigenProgram, "advance", fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        dsolver.eigsh(problems.poisson7(GRID), 2, device="cpu")
    assert [m["event"] for m in heard] == ["start", "end"]
    assert (heard[-1]["status"], heard[-1]["error"]) == ("failed", "RuntimeError: on purpose")


@pytest.mark.gpu
def test_on_a_gpu(heard: list[events.Message]) -> None:
    """Operators that were recorded have spans, too."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(ROWS, ROWS)).tocsr()
    dsolver.eigsh(line, 2, M="jacobi", maxiter=5, device="cuda")
    told(heard, "eigenvalues", "LOBPCG")


@pytest.mark.parametrize(
    ("name", "instead"), [("checkpoint", "save .* maxiter= has ended.* and give"), ("resume", "maxiter= has ended as")]
)
def test_checkpoints_are_refused_with_what_to_do(name: str, instead: str) -> None:
    refused: dict[str, Any] = {name: "a file"}
    calls: tuple[tuple[Any, tuple[Any, ...], str], ...] = (
        (dsolver.eigsh, (problems.poisson7(GRID),), "v0="),
        (dsolver.lsmr, (matrix(), np.ones(ROWS)), "x0="),
        (dsolver.cgls, (matrix(), np.ones(ROWS)), "x0="),
    )
    for function, given, start in calls:
        with pytest.raises(InputError, match=rf"^{function.__name__}\(\) takes no {name}=: .*{instead}.*{start}"):
            function(*given, **refused)
