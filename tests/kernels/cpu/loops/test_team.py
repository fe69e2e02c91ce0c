"""Threads that share loops."""

from __future__ import annotations

import multiprocessing
from threading import Event, Thread

import pytest

from dsolver.kernels.cpu.loops.team import Helper, Team
from tests.support.waiting import PATIENCE


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # from Python 3.12 on
def test_a_forked_process_has_threads_of_its_own() -> None:
    team = Team(2)

    def summed() -> int:
        return sum(team.run(lambda first, last: sum(range(first, last)), 0, 100, worth=1))

    assert summed() == 4950
    child = multiprocessing.get_context("fork").Process(target=lambda: exit(summed() - 4950))
    child.start()
    child.join(PATIENCE)
    try:
        assert child.exitcode == 0
    finally:
        child.kill()


@pytest.mark.parametrize("wrong", [0, 2])
def test_what_a_part_raises_comes_to_the_caller_and_the_team_goes_on(wrong: int) -> None:
    team = Team(3)

    def part(first: int, last: int) -> int:
        if first == wrong:
            raise ValueError(f"part {first}")
        return last

    with pytest.raises(ValueError, match=f"part {wrong}"):
        team.run(part, 0, 3, worth=1)
    assert team.run(lambda first, last: (first, last), 0, 9, worth=1) == [(0, 3), (3, 6), (6, 9)]


def test_a_part_may_be_cut_again_among_the_threads_that_are_free() -> None:
    team = Team(2)

    def inside(first: int, last: int) -> int:
        return sum(map(sum, team.run(range, first, last, worth=1)))

    assert sum(team.run(inside, 0, 100, worth=1)) == 4950


def test_each_piece_is_worked_on_whoever_is_free() -> None:
    team = Team(2)
    assert team.each(lambda number: sum(team.each(lambda inside: number * inside, 5)), 2) == [0, 10]


def test_rooms_are_used_again_until_they_are_let_go() -> None:
    team = Team()
    room = team.room(10)
    team.leave(room)
    assert team.room(5) is room
    team.leave(room)
    assert len(team.room(11).values) == 20, "a room that must grow is twice as large: it soon need not grow again"
    team.leave(room)
    assert len(team.room(50).values) == 50
    team.leave(room)
    team.clear()
    assert team.room(5) is not room


def test_a_team_may_tell_what_is_worth_a_thread_in_place_of_loops() -> None:
    def ends(first: int, last: int) -> tuple[int, int]:
        return first, last

    assert Team(3).run(ends, 0, 6, worth=4) == [(0, 6)]
    assert Team(3, worth=2).run(ends, 0, 6, worth=4) == [(0, 2), (2, 4), (4, 6)]


def test_a_helper_that_is_dismissed_before_it_begins_ends_after_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while a team was about to begin became an error of a lock."""
    started: list[Thread] = []

    def wait(thread: Thread) -> None:
        started.append(thread)

    monkeypatch.setattr(Thread, "start", wait)
    helper, done = Helper(), Event()
    monkeypatch.undo()
    helper.give(done.set)
    helper.dismiss()
    (thread,) = started
    thread.start()
    thread.join(PATIENCE)
    assert done.is_set()
    assert not thread.is_alive()
