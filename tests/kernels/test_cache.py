"""Where compiled CPU kernels are kept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import pytest

from dsolver.kernels.cpu.loops import shared_cache
from dsolver.kernels.cpu.loops.compiled import compiled, digest
from tests.patience import PATIENCE

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


TOGETHER = """
import sys
from dsolver.kernels.cpu.loops.compiled import compiled
import numba.core.event as event

class Heard(event.Listener):
    count = 0
    def on_start(self, event): self.count += 1
    def on_end(self, event): pass

heard = Heard()
event.register("numba:compile", heard)

@compiled()
def slow(x):
    return x + 1.0

print("ready", flush=True)
sys.stdin.readline()
print(slow(1.0), heard.count)
"""


def test_a_function_is_compiled_by_one_of_the_processes_that_need_it(tmp_path: Path) -> None:
    """Workers of a machine all compiled everything at first, and numba's index may mix what two of them add at once."""
    program = tmp_path / "program.py"
    program.write_text(TOGETHER)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    running = [
        subprocess.Popen(
            [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(2)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=PATIENCE)[0] for process in running]
    assert sorted(said) == ["2.0 0\n", "2.0 1\n"]


def test_a_process_that_holds_a_function_too_long_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(shared_cache, "WAIT", 0.05)
    waits: list[bool] = []

    @contextmanager
    def waiting() -> Iterator[None]:
        waits.append(True)
        yield

    def twice(x: float) -> float:
        return 2.0 * x

    held = shared_cache.SharedCache(twice, waiting)
    made: Any = numba.njit(twice)
    held._acquire()
    made._cache = shared_cache.SharedCache(twice, waiting)
    assert made(3.0) == 6.0
    assert waits == [True]
    held._release()
    assert held._lock is made._cache._lock is None
