"""Commands that tell what a program has made: functions of a `PreparedProgram`, run on every rank."""

from __future__ import annotations

from dataclasses import replace

from dsolver.engines.running_program import Blocks
from dsolver.kernels import Backend
from dsolver.kernels.formats.choice import Choice
from dsolver.multigrid.level import Level
from dsolver.multigrid.summary import LevelSummary, summary_of
from dsolver.program.prepared import PreparedProgram


def hierarchy(program: PreparedProgram) -> tuple[LevelSummary, ...]:
    """The preconditioner's levels in numbers, finest first; empty where it is no multigrid, or the benchmark's."""
    levels = program.prepared.site.levels
    if not all(isinstance(level, Level) for level in levels):
        return ()
    values = program.spec.precond_dtype if program.spec.lowered else program.spec.dtype
    return tuple(replace(summary_of(level), values=values) for level in levels)


def formats(program: PreparedProgram) -> Blocks:
    """In which format each chunk's rows of a general matrix are stored, and why, by chunk number."""
    return program.engine.fetch(program.engine.per_chunk(_format, program.prepared.site.chunks.at("local", "choice")))


def _format(_: Backend, __: int, choice: Choice) -> str:
    return str(choice)
