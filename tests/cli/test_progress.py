from __future__ import annotations

import ast
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from click.testing import CliRunner, Result

from dsolver.cli import main, progress
from dsolver.cli.progress import ProgressText
from dsolver.monitor.state import State

GRID = ("--grid", "16", "16", "16")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def state(iteration: int, residual: float, limit: float | None = 1e-8, rate: float | None = None) -> dict[str, Any]:
    return {
        "event": "state",
        "iteration": iteration,
        "residual": residual,
        "limit": limit,
        "most": 1000,
        "rate": rate,
    }


def test_the_outlook_tells_rate_time_left_and_exposed_communication(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 10.0, 20.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    outlook = ProgressText()
    outlook.take({"event": "start"})
    assert outlook.text == ""
    outlook.take(state(0, 1.0))
    outlook.take(state(20, 1e-4))
    assert outlook.text == "2 it/s  about 10 s left"  # four digits in 20 iterations, four to go
    outlook.take({"event": "spans", "exposure": {"exposed_percent": 3.14}})
    outlook.take(state(30, 1e-8, rate=20.0))
    assert outlook.text == "20 it/s  exposed 3.1 %"
    outlook.take({"event": "start"})
    assert outlook.text == ""


def test_without_a_pace_the_most_iterations_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 10.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    outlook = ProgressText()
    outlook.take(state(0, 1.0))
    outlook.take(state(10, 2.0))
    assert outlook.text == "1 it/s  about 990 s left"


def test_the_bar_is_full_at_the_end_however_many_iterations_were_allowed() -> None:
    told: list[tuple[int, int]] = []
    tell = progress.reporter(lambda _, done, most: told.append((done, most)), 1000)
    for iteration, residual in ((1, 1.0), (5, 1e-4), (9, 1e-8)):
        tell(State(iteration=iteration, residual=residual, limit=1e-8))
    assert told == [(1, 1000), (5, 9), (9, 9)]
    tell(State(iteration=1, residual=1e-2, limit=1e-8))  # a worker was lost
    tell(State(iteration=4, residual=1e-5, limit=1e-8))
    assert told[-1] == (4, 7)


def test_without_a_bar_phases_are_named_but_not_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 0.1, 2.0, 2.5, 4.0, 5.5, 6.5, 8.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    tell = progress.Phases()
    for phase, done in (
        ("set-up", 0),
        ("reference CG", 0),
        ("TestCG", 0),
        ("set 1 of 3", 5),
        ("set 2 of 3", 0),
        ("set 3 of 3", 0),
        ("time spmv", 0),
    ):
        tell(phase, done, 50)
    said = capsys.readouterr().err.splitlines()
    assert said == ["reference CG ...", "set 1 of 3, 5 of 50 ...", "set 3 of 3 ...", "time spmv ..."]


@pytest.mark.parametrize("command", ["solve", "hpcg"])
def test_quiet_prints_the_outcome_alone(command: str) -> None:
    result = call(command, *GRID, "--quiet", *(("--iterations", "3") if command == "hpcg" else ()))
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""


def test_verbose_tells_what_is_done(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dsolver"):
        assert call("solve", *GRID, "--verbose").exit_code == 0
        assert logging.getLogger("dsolver").level == logging.INFO
        assert call("solve", *GRID, "--quiet").exit_code == 0
        assert logging.getLogger("dsolver").level == logging.ERROR


def test_both_are_refused() -> None:
    result = call("solve", *GRID, "--quiet", "--verbose")
    assert result.exit_code == 2
    assert "exclude each other" in result.stderr


def test_a_terminal_sees_the_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[str, str]] = []

    class Drawing:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def add_task(self, *_: Any, **__: Any) -> int:
            return 0

        def update(self, _: int, *, description: str, about: str, **__: Any) -> None:
            drawn.append((description, about))

    monkeypatch.setattr(progress, "Progress", Drawing)
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    assert call("solve", "--problem", "poisson7", *GRID).exit_code == 0
    assert drawn
    assert drawn[-1][0].startswith("CG ")


def test_what_users_name_is_no_markup() -> None:
    """Square brackets in the name of a file or a job ended the command with a MarkupError."""
    takers = {"Console", "TextColumn"}
    for module in Path(progress.__file__).parent.rglob("*.py"):
        for call_ in (node for node in ast.walk(ast.parse(module.read_text("utf-8"))) if isinstance(node, ast.Call)):
            if isinstance(call_.func, ast.Name) and call_.func.id in takers:
                plain = {word.arg: ast.unparse(word.value) for word in call_.keywords}.get("markup") == "False"
                assert plain, f"{module.name}:{call_.lineno}: {call_.func.id} without markup=False"
