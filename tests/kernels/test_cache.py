"""Where compiled CPU kernels are kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsolver.kernels.cpu.loops.compiled import compiled, digest

PROGRAM = """
from dsolver.kernels.cpu.sell import loops as sell
print(sell.spmv._cache.cache_path)
"""


def cache(**environment: str) -> Path:
    given = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"} | environment
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, env=given)
    return Path(done.stdout.strip())


def test_it_is_outside_of_the_package(tmp_path: Path) -> None:
    """Where an uninstallation would leave it, and with it a folder that hides an editable installation."""
    assert cache(XDG_CACHE_HOME=str(tmp_path)).is_relative_to(tmp_path / "dsolver")


def test_without_a_folder_that_can_be_written_kernels_are_compiled_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("numba.core.caching.CompileResultCacheImpl._locator_classes", [])

    def twice(x: float) -> float:
        return 2.0 * x

    made = [compiled()(twice), compiled()(twice)]
    assert made[0](3.0) == 6.0
    assert [record.getMessage().count("NUMBA_CACHE_DIR") for record in caplog.records] == [1]


def test_numbas_own_setting_is_obeyed(tmp_path: Path) -> None:
    assert cache(NUMBA_CACHE_DIR=str(tmp_path / "mine")).is_relative_to(tmp_path / "mine")


def test_other_sources_have_another_folder(tmp_path: Path) -> None:
    """Numba does not notice a change in a function that a kernel calls, and fails on classes that were renamed."""
    (tmp_path / "cpu").mkdir()
    (tmp_path / "reference").mkdir()
    called = tmp_path / "cpu" / "called.py"
    called.write_text("ONE = 1")
    before = digest(tmp_path)
    (tmp_path / "reference" / "text.py").write_text("is not compiled")
    assert digest(tmp_path) == before
    called.write_text("ONE = 2")
    assert digest(tmp_path) != before
    assert digest(tmp_path) not in (before, "")
