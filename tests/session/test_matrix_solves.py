"""Solves with a general matrix: saves and resuming, measured spans, reports, events, as for grids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.errors import InputError
from dsolver.monitor import events
from dsolver.monitor.pages import report
from dsolver.monitor.spans import read_jsonl
from tests.support.clusters import cluster

ROWS = 300


def laplacian() -> sp.csr_array:
    i, j = np.random.default_rng(0).integers(0, ROWS, (2, 3 * ROWS))
    links = sp.coo_array((1.0 * (i != j), (i, j)), shape=(ROWS, ROWS)).tocsr()
    links = links + links.T
    return sp.csr_array(sp.diags_array(links.sum(axis=1) + 0.1) - links)


A = laplacian()
B = np.random.default_rng(1).standard_normal(ROWS)


def test_spans_events_and_reports_on_a_cluster_and_what_it_saves(tmp_path: Path) -> None:
    heard: list[Any] = []
    ended = events.subscribe(heard.append)
    problem = dsolver.matrix(A, chunks=3, order="rcm")
    saves = dsolver.Checkpoint(tmp_path / "saves", every=0.0)
    with cluster(2) as client:
        options: dict[str, Any] = {"client": client, "device": "cpu", "M": "jacobi", "rtol": 1e-9}
        solution = dsolver.solve(problem, B, spans=tmp_path / "spans.jsonl", checkpoint=saves, **options)
        tasks = dsolver.solve(problem, B, engine="graph", spans=lambda _: None, maxiter=3, **options)
    ended()
    assert solution.converged
    found = tuple(read_jsonl(tmp_path / "spans.jsonl"))
    assert found == solution.spans
    for spans in (found, tasks.spans):
        assert {span.rank for span in spans} == {0, 1}
        assert {"inner", "boundary", "exchange"} <= {span.kind for span in spans}
    start = heard[0]
    assert (start["event"], start["grid"], start["chunks"]) == ("start", [ROWS, 1, 1], [3, 1, 1])
    assert start["iteration_bytes"] > 12 * A.nnz
    report.write(report.read([tmp_path / "spans.jsonl"]), tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000

    here = dsolver.solve(dsolver.matrix(A, chunks=2), B, device="cpu", M="jacobi", rtol=1e-9, resume=saves)
    assert here.residuals[0] < 1e-6 * np.linalg.norm(B)
    assert here.iterations < solution.iterations // 2
    with pytest.raises(InputError, match=r"was saved for the grid \(300, 1, 1\), not for \(20, 1, 1\)"):
        dsolver.solve(A[:20][:, :20], B[:20], resume=saves)
