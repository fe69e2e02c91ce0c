"""Machine code that comes with the package: which of it is used, and that a build step makes what is looked for."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dsolver.kernels.cuda.launch import cubins, first_use, loader
from dsolver.program.batch import AT_ONCE

TARGETS = ("cuda13-sm_80", "cuda13-sm_90", "cuda13-sm_100", "cuda14-sm_90")
SMALL = "amg/points.cu"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folders for some architectures, and one that is none."""
    for name in (*TARGETS, "notes"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("driver", "capability", "name"),
    [
        (13, 80, "cuda13-sm_80"),
        (13, 89, "cuda13-sm_80"),
        (13, 90, "cuda13-sm_90"),
        (14, 90, "cuda14-sm_90"),  # the newest that its driver loads
        (13, 100, "cuda13-sm_100"),
        (13, 103, "cuda13-sm_100"),
        (12, 90, None),  # a driver older than the compiler
        (13, 75, None),
        (13, 120, None),
    ],
)
def test_machine_code_is_for_capabilities_of_its_major_version(
    folder: Path, driver: int, capability: int, name: str | None
) -> None:
    found = cubins.fitting(folder, driver, capability)
    assert (found.name if found else None) == name


@pytest.fixture
def cupy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A CuPy that keeps what modules are made from, with one H200."""
    capabilities = ["90"]
    made = SimpleNamespace(
        cuda=SimpleNamespace(
            Device=lambda n: SimpleNamespace(compute_capability=capabilities[n]),
            runtime=SimpleNamespace(driverGetVersion=lambda: 13000, getDeviceCount=lambda: len(capabilities)),
        ),
        RawModule=lambda **given: SimpleNamespace(**given, compile=lambda: None),
        capabilities=capabilities,
    )
    monkeypatch.setitem(sys.modules, "cupy", made)
    monkeypatch.setattr(cubins, "FOLDER", folder)
    monkeypatch.setattr(first_use, "compile_module", lambda *_: None)
    kept = cubins.of_devices, loader._from_source
    for function in kept:
        function.cache_clear()
    yield made
    for function in kept:
        function.cache_clear()


def module(file: str, dtype: str, width: int | None = None) -> Any:
    return loader._module.__wrapped__(file, dtype, width)


@pytest.mark.usefixtures("cupy")
def test_machine_code_of_these_very_sources_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = loader.source("sell/batched.cu")
    given = loader.options_for(text, "float32", 4)
    path = folder / "cuda13-sm_90" / cubins.file_name("sell/batched.cu", text, given)
    assert module("sell/batched.cu", "float32", 4).options == given  # none is there
    path.touch()
    assert module("sell/batched.cu", "float32", 4).path == str(path)
    assert module("sell/batched.cu", "float64", 4).code == text
    assert module("sell/batched.cu", "float32", 2).code == text
    loader._from_source.cache_clear()
    monkeypatch.setattr(loader, "source", lambda _: text + "// a header has changed\n")
    assert module("sell/batched.cu", "float32", 4).code != text


@pytest.mark.usefixtures("cupy")
def test_of_a_source_without_values_all_types_are_one() -> None:
    assert loader.variants(loader.source(SMALL)) == [("float64", None)]
    assert module(SMALL, "float32").options == module(SMALL, "float64").options
    assert loader.variants(loader.source("vectors.cu")) == [("float64", None), ("float32", None)]


def test_devices_that_differ_have_their_kernels_compiled(cupy: Any) -> None:
    assert cubins.told() == "compiled in this package (cuda13-sm_90)"
    cupy.capabilities.append("80")
    cubins.of_devices.cache_clear()
    assert cubins.told().startswith("compiled on first use; this package has them for cuda13-sm_100, ")


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("kind", loader.KINDS)
def test_what_a_solve_needs_soon_is_of_its_kind(kind: str) -> None:
    assert set(loader.KINDS[kind]) <= set(loader.all_sources())
    soon = {made.code for made in loader.wanted_soon(loader.KINDS[kind][-1])}
    assert soon == {loader.source(file) for file in (*loader.KINDS[kind], *loader.ALWAYS)}


@pytest.mark.usefixtures("cupy")
def test_what_every_kind_needs_brings_no_kind() -> None:
    assert {made.code for made in loader.wanted_soon("vectors.cu")} == set(map(loader.source, loader.ALWAYS))


class Compiled:
    """A module that takes as long to be compiled as a test says."""

    def __init__(self) -> None:
        self.goes_on, self.threads = threading.Event(), list[str]()

    def compile(self) -> None:
        self.threads.append(threading.current_thread().name)
        self.goes_on.wait(20.0)


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_use, "_beside", first_use._Beside())
    monkeypatch.setattr(first_use, "_device", lambda: 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(Device=lambda _: nullcontext())))


@pytest.mark.usefixtures("beside")
def test_a_module_of_the_cache_brings_no_others() -> None:
    module, other = Compiled(), Compiled()
    module.goes_on.set()
    first_use.compile_module(module, lambda: [other])
    assert module.threads
    assert not other.threads


@pytest.mark.usefixtures("beside")
def test_others_are_compiled_beside_one_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_use, "CACHED", 0.01)
    module, busy, waiting = Compiled(), Compiled(), Compiled()

    def others() -> list[Compiled]:
        module.goes_on.set()
        return [busy, waiting, Compiled()]

    waiting.goes_on.set()
    first_use.compile_module(module, others)
    first_use.compile_module(waiting, list)  # both cores are busy, or will be: this need not wait for them
    busy.goes_on.set()
    first_use.compile_module(busy, list)
    assert [len(made.threads) for made in (module, busy, waiting)] == [1, 1, 1]


@pytest.mark.usefixtures("beside")
def test_a_process_ends_when_what_is_being_compiled_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """It aborted in the compiler's threads."""
    monkeypatch.setattr(first_use, "CACHED", 0.01)
    module, busy, waiting = Compiled(), Compiled(), Compiled()

    def others() -> list[Compiled]:
        module.goes_on.set()
        return [busy, Compiled(), waiting]

    first_use.compile_module(module, others)
    ending = threading.Thread(target=first_use._beside.end, daemon=True)
    ending.start()
    ending.join(0.05)
    assert ending.is_alive()
    for future in list(first_use._beside._asked.values()):
        future[0].goes_on.set()
    ending.join(20.0)
    assert not ending.is_alive()
    assert not waiting.threads


