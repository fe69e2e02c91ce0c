"""Steps of solve programs with one right-hand side, as commands: workers can import this module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsolver.krylov.control.requests import Sample
from dsolver.program.solve import Solve


def start(program: Solve, limit: float = 0.0) -> float:
    """‖b - A x‖ at the x that is set, where the iterations begin."""
    return program.columns.start({0: limit})[0]


def advance(program: Solve, steps: int, measured: bool = False) -> list[Sample]:
    """A sample of each iteration."""
    return [sample for (sample,) in program.columns.advance(steps, measured)]


def true_residual(program: Solve) -> float:
    """‖b - A x‖, computed anew."""
    return program.columns.true_residuals([0])[0]


def norms(program: Solve) -> tuple[float, ...]:
    """(‖b‖, ‖x‖)."""
    return program.columns.each[0].norms()


def blocks_of(program: Solve, name: str) -> Mapping[int, Any]:
    """Blocks of b or x by chunk number."""
    return program.solution() if name == "x" else program.right_hand_side()
