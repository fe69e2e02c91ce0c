from __future__ import annotations

import errno
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import LocalCluster

import dsolver
from dsolver import problems
from dsolver.cli import kernels, main
from dsolver.cli.cluster import _count_and_device as count_and_device
from dsolver.cli.files import write_array
from dsolver.cli.info import missing_for_gpus
from dsolver.cli.jobs import sent
from dsolver.cli.outputs import set_volume
from dsolver.cli.system.choice import sums_of_stencil
from dsolver.cluster import local
from dsolver.cluster.devices import Gpu
from dsolver.errors import InputError
from dsolver.monitor.spans import read_jsonl
from tests.support.clusters import forked, process_of, scheduler_in_a_process
from tests.support.commands import call, good, refused
from tests.support.waiting import PATIENCE

GRID = ("--grid", "16", "16", "16")
SHAPE = (16, 16, 16)
NO_GPU = "the driver shows no GPU"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty folder, on a machine that shows no GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dsolver.cluster.devices.find_gpu", lambda: NO_GPU)
    monkeypatch.setattr("dsolver.cluster.local.find_gpu", lambda: NO_GPU)
    return tmp_path


# --- help ------------------------------------------------------------------------------------------------------------


def test_help_shows_the_two_most_useful_commands() -> None:
    out = good("--help")
    assert "dsolver hpcg --grid" in out
    assert "dsolver solve --problem" in out


def loaded(command: str) -> Any:
    found = main.get_command(None, command)
    assert found is not None
    return found


@pytest.mark.parametrize("command", ["hpcg", "solve", "info"])
def test_every_command_and_option_is_explained(command: str) -> None:
    shown = good(command, "--help")
    assert "--help" in shown
    for option in loaded(command).params:
        if isinstance(option, click.Argument):  # click has no help for those: the text above the options names them
            assert f"With {str(option.name).upper()}" in shown
        else:
            assert getattr(option, "help", None), option.name


def test_version() -> None:
    assert good("--version").startswith("dsolver, version ")


# --- hpcg ------------------------------------------------------------------------------------------------------------


def test_hpcg_reports_and_writes_json(folder: Path) -> None:
    out = good("hpcg", *GRID, "--device", "cpu", "--time", "0", "--json", "out.json")
    assert "no official HPCG submission" in out
    assert out.rstrip().splitlines()[-1].startswith("VALID: rating ")
    data = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    assert data["valid"] is True
    assert data["order"] == "color8"
    assert list(folder.iterdir()) == [folder / "out.json"]


def test_spans_and_traces_are_written(folder: Path) -> None:
    problem = (*GRID, "--device", "cpu", "--spans", "spans.jsonl", "--trace", "trace.json")
    hpcg = ("hpcg", *problem, "--iterations", "2")
    solve = ("solve", "--problem", "poisson7", *problem, "--force")
    for command, smoother in ((hpcg, "presmooth_restrict"), (solve, "forward")):
        good(*command)
        spans = read_jsonl(folder / "spans.jsonl")
        trace = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
        assert {span.name for span in spans} >= {smoother, "spmv_dot"}
        assert sum(event["ph"] == "X" for event in trace["traceEvents"]) == len(spans)
    good("solve", "--problem", "poisson7", *GRID, "--device", "cpu", "--trace", "only.json")
    assert len(json.loads((folder / "only.json").read_text(encoding="utf-8"))["traceEvents"]) > 10
    assert "exists" in refused("hpcg", *problem, "--iterations", "2")


def test_hpcg_iterations_alone() -> None:
    out = good("hpcg", *GRID, "--order", "7 5 2 6 1 4 3 0", "--kernels", "numpy", "--iterations", "3")
    assert "3 iterations, scaled residual" in out.splitlines()[-1]
    assert "VALID" not in out


def test_hpcg_reference_engine() -> None:
    assert "reference, in this process" in good("hpcg", *GRID, "--engine", "reference", "--iterations", "2")


def test_hpcg_on_worker_processes_gives_the_bits_of_one_process(folder: Path) -> None:
    """By the graph engine; for the resident one see `solve` below and test_gang.py."""
    problem = ("hpcg", "--grid", "32", "16", "16", "--chunks", "2", "1", "1", "--iterations", "3", "--device", "cpu")
    good(*problem, "--json", "one.json")
    with forked():
        result = call(*problem, "--engine", "graph", "--workers", "2", "--json", "two.json")
    assert result.exit_code == 0, result.output
    assert "2 workers" in result.stdout
    assert re.search(r"^dashboard: http://\S+/dsolver$", result.stderr, re.MULTILINE)
    one, two = (json.loads((folder / name).read_text(encoding="utf-8")) for name in ("one.json", "two.json"))
    assert one["residuals"] == two["residuals"]


