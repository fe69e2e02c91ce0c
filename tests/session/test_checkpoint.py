from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsolver
from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.session.checkpoints import checkpoint, saves
from dsolver.session.checkpoints.checkpoint import Checkpoint

GRID = (6, 5, 4)
PARTITION = Partition(GRID, (2, 1, 2))


def blocks(values: Any, partition: Partition = PARTITION) -> dict[int, Any]:
    return {chunk.number: values[chunk.box.slices] for chunk in partition}


def iterate(seed: int) -> Any:
    return np.random.default_rng(seed).random(GRID)


@pytest.fixture
def store(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "store", every=0.0)


def save(store: Checkpoint, seed: int) -> None:
    store.save(PARTITION, blocks(iterate(seed)), iteration=seed, residual=1.0 / seed, b_norm=2.0)


def test_nothing_saved_is_no_iterate(store: Checkpoint) -> None:
    assert store.newest(GRID) is None
    assert not store.path.exists()


def test_the_newest_iterate_comes_back_to_the_bit(store: Checkpoint) -> None:
    for seed in (1, 2, 3):
        save(store, seed)
    found = Checkpoint(store.path).newest(GRID)
    assert found is not None
    saved, values = found
    assert (saved.iteration, saved.residual, saved.b_norm) == (3, 1.0 / 3.0, 2.0)
    np.testing.assert_array_equal(values, iterate(3))
    assert len([path for path in store.path.iterdir() if path.is_dir()]) == 2


def test_another_cut_continues(store: Checkpoint) -> None:
    save(store, 1)
    other = Partition(GRID, (1, 2, 1))
    store.save(other, blocks(iterate(2), other), iteration=2, residual=0.5, b_norm=2.0)
    found = store.newest(GRID)
    assert found is not None
    np.testing.assert_array_equal(found[1], iterate(2))


def damage(store: Checkpoint, array: str) -> None:
    """Turn over one byte of one chunk, as a failing disk does."""
    chunk = next(path for path in sorted((store.path / array / "c").rglob("*")) if path.is_file())
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 0x10
    chunk.write_bytes(content)


def test_a_damaged_save_is_noticed_and_the_one_before_takes_its_place(store: Checkpoint) -> None:
    save(store, 1)
    save(store, 2)
    damage(store, "x-2")
    found = store.newest(GRID)
    assert found is not None
    assert found[0].iteration == 1
    np.testing.assert_array_equal(found[1], iterate(1))
    damage(store, "x-1")
    with pytest.raises(InputError, match=r"is damaged: x-2 \(.*; x-1 .*Begin without it"):
        store.newest(GRID)


def without_a_chunk(store: Checkpoint, array: str) -> None:
    """As a copy leaves it that was broken off."""
    next(path for path in sorted((store.path / array / "c").rglob("*")) if path.is_file()).unlink()


def cut_off(store: Checkpoint, array: str) -> None:
    chunk = next(path for path in sorted((store.path / array / "c").rglob("*")) if path.is_file())
    chunk.write_bytes(chunk.read_bytes()[:11])


@pytest.mark.parametrize("harm", [damage, without_a_chunk, cut_off])
def test_a_solve_that_passes_over_a_damaged_save_says_so(tmp_path: Path, harm: Callable[..., None]) -> None:
    """A chunk whose file was missing was read as zeros."""
    problem = dsolver.problems.poisson7((16, 8, 8), chunks=(2, 1, 1))
    b, store = np.ones(problem.grid), Checkpoint(tmp_path / "store", every=0.0)
    dsolver.solve(problem, b, checkpoint=store, maxiter=4, device="cpu")
    first, second = (saved.iteration for saved in store._index())
    harm(store, store._index()[-1].array)
    with pytest.warns(
        RuntimeWarning, match=f"is damaged: .*the solve begins from the save before, of iteration {first}"
    ):
        solution = dsolver.solve(problem, b, resume=store, device="cpu")
    assert first < second
    assert solution.converged
    assert len(solution.notes) == 1
    assert "is damaged" in solution.notes[0]
    begun = dsolver.solve(problem, b, device="cpu", maxiter=first)
    assert solution.residuals[0] == pytest.approx(begun.true_residual)


