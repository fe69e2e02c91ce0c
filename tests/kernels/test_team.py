"""Threads that share loops."""

from __future__ import annotations

import multiprocessing

import pytest

from dsolver.kernels.cpu.loops.team import Team
from tests.patience import PATIENCE


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
