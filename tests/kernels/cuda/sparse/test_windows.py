"""Numbers that a chunk sees, and their places in its window, against what NumPy says of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.kernels import load
from dsolver.kernels.cpu.amg.windows import SPREAD

BACKENDS = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
FIRST, ROWS = 1000, 300


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
    around, lower = amg.ghosts(seen, FIRST, FIRST + ROWS)
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
def test_a_window_without_ghosts(name: str) -> None:
    backend = load(name)
    numbers, none = backend.amg.asarray(np.array([4, 3, 3])), backend.amg.asarray(np.zeros(0, dtype=np.int64))
    assert backend.to_host(backend.amg.places(numbers, 3, 2, none, 0)).tolist() == [1, 0, 0]
    assert not len(backend.amg.outside(none, 0, 5))
    assert not len(backend.amg.distinct(none))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("ghosts", [[7], [1, 10**9]])
def test_a_number_that_a_window_does_not_hold_has_any_place(name: str, ghosts: list[int]) -> None:
    """As -1, for points that have no number, whose places nobody reads."""
    backend = load(name)
    numbers = backend.amg.asarray(np.array([-1, 4, ghosts[-1], 10**10]))
    found = backend.to_host(
        backend.amg.places(numbers, 3, 2, backend.amg.asarray(np.array(ghosts)), sum(g < 3 for g in ghosts))
    )
    assert found[1:3].tolist() == [1 + sum(g < 3 for g in ghosts), len(ghosts) + 1]
