"""Notices and help while kernels are compiled for the first time on a machine."""

from __future__ import annotations

import gc
import io
import logging
import os
import subprocess
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LaplacianNd

import dsolver
from dsolver.kernels import first_use as words
from dsolver.kernels.cpu import ahead, vectors
from dsolver.kernels.cpu.amg import box_rows, open_rows
from dsolver.kernels.cpu.csr import look
from dsolver.kernels.cpu.lattice import interpolation
from dsolver.kernels.cpu.loops import first_use
from dsolver.kernels.cpu.loops.first_use import KINDS, MOST_HELPERS, FirstUse


def test_loops_that_tell_a_kind_are_known_by_their_modules() -> None:
    told = {loop.py_func.__module__: kind for kind, loops in ahead.LOOPS.items() for loop, _ in loops()}
    told |= {rows.__name__: "algebraic" for rows in (box_rows, open_rows)}
    assert KINDS.items() <= told.items()
    assert set(KINDS.values()) == set(ahead.LOOPS)


def compiling(dispatcher: Any) -> Any:
    return SimpleNamespace(data={"dispatcher": dispatcher})


def test_what_is_compiled_ahead_is_what_a_solve_calls() -> None:
    grid = (16, 16, 16)
    varying = dsolver.problems.diffusion(grid, 1.0 + np.random.default_rng(0).random(grid))
    for problem in (dsolver.problems.poisson7(grid), varying):
        assert dsolver.solve(problem, np.ones(grid), device="cpu").converged
    grid = (32, 32, 32)  # whose coarse levels have rows of all lengths
    a = sp.csr_array(-LaplacianNd(grid, boundary_conditions="dirichlet", dtype=np.float64).tosparse())
    assert dsolver.solve(a, np.ones(a.shape[0]), M="amg", device="cpu").converged
    for loop, signature in (found for loops in ahead.LOOPS.values() for found in loops()):
        assert signature in loop.signatures, loop.__name__


class Clock:
    """Time that a test sets, of `Words`; stderr is a terminal or none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> None:
        self.now = 100.0
        monkeypatch.setattr(words, "time", SimpleNamespace(monotonic=lambda: self.now, time=time.time))
        monkeypatch.setattr(words, "_read_along", lambda: terminal)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_words_are_news_and_come_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Words that were "3 so far" each second."""
    clock, spoken = Clock(monkeypatch, terminal=True), words.Words("this machine", "")
    for done in (0, 0, 1, 1, 1, 4, 4, 9):
        spoken.look(done)
        clock.now += 1.0
    spoken.end(9)
    spoken.end(9)
    assert said(caplog) == [
        "compiling kernels for this machine (first use only) ...",
        "compiling kernels for this machine (first use only), 1 by now ...",
        "compiling kernels for this machine (first use only), 4 by now ...",
        "compiled 9 kernels for this machine in 9 s",
    ]


def test_where_nobody_reads_along_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, spoken = Clock(monkeypatch, terminal=False), words.Words("this machine", "")
    for done in range(20):
        spoken.look(done)
        clock.now += 1.0
    spoken.end(20)
    assert said(caplog) == ["compiling kernels for this machine (first use only) ..."]


def test_of_processes_that_share_a_cache_one_speaks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Lines of two workers were interleaved: 3, 0, 5, 2."""
    Clock(monkeypatch, terminal=True)
    first, second = (words.Words("this machine", str(tmp_path / "cache")) for _ in range(2))
    second._name += " other"
    first.look(0)
    second.look(3)
    assert len(said(caplog)) == 1
    mark = tmp_path / "cache" / words.MARK
    os.utime(mark, (0.0, 0.0))  # who spoke has ended long ago
    second.look(3)
    first.look(4)
    assert len(said(caplog)) == 2
    assert mark.read_text(encoding="utf-8") == second._name


def test_each_second_there_is_a_look(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    heard, event = FirstUse(""), compiling(vectors.in_order)
    begin, end = partial(heard.on_start, event), partial(heard.on_end, event)
    seconds = iter([(), (end, begin), (end, begin, end), ()])  # in the first one a function is compiled all the while

    def sleep(_: float) -> None:
        for happens in next(seconds):
            happens()

    looked, look = [], heard._words.look

    def told(done: int) -> None:
        looked.append(done)
        look(done)

    monkeypatch.setattr(heard._words, "look", told)
    monkeypatch.setattr(first_use, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(threading, "Thread", lambda **_: SimpleNamespace(start=lambda: None))
    heard.on_start(event)
    heard._speak()
    assert looked == [0, 1]
    assert said(caplog) == ["compiling kernels for this machine (first use only) ..."]
    assert caplog.records[0].levelno == logging.WARNING  # which Python shows where nothing was configured
    assert next(seconds, None) is None


def test_of_others_functions_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine() -> None: ...

    begun: list[Any] = []
    monkeypatch.setattr(threading, "Thread", lambda **given: begun.append(given))
    heard, event = FirstUse(""), compiling(SimpleNamespace(py_func=mine))
    heard.on_start(event)
    heard.on_end(event)
    assert not begun


def beside(monkeypatch: pytest.MonkeyPatch, loops: Any) -> None:
    """Make this process one beside another, which has told it of a kind with these loops."""
    monkeypatch.setattr(ahead, "LOOPS", {"some": loops})
    monkeypatch.setattr(ahead, "_of_conjugate_gradients", list)
    monkeypatch.setattr(ahead, "_told", lambda: "some")


class Started:
    """Processes that were started, with what each was told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cores: set[int]) -> None:
        self.commands: list[list[str]] = []
        self.told: list[str] = []
        self.pipes: list[io.BytesIO] = []
        self.end = threading.Event()
        monkeypatch.setattr(subprocess, "Popen", self._begun)
        monkeypatch.setattr("os.sched_getaffinity", lambda _: cores)

    def _begun(self, command: list[str], **_: Any) -> Any:
        told = self.told

        class Pipe(io.BytesIO):
            def close(self) -> None:
                if not self.closed:
                    told.append(self.getvalue().decode())
                super().close()

        self.commands.append(command)
        self.pipes.append(Pipe())
        return SimpleNamespace(wait=partial(self.end.wait, 5.0), poll=lambda: None, stdin=self.pipes[-1])


