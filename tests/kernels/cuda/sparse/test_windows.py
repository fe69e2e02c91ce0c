"""Numbers that a chunk sees, and their places in its window, against what NumPy says of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.distributed.halo import row_layout
from dsolver.grid.halo import HaloPlan
from dsolver.kernels import load
from dsolver.kernels.cpu.amg.windows import SPREAD
from dsolver.kernels.formats.csr import Csr

BACKENDS = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
FIRST, ROWS = 2000, 300


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("span", [40, 100 * SPREAD])
def test_a_window_has_own_numbers_and_ghosts(name: str, threads: int, dtype: type, span: int) -> None:
    """Ghosts that lie close to own numbers have a table; far ones are sorted."""
    amg = load(name, threads).amg
    rng = np.random.default_rng(span)
    count = 100_000 if threads > 1 else 60
    near = rng.integers(FIRST, FIRST + ROWS, count)
    far = rng.choice([rng.integers(FIRST - span, FIRST, 50), rng.integers(FIRST + ROWS, FIRST + ROWS + span, 50)], 50)
    numbers: npt.NDArray[np.int64] = np.concatenate([near, far.ravel()]).astype(dtype)
    rng.shuffle(numbers)
    ghosts = np.unique(numbers[(numbers < FIRST) | (numbers >= FIRST + ROWS)]).astype(np.int64)
    window = np.sort(np.concatenate([ghosts, np.arange(FIRST, FIRST + ROWS)]))
    seen = amg.asarray(numbers)
    where = amg.outside(seen, FIRST, FIRST + ROWS)
    assert load(name).to_host(where).tolist() == [
        i for i, n in enumerate(numbers.tolist()) if not FIRST <= n < FIRST + ROWS
    ]
    assert load(name).to_host(amg.distinct(seen[where])).tolist() == ghosts.tolist()
    below = int(np.searchsorted(ghosts, FIRST))
    found = load(name).to_host(amg.places(seen, FIRST, ROWS, amg.asarray(ghosts), below))
    assert found.dtype == np.int32
    assert (window[found] == numbers).all()
    for end in (0, int(numbers.max()) + 1):
        around, lower = amg.ghosts([seen[:30], seen[30:]], FIRST, FIRST + ROWS, end)
        assert around.dtype == np.int64
        assert load(name).to_host(around).tolist() == ghosts.tolist()
        assert lower == below
    names = amg.relabeled(amg.asarray(found), ROWS, below, FIRST, amg.asarray(ghosts))
    assert load(name).to_host(names).tolist() == numbers.tolist()
    slots = ROWS + np.arange(len(ghosts), dtype=np.int32)
    named = load(name).to_host(amg.relabeled(amg.asarray(found), ROWS, below, 0, amg.asarray(slots)))
    inside = (numbers >= FIRST) & (numbers < FIRST + ROWS)
    expected = np.where(inside, numbers - FIRST, ROWS + np.searchsorted(ghosts, numbers))
    assert named.dtype == np.int32
    assert named.tolist() == expected.tolist()


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("kind", [np.int8, np.int64, np.float64])
def test_values_of_a_window_are_own_ones_among_those_of_ghosts(name: str, kind: type) -> None:
    backend = load(name)
    amg, ghosts = backend.amg, np.array([7.0, 8.0, 9.0])
    own: npt.NDArray[Any] = np.arange(5, dtype=kind)
    sends = tuple((to, amg.asarray(np.array(rows))) for to, rows in ((1, [4, 1]), (2, [3])))
    plan = row_layout(backend, HaloPlan(sends=sends, receives=()))
    packed = backend.zeros(3)
    backend.kernel("pack")(plan, amg.asarray(own), packed)
    assert backend.to_host(packed).tolist() == [4.0, 1.0, 3.0]
    for below in range(4):
        found = backend.to_host(amg.around(amg.asarray(own), amg.asarray(ghosts), 5, below))
        assert found.dtype == kind
        assert found.tolist() == [*ghosts[:below], *range(5), *ghosts[below:]]


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_numbers_of_a_range_that_are_named(name: str, dtype: type) -> None:
    backend = load(name)
    numbers: npt.NDArray[Any] = np.array([17, 12, 17, 15, 19, 12], dtype=dtype)
    found = backend.to_host(backend.amg.named(backend.amg.asarray(numbers), 10, 10)())
    assert found.dtype == np.int64
    assert found.tolist() == [2, 5, 7, 9]
    assert not len(backend.amg.named(backend.amg.asarray(numbers[:0]), 10, 10)())
    places: npt.NDArray[Any] = np.array([0, 1, 2, 5, 6, 7, 1], dtype=np.int32)
    slots = backend.to_host(backend.amg.slots(backend.amg.asarray(places), 4, 2))
    assert slots.tolist() == [4, 5, 0, 3, 6, 7, 5]


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("below", [0, 3, 6])
def test_ghosts_that_are_named_are_told_from_others(name: str, below: int) -> None:
    backend = load(name)
    amg, rows, ghosts = backend.amg, 10, np.array([1, 2, 4, 5, 80, 90])
    named = [0, 3, 5]
    slots = [slot if slot < below else slot + rows for slot in named]
    places = np.array([below + 2, *slots, below + 9, slots[0]], dtype=np.int32)
    found, lower, names = amg.used(amg.asarray(places), rows, below, amg.asarray(ghosts))
    assert backend.to_host(found).tolist() == ghosts[named].tolist()
    assert lower == sum(slot < below for slot in named)
    expected = [at if slot < below else at + rows for at, slot in enumerate(named)]
    assert backend.to_host(names)[named].tolist() == expected
    numbers = np.insert(np.where(np.isin(np.arange(6), named), ghosts, -1), below, np.arange(-rows, 0))
    kept, before = amg.numbered_ghosts(amg.asarray(numbers), rows, below)
    assert backend.to_host(kept).tolist() == ghosts[named].tolist()
    assert before == lower


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("before", [0, 1, 2])
def test_rows_come_between_others_with_places_in_a_larger_window(name: str, before: int) -> None:
    backend = load(name)
    amg, rng, shared = backend.amg, np.random.default_rng(before), {"first": 20, "rows": 10}
    windows = [
        SimpleNamespace(**shared, ghosts=amg.asarray(np.array(ghosts)), below=sum(n < 20 for n in ghosts))
        for ghosts in ([18, 30], [3, 5, 18, 19, 30, 31, 32])
    ]
    numbers = [np.sort(np.append(backend.to_host(window.ghosts), np.arange(20, 30))) for window in windows]

    def made(rows: int, columns: Any) -> Csr:
        start = np.append(0, np.cumsum(rng.integers(0, 4, rows)))
        return Csr(start, rng.choice(columns, start[-1]), rng.standard_normal(start[-1]))

    own, others = made(9, np.arange(12, dtype=np.int32)), [made(rows, numbers[1]) for rows in (3, 0, 2)]
    parts = [*others[:before], own._replace(columns=numbers[0][own.columns]), *others[before:]]
    mine, *last = (Csr(*map(amg.asarray, part)) for part in (own, *others))
    found = Csr(*map(backend.to_host, amg.stacked(last[:before], mine, last[before:], *windows)))
    assert found.start.tolist() == [0, *np.cumsum(np.concatenate([np.diff(part.start) for part in parts]))]
    assert numbers[1][found.columns].tolist() == np.concatenate([part.columns for part in parts]).tolist()
    assert found.values.tolist() == np.concatenate([part.values for part in parts]).tolist()


@pytest.mark.parametrize("name", BACKENDS)
def test_a_window_without_ghosts(name: str) -> None:
    backend = load(name)
    numbers, none = backend.amg.asarray(np.array([4, 3, 3])), backend.amg.asarray(np.zeros(0, dtype=np.int64))
    assert backend.to_host(backend.amg.places(numbers, 3, 2, none, 0)).tolist() == [1, 0, 0]
    assert not len(backend.amg.outside(none, 0, 5))
    assert not len(backend.amg.distinct(none))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("ghosts", [[7], [1, 10**9]])
def test_a_number_that_a_window_does_not_hold_has_any_place(name: str, ghosts: list[int]) -> None:
    """Numbers below zero, of points that have none, stay -1."""
    backend = load(name)
    numbers = backend.amg.asarray(np.array([-1, 4, ghosts[-1], 10**10]))
    found = backend.to_host(
        backend.amg.places(numbers, 3, 2, backend.amg.asarray(np.array(ghosts)), sum(g < 3 for g in ghosts))
    )
    assert found[:3].tolist() == [-1, 1 + sum(g < 3 for g in ghosts), len(ghosts) + 1]
