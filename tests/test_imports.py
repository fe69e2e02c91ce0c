"""Modules and when they are loaded: a process need not wait for what it does not use."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import FunctionType, ModuleType
from typing import get_type_hints

import pytest

import dsolver

HEAVY = ("numba", "dask", "distributed", "bokeh", "scipy", "rich", "dsolver.session", "dsolver.multigrid")


def loaded(program: str) -> set[str]:
    """The heavy packages that a program loads."""
    told = f"{program}\nimport sys\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    return set(subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True).stdout.split())


def test_a_package_that_is_only_named_loads_nothing() -> None:
    assert loaded("import dsolver, dsolver.cli") == set()


def test_a_solve_in_one_process_loads_no_dask() -> None:
    grid = "dsolver.solve(dsolver.problems.poisson7((4, 4, 4)), numpy.ones((4, 4, 4)), client=False)"
    matrix = "dsolver.Solver(scipy.sparse.eye_array(50, format='csr')).solve(numpy.ones(50))"
    assert not {"dask", "distributed"} & loaded(f"import dsolver, numpy, scipy.sparse\n{grid}\n{matrix}")


@pytest.mark.parametrize(("command", "own"), [("jobs", {"rich"}), ("report", {"rich"})])
def test_a_command_that_solves_nothing_loads_nothing_that_solves(command: str, own: set[str]) -> None:
    assert loaded(f"import dsolver.cli.{command}") <= own


def test_every_public_name_is_found_and_kept() -> None:
    found = {name: getattr(dsolver, name) for name in dsolver.__all__}
    assert all(vars(dsolver)[name] is value for name, value in found.items())
    homes = {name: module for module, names in vars(dsolver)["_HOMES"].items() for name in names}
    assert {*homes, "preconditioners", "problems"} == {*dsolver.__all__}
    assert all(get_type_hints(value) for value in found.values() if isinstance(value, FunctionType))
    assert dsolver.errors.InputError is dsolver.InputError
    with pytest.raises(AttributeError, match="module 'dsolver' has no attribute 'sovle'"):
        _ = dsolver.sovle


def test_what_may_be_absent_is_shown_and_not_loaded() -> None:
    assert {"torch", "jax", "solve", "__version__"} <= {*dir(dsolver)}
    assert not {"torch", "jax"} & {*dsolver.__all__}
    assert loaded("import dsolver; dir(dsolver)") == set()


BENCHES = sorted((Path(__file__).resolve().parents[1] / "bench").rglob("*.py"))
"""Programs that no type checker reads and no test runs."""


@pytest.mark.parametrize("bench", BENCHES, ids=lambda path: path.stem)
def test_a_bench_takes_names_that_there_are(bench: Path) -> None:
    taken = [
        node for node in ast.walk(ast.parse(bench.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)
    ]
    for node in taken:
        if (module := node.module or "").partition(".")[0] == "dsolver" and (made := on_this_machine(module)):
            within = {each.name for each in iter_modules(getattr(made, "__path__", ()))}
            assert not [each.name for each in node.names if not hasattr(made, each.name) and each.name not in within]


def on_this_machine(module: str) -> ModuleType | None:
    """A module of the package; None where it needs a GPU's libraries, which are not here."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("cupy", "cupyx", "cuda"):
            raise
        return None
