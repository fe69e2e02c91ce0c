"""Answers that set-up on a GPU foresees: those of the set-up before, compared with the true ones at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from dsolver.kernels import Backend, load
from dsolver.kernels.deferred import UnforeseenError

pytestmark = pytest.mark.gpu


def larger(backend: Backend, value: float) -> bool:
    """Whether a number on the device is larger than 1, which set-up may foresee."""
    return backend.answer(lambda number: bool(number > 1.0), [backend.xp.full(1, value)])


def test_answers_of_the_last_set_up_are_taken_and_compared() -> None:
    """Answers that are the same twice are foreseen, and one that was wrong when it has been the same twice again."""
    backend = load("cuda")

    def set_up(*values: float, key: Any = "test of answers") -> list[bool]:
        with backend.foreseeing(key) as foresight:
            found = [larger(backend, value) for value in values]
            foresight.confirm()
            assert larger(backend, 2.0)  # which is waited for again
        return found

    assert set_up(3.0, 0.0) == [True, False]
    assert set_up(2.0, 1.0) == [True, False]
    with pytest.raises(UnforeseenError):
        set_up(0.0, 0.0)
    for _ in range(3):
        assert set_up(0.0, 0.0) == [False, False]
    with pytest.raises(UnforeseenError):  # more questions than there were
        set_up(0.0, 0.0, 0.0)
    assert set_up(2.0, 0.0) == [True, False]
    assert set_up(0.0, 0.0) == [False, False]  # not foreseen: these two differ
    assert set_up(2.0, key="another") == [True]


@pytest.mark.parametrize("chunks", [1, 2])
def test_an_error_behind_a_wrong_answer_is_none(chunks: int) -> None:
    """Another question than the answer was given to may fail in any way: set-up begins anew. True errors stay."""
    backend, owned = load("cuda"), range(chunks)

    def agree(own: Mapping[int, Sequence[float]]) -> list[tuple[float, ...]]:
        return [tuple(own[number]) for number in owned]

    def set_up(value: float, *, late: bool, wrong: bool = False) -> str:
        kind = f"test of errors {late}", owned, agree if chunks > 1 else None
        with backend.confirming() if late else nullcontext(), backend.foreseeing(*kind):
            found = larger(backend, value)
            if wrong:
                raise ValueError("a true one")
            return {True: "larger"}[found]

    for late in (False, True):
        assert [set_up(3.0, late=late) for _ in range(2)] == ["larger", "larger"]
        with pytest.raises(ValueError, match="a true one"):
            set_up(3.0, late=late, wrong=True)
        with pytest.raises(UnforeseenError):
            set_up(0.0, late=late, wrong=True)
        with pytest.raises(KeyError):
            set_up(0.0, late=late)


def test_what_is_foreseen_may_be_compared_later() -> None:
    """Behind the end of a set-up the host goes on, until what is around it ends."""
    backend = load("cuda")

    def set_up(value: float) -> tuple[bool, list[bool]]:
        with backend.confirming() as is_open:
            with backend.foreseeing("test of a late comparison"):
                found = larger(backend, value)
            after = [is_open()]
            after.append(larger(backend, 2.0))
        return found, [*after, is_open()]

    assert set_up(3.0) == (True, [True, True, False])
    assert set_up(3.0) == (True, [True, True, False])
    with pytest.raises(UnforeseenError):
        set_up(0.0)
    assert set_up(0.0) == (False, [True, True, False])
    with backend.foreseeing("test of a late comparison"):  # which ends by itself
        assert larger(backend, 2.0)
    assert larger(backend, 2.0)


def test_kernels_that_start_in_order_are_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from cupy import cuda

    from dsolver.kernels.cuda.launch.foresight import ready_to_read, recorded

    backend, waits, synchronize = load("cuda"), [0], cuda.Stream.synchronize

    def counted(stream: Any) -> None:
        waits[0] += 1
        synchronize(stream)

    monkeypatch.setattr(type(cuda.get_current_stream()), "synchronize", counted)
    with backend.in_order():
        for _ in range(3):
            backend.synchronize()
            assert not ready_to_read()
        with recorded():  # as those that run later
            assert ready_to_read()
        assert waits == [0]
    assert waits == [1]
    assert ready_to_read()
    backend.synchronize()
    assert waits == [2]


def test_what_one_of_several_ranks_has_not_foreseen_is_foreseen_by_none() -> None:
    """The other rank is played: it has trusted answers, or another's, and has been right, or wrong."""
    backend, other = load("cuda"), {"mark": 0.0, "well": 1.0, "part": 1.0}
    told: list[tuple[float, ...]] = []

    def agree(own: Mapping[int, Sequence[float]]) -> list[tuple[float, ...]]:
        (mine,) = own.values()
        told.append(tuple(mine))
        started = len(mine) > 1
        mark = mine[0] if other["mark"] else 0.0
        return [tuple(mine), (other["well"], other["part"]) if started else (mark,)]

    asked: list[float] = []

    def set_up(value: float) -> bool:
        def ask() -> bool:
            asked.append(value)
            return value + other["part"] > 3.0

        with backend.foreseeing("test of ranks", [0], agree) as foresight:
            numbers = {0: [backend.xp.full(1, value)]}
            found = backend.answer_of_all(ask, lambda total: bool(total > 3.0), numbers)
            assert larger(backend, 2.0)
            foresight.confirm()
        return found

    assert set_up(2.5)
    assert set_up(2.5)
    assert asked == [2.5, 2.5]  # the other one knows nothing
    other["mark"] = 1.0
    assert set_up(2.75)
    assert asked == [2.5, 2.5]
    assert told[-1] == (1.0, 2.75)
    other["part"] = 0.0
    with pytest.raises(UnforeseenError):  # the sum is another
        set_up(2.75)
    for _ in range(2):
        assert not set_up(2.75)
    assert len(asked) == 4
    assert not set_up(2.5)
    other["well"] = 0.0
    with pytest.raises(UnforeseenError):  # what the other one knows alone is another
        set_up(2.5)
    assert len(asked) == 4
