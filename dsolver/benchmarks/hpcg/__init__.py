"""The benchmark: HPCG's problem, phases, checks and counting, on any engine.

Follows the HPCG reference benchmark 3.1 (Dongarra, Heroux, Luszczek). Its results are HPCG-style: comparable with
official ones, and no official submission. Its V-cycle gets its name for ``M=`` here: a program that takes such
names imports this package.
"""

from dsolver.benchmarks.hpcg.preconditioner import Hpcg
from dsolver.benchmarks.hpcg.procedure import HpcgOptions, run
from dsolver.benchmarks.hpcg.result import HpcgResult
from dsolver.preconditioners import register

__all__ = ["Hpcg", "HpcgOptions", "HpcgResult", "run"]

register("hpcg", Hpcg)
