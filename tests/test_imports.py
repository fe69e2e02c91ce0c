"""What is loaded when: a process need not wait for what it does not use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dsolver

HEAVY = ("numba", "dask", "distributed", "bokeh", "scipy", "rich", "dsolver.session", "dsolver.multigrid")


def loaded(program: str) -> set[str]:
    """The heavy packages that a program loads."""
    told = f"{program}\nimport sys\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    return set(subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True).stdout.split())


def test_a_package_that_is_only_named_loads_nothing() -> None:
    assert loaded("import dsolver, dsolver.cli") == set()


@pytest.mark.parametrize(("command", "own"), [("jobs", {"rich"}), ("report", {"rich"})])
def test_a_command_that_solves_nothing_loads_nothing_that_solves(command: str, own: set[str]) -> None:
    assert loaded(f"import dsolver.cli.{command}") <= own


def test_every_public_name_is_found_and_kept() -> None:
    found = {name: getattr(dsolver, name) for name in dsolver.__all__}
    assert all(vars(dsolver)[name] is value for name, value in found.items())
    homes = {name: module for module, names in vars(dsolver)["_HOMES"].items() for name in names}
    assert {*homes, "preconditioners", "problems"} == {*dsolver.__all__}
    assert dsolver.errors.InputError is dsolver.InputError
    with pytest.raises(AttributeError, match="module 'dsolver' has no attribute 'sovle'"):
        _ = dsolver.sovle


def test_what_may_be_absent_is_shown_and_not_loaded() -> None:
    assert {"torch", "jax", "solve", "__version__"} <= {*dir(dsolver)}
    assert not {"torch", "jax"} & {*dsolver.__all__}
    assert loaded("import dsolver; dir(dsolver)") == set()
