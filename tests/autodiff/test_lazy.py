"""PyTorch and JAX are loaded when `dsolver.torch` and `dsolver.jax` are named, and not before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dsolver


def test_an_import_of_dsolver_loads_neither() -> None:
    code = "import sys, dsolver; from dsolver import *; sys.exit('torch' in sys.modules or 'jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_where_one_is_absent_the_message_says_what_installs_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"dsolver.autodiff.{name}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'dsolver-hpc\[{name}\]' brings it"):
        getattr(dsolver, name)


def test_other_names_are_none() -> None:
    with pytest.raises(AttributeError, match="module 'dsolver' has no attribute 'tensorflow'"):
        dsolver.tensorflow  # noqa: B018