def test_the_process_beside_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence of the process without a terminal: where it spoke first, the other one told nothing of compilations."""
    begun: list[Any] = []
    monkeypatch.setattr(threading, "Thread", lambda **given: begun.append(given))
    heard = FirstUse("")
    monkeypatch.setattr(ahead, "FIRST_USE", heard)
    compiled = SimpleNamespace(compile=lambda _: heard.on_start(compiling(vectors.in_order)))
    beside(monkeypatch, lambda: [(compiled, ())])
    try:
        ahead.main("0", "1")
    finally:
        heard.on_end(compiling(vectors.in_order))
    assert heard._begun == 1
    assert not begun


@pytest.mark.parametrize(("cores", "started"), [({0, 1}, 1), ({0}, 0), (set(range(64)), MOST_HELPERS)])
def test_processes_beside_are_started_once_for_a_cache(
    cores: set[int], started: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Started(monkeypatch, cores)
    for _ in range(2):  # two workers, say
        heard = FirstUse(str(tmp_path / "cache"))
        for dispatcher in (vectors.in_order, interpolation.take_own, interpolation.interpolate):
            heard.on_start(compiling(dispatcher))
            heard.on_end(compiling(dispatcher))
    programs = [["-P", "-m", "dsolver.kernels.cpu.ahead", str(n), str(started)] for n in range(started)]
    assert [command[1:] for command in made.commands] == programs
    assert made.told == ["lattice\n"] * started


def test_each_kind_of_solve_has_its_loops_compiled_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Started(monkeypatch, {0, 1})
    heard = FirstUse(str(tmp_path / "cache"))
    for dispatcher in (
        vectors.in_order,
        interpolation.take_own,
        look._look_at_rows,
        box_rows._count,
        interpolation.interpolate,
    ):
        heard.on_start(compiling(dispatcher))
        heard.on_end(compiling(dispatcher))
    assert made.told == ["lattice\n", "algebraic\n"]


def test_processes_beside_begin_while_this_one_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that began when the first loop had to be compiled: a second of the second core was lost."""
    made = Started(monkeypatch, {0, 1})
    heard, other = (FirstUse(str(tmp_path / "cache")) for _ in range(2))
    heard.begin()
    other.begin()
    assert (len(made.commands), made.told) == (1, [])
    for dispatcher in (interpolation.take_own, look._look_at_rows):
        heard.on_start(compiling(dispatcher))
        heard.on_end(compiling(dispatcher))
    assert (len(made.commands), made.told) == (2, ["lattice\n", "algebraic\n"])


def test_a_process_beside_that_is_told_nothing_leaves_no_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Started(monkeypatch, {0, 1})
    heard = FirstUse(str(tmp_path / "cache"))
    heard.begin()
    made.end.set()
    for thread in threading.enumerate():
        if thread.name == "dsolver-ahead":
            thread.join()
    assert [pipe.closed for pipe in made.pipes] == [True]
    heard.on_start(compiling(interpolation.take_own))  # one that has ended meanwhile is told nothing
    heard.on_end(compiling(interpolation.take_own))
    assert made.told == [""]


@pytest.mark.parametrize(("said", "heard"), [("lattice\n", "lattice"), ("", ""), (None, "")])
def test_the_process_beside_waits_for_a_kind(monkeypatch: pytest.MonkeyPatch, said: str | None, heard: str) -> None:
    """None: the one that it helps only imports, and neither ends nor solves."""
    reading, writing = os.pipe()
    monkeypatch.setattr(ahead, "PATIENCE", 0.01)
    with os.fdopen(reading) as pipe, os.fdopen(writing, "w") as told:
        monkeypatch.setattr("sys.stdin", pipe)
        if said is not None:
            told.write(said)
            told.close()
        assert ahead._told() == heard


def test_processes_beside_compile_each_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    loops = [(SimpleNamespace(compile=done.append), number) for number in range(10)]
    beside(monkeypatch, lambda: loops)
    monkeypatch.setattr(ahead, "FIRST_USE", FirstUse(""))
    for number in range(3):
        ahead.main(str(number), "3")
    assert sorted(done) == list(range(10))
    assert done[0] == 9  # the process that they help begins with the others


@pytest.mark.parametrize("collects", [True, False])
def test_numba_compiles_without_the_collector(monkeypatch: pytest.MonkeyPatch, *, collects: bool) -> None:
    monkeypatch.setattr(threading, "Thread", lambda **_: SimpleNamespace(start=lambda: None))
    heard, event = FirstUse(""), compiling(vectors.in_order)
    try:
        (gc.enable if collects else gc.disable)()
        heard.on_start(event)
        heard.on_start(event)
        within = gc.isenabled()
        heard.on_end(event)
        inside = gc.isenabled()
        heard.on_end(event)
        assert (within, inside, gc.isenabled()) == (False, False, collects)
    finally:
        gc.enable()


def test_a_folder_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    heard = FirstUse(str(tmp_path / "file" / "cache"))
    heard.on_start(compiling(interpolation.take_own))
    heard.on_end(compiling(interpolation.take_own))
