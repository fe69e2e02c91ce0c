"""The threads of a process that copy between arrays: NumPy lets go of the interpreter meanwhile."""

from functools import cache
from typing import Final

from dsolver.kernels import usable_cpus
from dsolver.kernels.cpu.loops.team import Team

THREADS: Final = 8  # threads at most: 134 MB from page-locked memory took 18.7, 10.1, 5.6 and 4.7 ms with 1, 2, 4 and 8


@cache
def copying_team() -> Team:
    """The team of copies, made once."""
    return Team(min(THREADS, usable_cpus()))