def test_an_invalid_run_says_so_and_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.benchmarks.hpcg.result.DEPARTURE_LIMIT", -1.0)
    result = call("hpcg", *GRID, "--device", "cpu", "--time", "0")
    assert result.exit_code == 1
    assert "INVALID" in result.stdout.splitlines()[-1]
    assert "TestSymmetry" in result.stdout.splitlines()[-1]
    assert "FAIL" in result.stdout


def test_a_run_in_float32_says_so_and_exits_with_1(folder: Path) -> None:
    options = "--grid 16 16 16 --time 0 --device cpu --precond-dtype float32 --json f32.json"
    result = call("hpcg", *options.split())
    assert result.exit_code == 1
    assert "float32, which HPCG's rules do not allow: not comparable" in result.stdout
    assert "INVALID" in result.stdout.splitlines()[-1]
    assert json.loads((folder / "f32.json").read_text())["valid"] is False


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_solve_takes_the_value_type_of_the_preconditioner(dtype: str) -> None:
    out = good(*f"solve --grid 16 16 16 --device cpu --rtol 1e-11 --precond-dtype {dtype}".split())
    assert "converged" in out
    assert "note:" not in out


def test_solve_takes_the_value_type_of_the_system(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    good(*f"solve --grid 8 8 8 --device cpu --rtol 1e-4 --dtype float32 --out {file}".split())
    assert np.load(file).dtype == np.float32
    wide, narrow = (good(*f"estimate --grid 32 32 32 --device cpu --dtype {d}".split()) for d in ("float64", "float32"))
    assert wide != narrow
    assert "is the value type of M, too" in refused(
        *["solve", "--grid", "8", "8", "8", "--dtype", "float32", "--precond-dtype", "float64"]
    )


def outcome(said: str) -> list[str]:
    """The lines that do not tell what is done meanwhile."""
    return [line for line in said.splitlines() if not line.endswith(" ...")]


def test_the_module_is_the_command(folder: Path) -> None:
    command = ["hpcg", *GRID, "--iterations", "5", "--device", "cpu", "--json", "out.json"]
    done = subprocess.run(
        [sys.executable, "-m", "dsolver", *command], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in outcome(done.stderr) if "compiling kernels" not in line]
    assert not said, "no terminal: no bar"
    assert "5 iterations" in done.stdout
    assert len(json.loads((folder / "out.json").read_text(encoding="utf-8"))["residuals"]) == 6


def test_a_refusal_of_the_module_is_one_line_and_exit_status_2() -> None:
    command = ["hpcg", "--grid", "17", "16", "16"]
    done = subprocess.run(
        [sys.executable, "-m", "dsolver", *command], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 2
    assert "divisible by 8" in done.stderr
    assert "Traceback" not in done.stderr


# --- solve -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["hpcg", "poisson7", "poisson27"])
def test_solve_finds_ones_without_a_right_hand_side(folder: Path, kind: str) -> None:
    out = good("solve", "--problem", kind, *GRID, "--out", "x.npy")
    assert "converged" in out
    np.testing.assert_allclose(np.load(folder / "x.npy"), np.ones(SHAPE), rtol=1e-6)


@pytest.mark.parametrize("precond", ["mg", "chebyshev", "none"])
def test_solve_takes_any_grid(folder: Path, precond: str) -> None:
    good("solve", "--problem", "poisson7", "--grid", "9", "7", "1", "--precond", precond, "--out", "x.npy")
    np.testing.assert_allclose(np.load(folder / "x.npy"), np.ones((9, 7, 1)), rtol=1e-6)


def test_row_sums_are_the_matrix_times_ones() -> None:
    found = sums_of_stencil(problems.poisson7((3, 1, 2)))
    assert found[:, 0, :].tolist() == [[4.0, 4.0], [3.0, 3.0], [4.0, 4.0]]


@pytest.mark.parametrize("ending", [".npy", ".zarr"])
def test_solve_reads_and_writes_arrays(folder: Path, ending: str) -> None:
    b = np.random.default_rng(3).standard_normal(SHAPE)
    save(folder / f"b{ending}", b)
    good("solve", "--problem", "poisson7", *GRID, "--rhs", f"b{ending}", "--out", f"x{ending}", "--rtol", "1e-10")
    x = load(folder / f"x{ending}")
    padded = np.pad(x, 1)
    neighbors = sum(np.roll(padded, d, axis) for axis in range(3) for d in (-1, 1))
    ax = (6.0 * padded - neighbors)[1:-1, 1:-1, 1:-1]
    assert np.linalg.norm(b - ax) <= 1.01e-10 * np.linalg.norm(b)


def test_solve_reads_and_writes_zarr_on_workers(folder: Path) -> None:
    save(folder / "b.zarr", np.ones((32, 16, 16)))
    grid = ("--grid", "32", "16", "16", "--chunks", "2", "1", "1", "--device", "cpu")
    with forked():
        assert call("solve", *grid, "--rhs", "b.zarr", "--out", "x.zarr", "--workers", "2").exit_code == 0
    good("solve", *grid, "--rhs", "b.zarr", "--out", "x.npy")
    np.testing.assert_array_equal(load(folder / "x.zarr"), load(folder / "x.npy"))


@pytest.mark.parametrize("engine", ["resident", "graph"])
@pytest.mark.parametrize("ending", [".npy", ".zarr"])
def test_solve_reads_and_writes_zarr_on_a_cluster_that_runs(folder: Path, engine: str, ending: str) -> None:
    save(folder / "b.zarr", np.ones((32, 16, 16)))
    grid = ("--grid", "32", "16", "16", "--chunks", "2", "1", "1", "--device", "cpu", "--rtol", "0.1")
    with LocalCluster(n_workers=2, processes=False, protocol="tcp://", dashboard_address=":0") as cluster:
        where = ("--scheduler", cluster.scheduler_address, "--engine", engine)
        good("solve", *grid, "--rhs", "b.zarr", "--out", f"x{ending}", *where)
    good("solve", *grid, "--rhs", "b.zarr", "--out", "expected.npy")
    np.testing.assert_array_equal(load(folder / f"x{ending}"), load(folder / "expected.npy"))


@pytest.mark.parametrize("ending", [".npy", ".zarr"])
def test_what_cannot_be_written_leaves_nothing_behind(folder: Path, ending: str) -> None:
    save(folder / f"x{ending}", np.ones(SHAPE))
    lost = da.ones(SHAPE, chunks=8).map_blocks(_lost, dtype=float, meta=np.empty((0, 0, 0)))
    with pytest.raises(ArithmeticError):
        write_array(folder / f"x{ending}", lost, 3)
    assert [path.name for path in folder.iterdir()] == [f"x{ending}"]
    np.testing.assert_array_equal(load(folder / f"x{ending}"), np.ones(SHAPE))


def _lost(_: Any) -> Any:
    raise ArithmeticError


def test_not_converging_exits_with_1_and_advice(folder: Path) -> None:
    result = call("solve", *GRID, "--maxiter", "2", "--out", "x.npy")
    assert result.exit_code == 1
    assert "raise --maxiter" in result.stdout
    assert "x0" not in result.stdout, "advice in options, not in Python"
    assert (folder / "x.npy").exists()
    at_once = call("solve", *GRID, "--maxiter", "0").stdout
    assert "after 0 iterations\n" in at_once


def save(path: Path, values: Any) -> None:
    if path.suffix == ".npy":
        np.save(path, values)
    else:
        zarr.create_array(str(path), shape=values.shape, chunks=(8, 8, 8), dtype=values.dtype)[...] = values


def load(path: Path) -> Any:
    return np.load(path) if path.suffix == ".npy" else zarr.open_array(str(path), mode="r")[...]


# --- info ------------------------------------------------------------------------------------------------------------


def test_info_tells_versions_and_what_gpus_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.cli.info.find_gpu", lambda: NO_GPU)
    out = good("info")
    for name in ("dsolver", "python", "numpy", "numba", "dask", "distributed", "cupy", "dask-cuda", "nccl"):
        assert name in out
    assert re.search(r"CPUs that this process may use: [1-9]\d*\n", out)
    assert f"missing for GPUs: {NO_GPU}" in out


def test_info_on_a_machine_that_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.cli.info.find_gpu", lambda: Gpu(name="A GPU", bus="0000:01:00.0", memory=2**34))
    monkeypatch.setattr("dsolver.cli.info.versions.installed", lambda: {"dask-cuda": "26.10", "nccl": "2.27"})
    monkeypatch.setattr("dsolver.cli.info.compiled", lambda: "compiled in this package (cuda13-sm_90)")
    out = good("info")
    assert "kernels: compiled in this package (cuda13-sm_90)" in out
    assert "GPU: A GPU, 16 GiB" in out
    assert "Everything for GPUs is there" in out


def test_what_is_missing_comes_with_how_to_get_it() -> None:
    missing = missing_for_gpus(
        {"dask-cuda": None, "nccl": None}, "CuPy is not installed; pip install 'dsolver-hpc[cuda13]'"
    )
    assert len(missing) >= 2
    assert all("pip install 'dsolver-hpc[cuda13]'" in line for line in missing)


# --- warm ------------------------------------------------------------------------------------------------------------


def test_kernels_are_compiled_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.cli.kernels.SIZE", 8)
    lines = good("warm", "--device", "cpu").splitlines()
    assert [line.partition(":")[0] for line in lines] == list(kernels.KINDS)
    assert all(line.endswith("s, on resident/cpu") for line in lines)
    assert "matrices" in refused("warm", "tables")


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["hpcg", "solve"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--grid 20 16 16", "divisible by 8"),
        ("--grid 0 16 16", "every size must be at least 1"),
        ("--grid 16 16 16 --chunks 4 1 1", "choose a grid and chunks"),
        ("--grid 16 16 16 --chunks 32 1 1", "use fewer chunks"),
        ("--grid 16 16 16 --chunks 0 1 1", "every count must be at least 1"),
        ("--grid 16 16 16 --order rainbow", "use natural, color8, or eight classes"),
        ("--grid 16 16 16 --device cuda", NO_GPU),
        ("--grid 16 16 16 --kernels numpy --device cuda", "drop device='cuda'"),
        ("--grid 16 16 16 --engine graph", "add --workers 2"),
        ("--grid 16 16 16 --engine reference --workers 2", "drop --workers"),
        ("--grid 16 16 16 --workers 2 --scheduler tcp://127.0.0.1:8786", "only one of them"),
        ("--grid 16 16 16 --workers 0", "start at least 1"),
        ("--grid 16 16 16 --scheduler nowhere", "write it like tcp://"),
    ],
)
def test_bad_input_of_both_commands(command: str, arguments: str, message: str) -> None:
    cycle = ("--precond", "hpcg") if command == "solve" else ()
    assert message in refused(command, *cycle, *arguments.split())


def test_an_unreachable_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.cluster.local.CONNECT_SECONDS", 1)
    message = refused("hpcg", *GRID, "--scheduler", "tcp://127.0.0.1:1", "--quiet", status=3)
    assert "check the address" in message


def test_waiting_for_a_cluster_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    told, connect, echo = threading.Event(), local._connected, click.echo

    def heard(*args: Any, **options: Any) -> None:
        echo(*args, **options)
        told.set()

    def late(address: str) -> Any:
        assert told.wait(PATIENCE)
        return connect(address)

    monkeypatch.setattr(click, "echo", heard)
    monkeypatch.setattr(local, "_connected", late)
    monkeypatch.setattr(local, "CONNECT_SECONDS", 1)
    result = call("hpcg", *GRID, "--scheduler", "tcp://127.0.0.1:1", silence=0.01)
    first, second = result.stderr.splitlines()
    assert first == "connecting to tcp://127.0.0.1:1 ..."
    assert "no scheduler answers" in second


def test_more_workers_than_a_machine_can_start_are_refused() -> None:
    for command in (("solve", *GRID), ("cluster", "local", "--port", "0")):
        assert "100000 workers on this machine of" in refused(*command, "--workers", "100000")


@pytest.mark.parametrize("option", ["--out", "--spans", "--trace"])
def test_a_place_that_takes_no_file_is_found_before_the_solve(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only when x is there, which would be lost."""
    monkeypatch.setattr(dsolver, "solve", lambda *_, **__: pytest.fail("it was solved"))
    assert "cannot write /proc/x.npy" in refused("solve", *GRID, option, "/proc/x.npy")
    assert "it is a device or a pipe" in refused("solve", *GRID, "--spans", "/dev/null", "--force")


@pytest.mark.parametrize(("error", "told"), [(ConnectionError(), False), (ValueError(), True)])
@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("asyncio", "Task exception was never retrieved\nfuture: <Task finished>"),
        ("distributed.batched", "Batched Comm Closed <TCP (closed) Client->Scheduler>"),
    ],
)
def test_what_a_lost_connection_cuts_off_is_not_told_of(log: str, said: str, error: Exception, *, told: bool) -> None:
    set_volume(quiet=False, verbose=False)
    record = logging.LogRecord(log, logging.ERROR, "", 0, said, None, (type(error), error, None))
    assert bool(logging.getLogger(log).filter(record)) == told


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("dsolver.kernels.first_use", "compiling, 3 by now ..."),
        ("dsolver.engines", "WARNING compiling, 3 by now ..."),
    ],
)
def test_that_kernels_are_compiled_is_no_warning(log: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_volume(quiet=False, verbose=False)
    logging.getLogger(log).warning("compiling, %d by now ...", 3)
    assert capsys.readouterr().err == f"{line}\n"


def test_a_warning_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    set_volume(quiet=True, verbose=False)
    assert warnings.formatwarning("b does not balance", UserWarning, "core.py", 3) == "warning: b does not balance\n"


def test_a_scheduler_that_dies_ends_the_command_with_one_line_and_exit_status_3(tmp_path: Path) -> None:
    """Dask's own tracebacks were before it, and the status said that the input was bad."""
    file = tmp_path / "scheduler.json"
    worker = ("--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", "--no-dashboard")
    with (
        scheduler_in_a_process(file, "--dashboard-address", "127.0.0.1:0") as scheduler,
        process_of("distributed.cli.dask_worker", *worker),
    ):
        command = ["hpcg", "--grid", "16", "16", "16", "--device", "cpu", "--time", "1000", "--wait-workers", "1"]
        with subprocess.Popen(
            [sys.executable, "-m", "dsolver", *command, "--scheduler", str(file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            try:
                assert running.stderr is not None
                while "dashboard" not in (said := running.stderr.readline()):
                    assert said.startswith(("connecting", "waiting")), said
                time.sleep(2.0)
                scheduler.kill()
                _, said = running.communicate(timeout=PATIENCE)
            finally:
                running.kill()
    assert running.returncode == 3
    (line,) = outcome(said)
    assert line.startswith("error: ")


def test_gpu_workers_without_dask_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    assert "pip install 'dsolver-hpc[cuda13]'" in refused("hpcg", *GRID, "--device", "cuda", "--workers", "2")


@pytest.mark.parametrize(("arguments", "message"), [("--iterations 0", "at least 1"), ("--time -1", "0 or more")])
def test_bad_input_of_hpcg(arguments: str, message: str) -> None:
    assert message in refused("hpcg", *GRID, *arguments.split())


@pytest.mark.parametrize(("arguments", "message"), [("--rtol -1", "rtol"), ("--maxiter -1", "maxiter")])
def test_bad_input_of_solve(arguments: str, message: str) -> None:
    assert message in refused("solve", *GRID, *arguments.split())


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        (
            "b.npy",
            lambda path: np.save(path, np.ones((16, 16, 8))),
            "has shape (16, 16, 8), but --grid is (16, 16, 16)",
        ),
        ("b.zarr", lambda path: save(path, np.ones((8, 16, 16))), "has shape (8, 16, 16)"),
        ("b.npy", lambda path: np.save(path, np.full(SHAPE, np.nan)), "NaN or infinity"),
        ("b.npy", lambda path: np.save(path, np.full(SHAPE, np.inf)), "NaN or infinity"),
        ("b.npy", lambda path: path.write_text("hello"), "no array of numbers"),
        ("b.npy", lambda path: path.write_bytes(b""), "no array of numbers"),
        ("b.npy", lambda path: path.mkdir(), "cannot read b.npy"),
        ("b.npy", lambda _path: None, "there is no such file"),
        ("b.zarr", lambda path: path.mkdir(), "no zarr array"),
        ("b.txt", lambda path: path.write_text("1.0"), "ends with .npy, .zarr, .nc, .h5 or .mtx"),
    ],
)
def test_bad_right_hand_sides(folder: Path, name: str, make: Callable[[Path], Any], message: str) -> None:
    make(folder / name)
    assert message in refused("solve", *GRID, "--rhs", name, "--out", "x.npy")
    assert not (folder / "x.npy").exists()


@pytest.mark.parametrize(
    ("command", "option", "name"),
    [("hpcg", "--json", "out.json"), ("solve", "--out", "x.npy"), ("solve", "--out", "x.zarr")],
)
def test_an_existing_output_is_kept_unless_forced(folder: Path, command: str, option: str, name: str) -> None:
    arguments = [command, *GRID, option, name, *(["--iterations", "1"] if command == "hpcg" else [])]
    good(*arguments)
    before = sorted(path.stat().st_mtime_ns for path in [folder / name, *folder.rglob("*")])
    assert "add --force" in refused(*arguments)
    assert sorted(path.stat().st_mtime_ns for path in [folder / name, *folder.rglob("*")]) == before
    good(*arguments, "--force")


def test_a_folder_that_is_no_zarr_array_is_never_replaced(folder: Path) -> None:
    (folder / "x.zarr").mkdir()
    (folder / "x.zarr" / "thesis.txt").write_text("years of work", encoding="utf-8")
    assert "not even with --force" in refused("solve", *GRID, "--out", "x.zarr", "--force")
    assert (folder / "x.zarr" / "thesis.txt").exists()


def test_an_output_that_could_not_be_written_is_refused_before_the_work() -> None:
    assert "does not exist" in refused("hpcg", *GRID, "--json", "nowhere/out.json")
    assert "ends with .npy, .zarr, .nc, .h5 or .mtx" in refused("solve", *GRID, "--out", "x.txt")


def test_an_output_that_cannot_be_written_after_all_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(InputError, match=r"cannot write x.npy: No space left on device"):
        write_array(Path("x.npy"), np.ones(SHAPE), 3)
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ("solve", "--out", "x.npy", "--spans", "x.npy"),
        ("solve", "--spans", "a.json", "--trace", "./a.json"),
        ("hpcg", "--json", "a.json", "--trace", "a.json"),
    ],
)
def test_two_outputs_have_two_names(folder: Path, arguments: tuple[str, ...]) -> None:
    command, *outputs = arguments
    assert "is named for two outputs" in refused(command, *GRID, *outputs)
    assert not list(folder.iterdir())


def test_a_grid_that_memory_cannot_hold_is_told_in_a_line() -> None:
    for command in ("solve", "hpcg"):
        assert "TiB" in refused(command, "--grid", *3 * ("80000",), "--device", "cpu")


def test_memory_that_runs_out_all_the_same_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: Any) -> None:
        raise MemoryError("Unable to allocate 5 GiB")

    monkeypatch.setattr("dsolver.benchmarks.hpcg.run", short)
    assert "memory does not suffice: Unable to allocate" in refused("hpcg", *GRID)


