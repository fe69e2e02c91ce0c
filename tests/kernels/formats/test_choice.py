"""Formats that matrices get."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dsolver.kernels.cpu import octets
from dsolver.kernels.cpu.csr.statistics import statistics
from dsolver.kernels.cpu.vectors import vectors
from dsolver.kernels.formats.choice import cpu_choice, gpu_choice
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.statistics import MOST_SAMPLES, STRETCH, samples_of
from tests.kernels.general.test_formats import lattice, long_tail

ROWS = 6000


def uneven(mean: float, deviation: float, reach: int) -> Any:
    """Rows of random lengths with columns within `reach` of the diagonal."""
    rng = np.random.default_rng(2)
    length = np.clip(rng.normal(mean, deviation, ROWS), 1, 3 * mean).astype(np.int64)
    row = np.repeat(np.arange(ROWS), length)
    columns = (row + rng.integers(-reach, reach, len(row))) % ROWS
    return sparse.coo_matrix((np.ones(len(row)), (row, columns)), shape=(ROWS, ROWS))


def compressed(matrix: Any) -> Csr:
    made = sparse.csr_matrix(matrix)
    made.sum_duplicates()
    return Csr(made.indptr.astype(np.int64), made.indices, made.data)


def choices(matrix: Any) -> tuple[Any, Any]:
    found = statistics(compressed(matrix), matrix.shape[1])
    return gpu_choice(found), cpu_choice(found)


def test_rows_of_a_lattice_become_runs() -> None:
    gpu, cpu = choices(lattice(24))
    assert (gpu.name, gpu.block, gpu.window) == (cpu.name, cpu.block, cpu.window) == ("slices", 1, 1)


def test_blocks_on_a_lattice_are_stored_as_blocks() -> None:
    gpu, _ = choices(sparse.kron(lattice(16), np.ones((3, 3))))
    assert (gpu.name, gpu.block) == ("slices", 3)


def test_long_tails_are_balanced() -> None:
    gpu, cpu = choices(long_tail(3000))
    assert gpu.name == cpu.name == "chunks"


def test_one_long_row_that_no_sample_has_is_seen() -> None:
    arrow = sparse.lil_matrix(sparse.eye(40_000))
    arrow[-1] = 1.0
    assert choices(arrow)[0].why == "some rows are far longer than the others"


def test_rows_of_similar_lengths_are_sorted_in_windows() -> None:
    gpu, cpu = choices(uneven(15.0, 3.0, 200))
    assert gpu.window == STRETCH
    assert cpu.name == "octets"


def test_rows_of_different_lengths_are_cut_into_chunks() -> None:
    gpu, cpu = choices(uneven(30.0, 25.0, 200))
    assert gpu.name == cpu.name == "chunks"
    assert cpu.why == "rows of different lengths"


@pytest.mark.parametrize(
    ("mean", "deviation", "name"), [(35.0, 1.0, "chunks"), (35.0, 7.0, "octets"), (70.0, 14.0, "chunks")]
)
def test_a_cpu_takes_long_rows_one_after_the_other(mean: float, deviation: float, name: str) -> None:
    _, cpu = choices(uneven(mean, deviation, 2000))
    assert (cpu.name, cpu.why == "long rows") == (name, name == "chunks")


@pytest.mark.parametrize(("length", "name"), [(7, "rows"), (15, "chunks")])
def test_a_cpu_takes_short_rows_as_they_are_where_columns_lie_far_apart(length: int, name: str) -> None:
    rng, wide = np.random.default_rng(6), 300_000
    row = np.repeat(np.arange(ROWS), length)
    _, cpu = choices(sparse.coo_matrix((np.ones(len(row)), (row, rng.integers(0, wide, len(row)))), shape=(ROWS, wide)))
    assert cpu.name == name


def test_holes_of_octets_are_foretold() -> None:
    rows = compressed(uneven(15.0, 3.0, 200))
    made = octets.made(rows, ROWS, vectors(1, "float64"))
    assert statistics(rows, ROWS).stored[1].octets == len(made.values) / len(rows.values)


@pytest.mark.parametrize(("mean", "threads"), [(50.0, 8), (100.0, 16), (200.0, 32)])
def test_threads_share_long_rows(mean: float, threads: int) -> None:
    gpu, _ = choices(uneven(mean, 0.2 * mean, 2000))
    assert (gpu.name, gpu.threads) == ("rows", threads)


def test_statistics_are_those_of_the_rows() -> None:
    rows = compressed(long_tail(1500))
    found, lengths = statistics(rows, 1500), np.diff(rows.start)
    assert found.longest == lengths.max()
    assert found.mean == pytest.approx(lengths.mean())
    assert found.variance == pytest.approx(lengths.var())
    widths = np.pad(lengths, (0, -len(lengths) % 32)).reshape(-1, 32).max(axis=1)
    assert found.stored[1].padding == pytest.approx(32 * widths.sum() / lengths.sum())


@pytest.mark.parametrize("rows", [0, 1, 1000, MOST_SAMPLES * STRETCH, MOST_SAMPLES * STRETCH + 1, 10**7 + 3])
def test_samples_lie_within_the_rows(rows: int) -> None:
    samples = samples_of(rows)
    assert (samples.count - 1) * samples.stride + samples.stretch <= rows
    assert samples.stride % 32 == 0
    assert samples.count == 1 or samples.stride >= samples.stretch


def test_a_matrix_without_rows_has_a_format() -> None:
    gpu, cpu = choices(sparse.csr_matrix((0, 0)))
    assert gpu.name == cpu.name == "chunks"
