"""Machine code that comes with the package: which of it is used, and that a build step makes what is looked for."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dsolver.benchmarks.hpcg.preconditioner import Hpcg
from dsolver.kernels.cuda.launch import loader
from dsolver.kernels.cuda.launch.compiling import cubins, first_use, kinds
from dsolver.kernels.cuda.launch.compiling.kinds import Program
from dsolver.preconditioners.algebraic.preconditioner import Algebraic
from dsolver.preconditioners.auto import Auto
from dsolver.preconditioners.multigrid import Multigrid
from dsolver.program.batches.batch import AT_ONCE

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
    kept = cubins.of_devices, loader._shipped, loader._compiled, loader._from_source
    for function in kept:
        function.cache_clear()
    yield made
    for function in kept:
        function.cache_clear()


def module(file: str, dtype: str, width: int | None = None, names: tuple[str, ...] = ()) -> Any:
    return loader._shipped(file, dtype, width) or loader._compiled(Program(file, dtype, names), width)


@pytest.mark.usefixtures("cupy")
def test_machine_code_of_these_very_sources_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = loader.text_of("sell/batched.cu", "float32", 4)
    path = folder / "cuda13-sm_90" / cubins.file_name("sell/batched.cu", text, loader.OPTIONS)
    assert module("sell/batched.cu", "float32", 4).code == text  # none is there
    path.touch()
    loader._shipped.cache_clear()
    assert module("sell/batched.cu", "float32", 4).path == str(path)
    for dtype, width in (("float64", 4), ("float32", 2)):
        assert module("sell/batched.cu", dtype, width).code == loader.text_of("sell/batched.cu", dtype, width)
    for function in (loader._shipped, loader._compiled, loader._from_source):
        function.cache_clear()
    monkeypatch.setattr(loader, "source", lambda _: text + "// a header has changed\n")
    assert module("sell/batched.cu", "float32", 4).code != text


def test_of_a_source_without_values_all_types_are_one() -> None:
    assert loader.variants(loader.source(SMALL)) == [("float64", None)]
    assert loader.text_of(SMALL, "float32") == loader.text_of(SMALL, "float64") == loader.source(SMALL)
    assert loader.variants(loader.source("vectors/vectors.cu")) == [("float64", None), ("float32", None)]
    assert loader.text_of("vectors/vectors.cu", "float32").startswith("#define REAL float\n")


def test_devices_that_differ_have_their_kernels_compiled(cupy: Any) -> None:
    assert cubins.told() == "compiled in this package (cuda13-sm_90)"
    cupy.capabilities.append("80")
    cubins.of_devices.cache_clear()
    assert cubins.told().startswith("compiled on first use; this package has them for cuda13-sm_100, ")


EVERY = [made for programs in (*kinds.KINDS.values(), kinds.ALWAYS) for made in programs]


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("kind", kinds.KINDS)
def test_what_a_solve_needs_soon_is_of_its_kind(kind: str) -> None:
    programs = kinds.KINDS[kind]
    first = next(made for made in programs if all(made.file != other.file for other in EVERY[: EVERY.index(made)]))
    soon = {made.code for made in loader.wanted_soon(first)}
    assert soon == {loader.text_of(made.file, made.dtype, names=made.names) for made in (*programs, *kinds.ALWAYS)}
    alone = Program(first.file, "float64", ("another",))
    assert {made.code for made in loader.wanted_soon(alone)} == soon


@pytest.mark.usefixtures("cupy")
def test_what_every_kind_needs_brings_no_kind() -> None:
    assert len(loader.wanted_soon(kinds.ALWAYS[0])) == len(kinds.ALWAYS)


def test_a_kernel_is_compiled_with_those_of_its_kind_or_alone() -> None:
    assert loader.program_of("csr/look/glance.cu", "glance_32", "float64").names == ("glance_32",)
    for made in EVERY:
        assert made.dtype == "float64" or "REAL" in loader.source(made.file)
        assert {loader.program_of(made.file, name, made.dtype) for name in made.names} == {made}


@pytest.mark.parametrize("file", loader.all_sources())
def test_of_a_source_the_kernels_that_are_wanted_are_compiled(file: str) -> None:
    """Texts for some kernels of a source: the others are templates without instances."""
    dtype, width = loader.variants(loader.source(file))[-1]
    whole = entries(loader.text_of(file, dtype, width))
    one = min(whole)
    assert entries(loader.text_of(file, dtype, width, (one,))) == {one}
    assert {name for made in kinds.programs_of(file) for name in made.names} <= whole


def entries(text: str) -> set[str]:
    """The kernels of a text, macros expanded."""
    command = ["g++", "-E", "-P", "-x", "c++", "-D__global__=GLOBAL", "-D__launch_bounds__(...)=", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return set(re.findall(r'extern "C" GLOBAL void\s+(\w+)', done.stdout))


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
def test_a_kind_is_begun_without_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_use, "CACHED", 0.01)
    module, other = Compiled(), Compiled()
    asked = threading.Event()

    def others() -> list[Compiled]:
        asked.set()
        return [module, other]

    first_use.begin(module, others)  # compiles until it is told to go on
    assert asked.wait(20.0)
    for made in (module, other):
        made.goes_on.set()
        first_use.compile_module(made, list)
        assert len(made.threads) == 1


def test_preconditioners_begin_kinds_that_there_are() -> None:
    made = (Multigrid(), Auto(), Algebraic(), Hpcg())
    assert {m.kernel_kind for m in made} <= set(kinds.KINDS)


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
    """A process that aborted in the compiler's threads."""
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
    expected = {
        cubins.file_name(file, loader.text_of(file, *variant), loader.OPTIONS)
        for file in (SMALL, "csr/ghosts.cu")
        for variant in loader.variants(loader.source(file))
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