def test_an_interrupt_ends_a_cluster_of_our_own_quietly() -> None:
    """As a terminal does it: Ctrl-C goes to the command and to its workers."""
    program = "import signal, dsolver.cli; signal.signal(2, signal.default_int_handler); dsolver.cli.main()"
    arguments = ["hpcg", *GRID, "--chunks", "2", "1", "1", "--workers", "2", "--device", "cpu", "--time", "1000"]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            assert running.stderr is not None
            while "dashboard" not in (said := running.stderr.readline()):
                assert said == "starting 2 workers on this machine ...\n"
            time.sleep(1.0)
            os.killpg(running.pid, signal.SIGINT)
            _, said = running.communicate(timeout=PATIENCE)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 130, "as after any command that Ctrl-C ends"
    assert outcome(said) == ["error: interrupted"]


def test_a_reader_that_has_gone_takes_no_file_with_it(tmp_path: Path) -> None:
    """The exit status was that of a solve that has not converged, and nothing was in --json."""
    command = [
        sys.executable,
        "-m",
        "dsolver",
        "solve",
        "--problem",
        "poisson7",
        *GRID,
        "--json",
        str(tmp_path / "x.json"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        said = running.stderr.read()
    assert running.returncode == 141, "as after any command whose pipe is broken"
    assert outcome(said) == []
    assert json.loads((tmp_path / "x.json").read_text())["converged"]


def test_other_errors_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: Any) -> None:
        raise KeyError("a fault of ours")

    monkeypatch.setattr("dsolver.benchmarks.hpcg.run", fault)
    with pytest.raises(KeyError):
        call("hpcg", *GRID, "--iterations", "1")


def test_a_cluster_has_one_worker_at_least() -> None:
    assert count_and_device(None, 1) == (1, "cpu")
    with pytest.raises(InputError, match="0 workers: start at least 1"):
        count_and_device(None, 0)


def test_files_and_arrays_of_zarr_travel_with_a_command_and_other_folders_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("kappa.zarr", "results"):
        Path(folder).mkdir()
    Path("b.npy").touch()
    command = ["solve", "--kappa", "kappa.zarr", "--rhs", "b.npy", "--source", "results", "--x0", "none.zarr"]
    assert sent([], command) == [Path("kappa.zarr"), Path("b.npy")]