def test_an_iterate_of_zeros_is_whole(store: Checkpoint) -> None:
    """Also where the store leaves out what it would read anyhow."""
    store.save(PARTITION, blocks(np.zeros(GRID)), iteration=1, residual=0.5, b_norm=2.0)
    found = store.newest(GRID)
    assert found is not None
    assert not found[1].any()


def test_a_crash_at_any_point_of_a_save_leaves_the_one_before(
    store: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, 1)

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(saves, "commit", crash)
        with pytest.raises(KeyboardInterrupt):
            save(store, 2)
    assert (store.path / "x-2").exists()
    found = Checkpoint(store.path).newest(GRID)
    assert found is not None
    assert found[0].iteration == 1
    save(store, 3)
    found = Checkpoint(store.path).newest(GRID)
    assert found is not None
    assert found[0].iteration == 3


@pytest.mark.parametrize("before", [0, 3])
def test_a_kill_during_a_save_leaves_a_folder_that_is_tidied_up(
    store: Checkpoint, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed during the very first save, it left a folder that was refused; later on, one that stayed for ever."""
    for seed in range(1, before + 1):
        save(store, seed)

    class Killed(dict[int, Any]):
        def __getitem__(self, number: int) -> Any:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "remove", lambda *_: None)  # a killed process removes nothing
        with pytest.raises(KeyboardInterrupt):
            store.save(PARTITION, Killed(), iteration=9, residual=0.5, b_norm=2.0)
    assert (store.path / f"x-{before + 1}").is_dir()
    (store.path / "x-77").mkdir()  # as a kill leaves it after a save, before those that are too old are removed
    (store.path / "x-mine").mkdir()
    save(Checkpoint(store.path), 4)
    assert {path.name for path in store.path.iterdir()} == {
        "saves.json",
        "x-mine",
        *(f"x-{serial}" for serial in range(max(1, before), before + 2)),
    }


def test_links_of_others_are_not_followed(store: Checkpoint, tmp_path: Path) -> None:
    """In a folder that others can write."""
    kept, folder = tmp_path / "kept", tmp_path / "folder"
    kept.write_text("mine")
    folder.mkdir()
    (folder / "zarr.json").write_text("mine")
    save(store, 1)
    (store.path / ".saves.json.new").symlink_to(kept)
    (store.path / "x-2").symlink_to(folder)
    save(store, 2)
    assert not (store.path / "x-2").is_symlink()
    assert kept.read_text() == (folder / "zarr.json").read_text() == "mine"
    assert len(list(folder.iterdir())) == 1
    found = store.newest(GRID)
    assert found is not None
    np.testing.assert_array_equal(found[1], iterate(2))


def test_a_save_that_is_exchanged_while_it_is_written_leads_nowhere(store: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    save(store, 1)

    class Exchanging(dict[int, Any]):
        def __getitem__(self, number: int) -> Any:
            if number == 1:
                (store.path / "x-2").rename(tmp_path / "aside")
                (store.path / "x-2").symlink_to(tmp_path / "folder")
            return super().__getitem__(number)

    store.save(PARTITION, Exchanging(blocks(iterate(2))), iteration=2, residual=0.5, b_norm=2.0)
    assert not list((tmp_path / "folder").iterdir())
    found = store.newest(GRID)
    assert found is not None
    assert found[0].iteration == 1


def as_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_a_link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to("../elsewhere")


@pytest.mark.parametrize("become", [as_a_pipe, as_a_link])
def test_an_index_that_is_no_plain_file_is_refused(store: Checkpoint, become: Callable[[Path], None]) -> None:
    """A pipe was waited for without an end."""
    save(store, 1)
    become(store.path / "saves.json")
    with pytest.raises(InputError, match=r"saves\.json cannot be read"):
        store.newest(GRID)


def linked_chunk(array: Path) -> None:
    chunk = next(path for path in array.joinpath("c").rglob("*") if path.is_file())
    chunk.unlink()
    chunk.symlink_to("/dev/zero")


def linked_folder(array: Path) -> None:
    array.rename(array.parent.parent / "elsewhere")
    array.symlink_to("../elsewhere")


def pipe_as_chunk(array: Path) -> None:
    as_a_pipe(next(path for path in array.joinpath("c").rglob("*") if path.is_file()))


def tiny_chunks(array: Path) -> None:
    about = json.loads((array / "zarr.json").read_text())
    about["chunk_grid"]["configuration"]["chunk_shape"] = [1, 1, 1]
    (array / "zarr.json").write_text(json.dumps(about))


def huge_chunk(array: Path) -> None:
    os.truncate(next(path for path in array.joinpath("c").rglob("*") if path.is_file()), 1 << 40)


def huge_description(array: Path) -> None:
    os.truncate(array / "zarr.json", 1 << 40)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (linked_chunk, "is no plain file"),
        (linked_folder, "Not a directory|symbolic links"),
        (pipe_as_chunk, "is no plain file"),
        (tiny_chunks, "116 of 120 chunks are missing"),
        (huge_chunk, "a chunk is larger than the grid"),
        (huge_description, "its description is too long"),
    ],
)
def test_what_would_cost_more_than_a_save_is_not_read(
    store: Checkpoint, harm: Callable[[Path], None], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, 1)
    harm(store.path / "x-1")
    monkeypatch.setattr("zarr.Array.__getitem__", None)
    with pytest.raises(InputError, match=rf"is damaged: x-1 \(.*({why}).*Begin without it"):
        store.newest(GRID)


def test_an_index_that_is_damaged_during_a_solve_ends_the_saves_but_not_the_solve(tmp_path: Path) -> None:
    problem = dsolver.problems.poisson7((16, 8, 8))
    store = Checkpoint(tmp_path / "store", every=0.0)

    def harm(state: dsolver.State) -> None:
        if state.iteration == 3:
            (store.path / "saves.json").write_text("garbage")

    with pytest.warns(RuntimeWarning, match=r"could not be written: .*saves\.json cannot be read.*goes on without"):
        solution = dsolver.solve(problem, np.ones(problem.grid), checkpoint=store, callback=harm, device="cpu")
    assert solution.converged


@pytest.mark.parametrize(("kappa", "size"), [(1e-200, 1e-200), (1.0, 1e-200), (1e200, 1.0)])
def test_saves_are_of_the_x_that_was_asked_for(tmp_path: Path, kappa: float, size: float) -> None:
    """Iterates of systems that are solved times powers of two, of a matrix and of a grid with values at a face."""
    problem, b = dsolver.problems.diffusion(GRID, kappa, bc={"x-": dsolver.problems.Dirichlet(size)}), size * iterate(1)
    options: dict[str, Any] = {"M": None, "device": "cpu", "rtol": 1e-8}
    for system, right in ((problem, b), (dsolver.matrix(problem.to_scipy()), b.ravel())):
        folder = tmp_path / str(right.ndim)
        begun = dsolver.solve(system, right, maxiter=6, checkpoint=Checkpoint(folder, every=0.0), **options)
        resumed = dsolver.solve(system, right, resume=folder, **options)
        assert resumed.converged
        assert resumed.residuals[0] == pytest.approx(begun.true_residual)


def test_a_full_disk_leaves_nothing_behind(store: Checkpoint) -> None:
    save(store, 1)

    class Full(dict[int, Any]):
        def __getitem__(self, number: int) -> Any:
            if number == 3:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().__getitem__(number)

    with pytest.raises(OSError, match="No space left"):
        store.save(PARTITION, Full(blocks(iterate(2))), iteration=2, residual=0.5, b_norm=2.0)
    assert not (store.path / "x-2").exists()
    found = store.newest(GRID)
    assert found is not None
    assert found[0].iteration == 1


def test_another_grid_is_refused(store: Checkpoint) -> None:
    save(store, 1)
    with pytest.raises(InputError, match=r"was saved for the grid \(6, 5, 4\), not for \(8, 5, 4\)"):
        store.newest((8, 5, 4))


def test_a_damaged_index_is_told(store: Checkpoint) -> None:
    save(store, 1)
    for damaged in ("[{", "[" * 200_000):
        (store.path / "saves.json").write_text(damaged)
        with pytest.raises(InputError, match=r"saves\.json cannot be read"):
            store.newest(GRID)


@pytest.mark.parametrize("name", ["../kept", "/kept", "x-1/../../kept", "x-", "y-1"])
def test_an_index_that_names_anything_but_saves_is_refused_and_nothing_is_removed(store: Checkpoint, name: str) -> None:
    save(store, 1)
    kept = store.path.parent / "kept"
    kept.mkdir()
    index = store.path / "saves.json"
    (first,) = json.loads(index.read_text())
    index.write_text(json.dumps([first | {"array": name}, first]))
    with pytest.raises(InputError, match="is no name of a save"):
        store.newest(GRID)
    with pytest.raises(InputError, match="is no name of a save"):
        save(store, 2)
    assert kept.is_dir()


class Ran:
    """Object that runs where it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("ran",)


def hostile(kind: str) -> tuple[dict[str, Any], str, bytes]:
    """Description of a Zarr array that no save has written, the name of its file, and that of its only chunk."""
    second = {"zarr_format": 2, "shape": GRID, "chunks": GRID, "dtype": "<f8", "order": "C", "fill_value": 0.0}
    code, plain = pickle.dumps(Ran()), np.zeros(GRID).tobytes()
    match kind:
        case "pickles as objects":
            more = {"dtype": "|O", "filters": [{"id": "pickle"}], "compressor": None, "fill_value": None}
            return second | more, "0.0.0", code
        case "pickles as a filter":
            return second | {"filters": [{"id": "pickle"}], "compressor": None}, "0.0.0", code
        case "pickles as a compressor":
            return second | {"filters": None, "compressor": {"id": "pickle"}}, "0.0.0", code
        case "a size that no memory has":
            huge = [10**6, 10**6, 10**6]
            return second | {"shape": huge, "chunks": huge, "filters": None, "compressor": None}, "0.0.0", plain
    packed = zlib.compress(bytes(np.zeros(GRID).nbytes))
    return second | {"filters": None, "compressor": {"id": "zlib", "level": 1}}, "0.0.0", packed


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "kind",
    ["pickles as objects", "pickles as a filter", "pickles as a compressor", "a size that no memory has", "a codec"],
)
def test_what_no_save_has_written_is_not_read_and_runs_nothing(
    store: Checkpoint, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, 1)
    monkeypatch.chdir(store.path.parent)
    shutil.rmtree(store.path / "x-1")
    (store.path / "x-1").mkdir()
    about, name, chunk = hostile(kind)
    (store.path / "x-1" / ".zarray").write_text(json.dumps(about))
    (store.path / "x-1" / name).write_bytes(chunk)
    with pytest.raises(InputError, match=r"is damaged: x-1 \(.*Begin without it"):
        store.newest(GRID)
    assert not Path("ran").exists()