@pytest.mark.usefixtures("beside")
def test_a_module_that_does_not_compile_says_so() -> None:
    def compile_() -> None:
        raise ValueError("no such instruction")

    with pytest.raises(ValueError, match="no such instruction"):
        first_use.compile_module(SimpleNamespace(compile=compile_), list)


def test_there_are_kernels_for_all_that_is_solved_together() -> None:
    assert tuple(range(2, AT_ONCE + 1)) == loader.WIDTHS


def test_the_build_step_makes_the_files_that_the_loader_looks_for(repository: Path, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is among the `dev` packages")
    command = [sys.executable, str(repository / ".ci" / "compile_kernels.py"), "--keep", str(tmp_path)]
    done = subprocess.run(
        [*command, "--architectures", "sm_90", "--sources", SMALL, "csr/ghosts.cu"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(repository)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    texts = {file: loader.source(file) for file in (SMALL, "csr/ghosts.cu")}
    expected = {
        cubins.file_name(file, text, loader.options_for(text, *variant))
        for file, text in texts.items()
        for variant in loader.variants(text)
    }
    (made,) = tmp_path.iterdir()
    assert cubins.fitting(tmp_path, 99, 90) == made
    assert {path.name for path in made.iterdir()} == expected
    assert len(expected) == 3
    assert all(path.read_bytes().startswith(b"\x7fELF") for path in made.iterdir())


def test_while_kernels_are_compiled_there_is_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(first_use, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(first_use, "CACHE", tmp_path)
    words, one = first_use._Compiled(), Future[None]()

    def waiting(some: set[Future[None]], timeout: float) -> Any:
        clock.now += timeout if not one.done() else 0.0
        return {one for one in some if one.done()}, {one for one in some if not one.done()}

    monkeypatch.setattr(first_use, "wait", waiting)
    rest = words.wait(words.wait({one}))
    one.set_result(None)
    assert words.wait(rest) == set()
    assert [record.getMessage() for record in caplog.records] == ["compiling kernels for this GPU (first use only) ..."]
    assert words.done == 1


@pytest.mark.usefixtures("beside")
def test_two_threads_wait_for_a_module_that_waits_for_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first was told that the second had cancelled it."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    busy, wanted = Compiled(), Compiled()
    wanted.goes_on.set()
    first_use._beside.ask(busy)
    future = first_use._beside.ask(wanted)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(first_use.wait_for_module, wanted, future)
        first_use.compile_module(wanted, list)
        busy.goes_on.set()
        first.result(20.0)
    assert len(wanted.threads) == 1
