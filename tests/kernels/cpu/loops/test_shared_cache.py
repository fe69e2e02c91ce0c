"""Places where compiled CPU kernels are kept."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numba
import pytest

from dsolver.kernels.cpu.loops import compiled as compiled_module
from dsolver.kernels.cpu.loops import shared_cache
from dsolver.kernels.cpu.loops.compiled import compiled, digest
from tests.support.waiting import PATIENCE


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """The folder of a function's cache, with NUMBA_CACHE_DIR."""

    def asked(folder: str) -> Path:
        monkeypatch.setattr(numba.config, "CACHE_DIR", folder)
        made: Any = compiled()(twice)
        return Path(made._cache.cache_path)

    compiled_module._cache.cache_clear()
    yield asked
    compiled_module._cache.cache_clear()


def twice(x: float) -> float:
    return 2.0 * x


def test_it_is_outside_of_the_package(
    place: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that an uninstallation would leave, and with it a folder that hides an editable installation."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert place("").is_relative_to(tmp_path / "dsolver")
    assert compiled_module.config.CACHE_DIR == "", "for other packages it is as it was"


def test_without_a_folder_that_can_be_written_kernels_are_compiled_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("numba.core.caching.CompileResultCacheImpl._locator_classes", [])
    made = [compiled()(twice), compiled()(twice)]
    assert made[0](3.0) == 6.0
    assert [record.getMessage().count("NUMBA_CACHE_DIR") for record in caplog.records] == [1]


def test_numbas_own_setting_is_obeyed(place: Callable[[str], Path], tmp_path: Path) -> None:
    assert place(str(tmp_path / "mine")).is_relative_to(tmp_path / "mine")


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

    held = shared_cache.SharedCache(twice, waiting)
    made: Any = numba.njit(twice)
    held._acquire()
    made._cache = shared_cache.SharedCache(twice, waiting)
    assert made(3.0) == 6.0
    assert waits == [True]
    held._release()
    assert held._lock is made._cache._lock is None


COMPILED = """
import sys
import numpy
from dsolver.kernels.cpu.loops.compiled import compiled

@compiled()
def room(n):
    made = numpy.empty(n)
    made[:] = 2.0
    return made

print(room(3).sum(), "scipy.linalg" in sys.modules)
"""


def test_machine_code_is_loaded_without_what_compiles(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(COMPILED)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(program)]
    said = [
        subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout for _ in range(2)
    ]
    assert said == ["6.0 True\n", "6.0 False\n"]


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, of which nothing was told yet."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(shared_cache, "_TOLD", set())
    return tmp_path


def found(made: Any) -> tuple[float, int]:
    """The result of a function, and how often it was compiled for that."""
    result = made(3.0)
    return result, sum(made.stats.cache_misses.values())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[2 * len(content) // 3] ^= 0x10
    path.write_bytes(content)


@pytest.mark.parametrize("harm", [cut, empty, flip])
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_damaged_file_is_compiled_anew(
    fresh: Path, kind: str, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Files that ended every solve with an UnpicklingError or LLVM's words; machine code with another byte ran."""
    assert found(compiled()(twice)) == (6.0, 1)
    assert found(compiled()(twice)) == (6.0, 0)
    (path,) = fresh.rglob(f"*.{kind}")
    harm(path)
    assert found(compiled()(twice)) == (6.0, 1)
    assert [record.getMessage() for record in caplog.records] == [
        f"damaged files of compiled kernels are compiled anew, such as {path}"
    ]
    assert found(compiled()(twice)) == (6.0, 0)


def test_a_file_of_another_numba_is_compiled_anew_without_a_word(fresh: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert found(compiled()(twice)) == (6.0, 1)
    (path,) = fresh.rglob("*.nbi")
    path.write_bytes(b"numba 0.1.0\n" + path.read_bytes()[12:])
    assert found(compiled()(twice)) == (6.0, 1)
    assert not caplog.records


@pytest.mark.usefixtures("fresh")
def test_a_full_disk_ends_no_work(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(shared_cache._CheckedFiles, "_open_for_write", Mock(side_effect=full))
    for _ in range(2):
        made: Any = compiled()(twice)
        assert found(made) == (6.0, 1)
        assert made._cache._lock is None
    assert [record.getMessage() for record in caplog.records] == [
        "compiled kernels cannot be kept, and are compiled anew in every process: [Errno 28] No space left on device"
    ]