def test_a_folder_that_cannot_be_made_is_refused_at_once(tmp_path: Path) -> None:
    """A fault that was told of after the first interval alone: the folder around is gone, as that of a disk may be."""
    (gone := tmp_path / "gone").mkdir()
    store = Checkpoint(gone / "saves", every=1e6)
    gone.rmdir()
    for b in (np.ones(GRID), np.ones((*GRID, 2))):
        with pytest.raises(InputError, match=r"saves cannot be written: .*; name another folder"):
            dsolver.solve(dsolver.problems.poisson7(GRID), b, device="cpu", checkpoint=store)


def test_folders_of_others_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something that is no checkpoint"):
        Checkpoint(tmp_path)
    with pytest.raises(InputError, match="is a file"):
        Checkpoint(tmp_path / "notes.txt")
    with pytest.raises(InputError, match="does not exist"):
        Checkpoint(tmp_path / "a" / "b")
    with pytest.raises(InputError, match="seconds >= 0"):
        Checkpoint(tmp_path / "new", every=-1.0)
    number: Any = "30"
    with pytest.raises(InputError, match="every must be seconds >= 0, not '30'"):
        Checkpoint(tmp_path / "new", every=number)
    nothing: Any = None
    with pytest.raises(InputError, match="a checkpoint is a folder, not None"):
        Checkpoint(nothing)


def test_it_is_due_when_the_time_has_come(tmp_path: Path) -> None:
    assert Checkpoint(tmp_path / "a", every=0.0).due
    assert not Checkpoint(tmp_path / "a", every=1e6).due


def test_the_index_is_plain(store: Checkpoint) -> None:
    save(store, 1)
    assert json.loads((store.path / "saves.json").read_text())[0]["array"] == "x-1"
