"""Several right-hand sides in one array: the last axis counts them, for grids and matrices, in every call and kind."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client

import dsolver
from dsolver import problems
from dsolver.errors import InputError
from dsolver.krylov.methods import METHODS
from dsolver.session.user_arrays import several
from tests.krylov.test_methods import matrix_for
from tests.support.clusters import cluster

GRID = (6, 5, 4)
POINTS = problems.poisson7(GRID)
RNG = np.random.default_rng(5)
B = RNG.standard_normal((*GRID, 3))
HERE: Any = {"device": "cpu"}


def test_a_call_solves_for_several_and_each_has_the_bits_that_it_has_alone() -> None:
    for problem, b in ((POINTS, B), (problems.poisson5((6, 5)), B[:, :, 0]), (sp.eye_array(6) * 2.0, B[:, 0, 0])):
        found: Any = dsolver.solve(problem, b, **HERE)
        assert isinstance(found, dsolver.Solutions)
        assert found.converged
        assert found.x.shape == b.shape
        for number, one in enumerate(found):
            assert np.array_equal(one.x, dsolver.solve(problem, b[..., number].copy(), **HERE).x)
            assert np.array_equal(found.x[..., number], one.x)
            assert np.linalg.norm(one.residual) == pytest.approx(one.true_residual, rel=1e-6, abs=1e-14)
        warm: Any = dsolver.solve(problem, b, x0=found.x, **HERE)
        assert [one.iterations for one in warm] == [0, 0, 0]


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_functions_of_scipys_kind_take_them(method: str) -> None:
    a = matrix_for(method, 40, 2)
    b: Any = a @ np.random.default_rng(2).standard_normal((40, 3))
    x, info = getattr(dsolver, method)(a, b, rtol=1e-10, **HERE)
    assert info == 0
    assert x.shape == (40, 3)
    assert (np.linalg.norm(a @ x - b, axis=0) <= 1e-9 * np.linalg.norm(b, axis=0)).all()
    more = {"restart": 1} if "gmres" in method else {}
    short, info = getattr(dsolver, method)(a, b, rtol=1e-10, maxiter=1, **more, **HERE)
    assert short.shape == (40, 3)
    assert info > 0


def test_vectors_of_a_grid_may_be_raveled_each() -> None:
    flat, info = dsolver.cg(POINTS, B.reshape(-1, 3), rtol=1e-10, **HERE)
    assert info == 0
    assert flat.shape == (math.prod(GRID), 3)
    shaped, _ = dsolver.cg(POINTS, B, rtol=1e-10, **HERE)
    assert np.array_equal(flat.reshape(B.shape), shaped)
    seen: list[Any] = []
    dsolver.cg(POINTS, B.reshape(-1, 3), callback=lambda x: seen.append(x.shape), **HERE)
    assert set(seen) == {(math.prod(GRID),)}


def test_the_info_is_that_of_the_worst() -> None:
    a = sp.diags_array([1.0, 2.0, -3.0])
    x, info = dsolver.cg(a, np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]), **HERE)
    assert info == -1
    assert x[:, 0] == pytest.approx([1.0, 0.0, 0.0])


def test_pictures_and_columns_in_any_order_of_memory() -> None:
    plane = problems.diffusion((7, 9), sigma=1.0)
    picture = RNG.integers(0, 256, (7, 9, 3)).astype(np.uint8)
    wanted = np.stack([dsolver.solve(plane, picture[..., i].astype(float), **HERE).x for i in range(3)], axis=-1)
    for given in (picture, np.asfortranarray(picture), np.moveaxis(np.moveaxis(picture, -1, 0).copy(), 0, -1)):
        found = dsolver.solve(plane, given, **HERE)
        assert np.array_equal(found.x, wanted)


def test_columns_of_a_table() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    a, b = sp.eye_array(6) * 2.0, pandas.DataFrame({"first": np.arange(6.0), "second": np.ones(6)})
    assert np.allclose(dsolver.solve(a, b, **HERE).x, 0.5 * b.to_numpy())
    assert np.allclose(dsolver.solve(a, b["first"], **HERE).x, 0.5 * np.arange(6.0))


def test_a_file_that_is_open_is_read_once(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    stored = zarr.create_array(str(tmp_path / "b.zarr"), shape=B.shape, chunks=(3, 5, 4, 1), dtype="float64")
    stored[...] = B
    found: Any = dsolver.solve(POINTS, stored, **HERE)
    assert np.array_equal(found.x, dsolver.solve(POINTS, B, **HERE).x)
    assert found[1].remade._b.base is not None, "a residual keeps a view"


def test_the_last_axis_counts_where_the_first_could() -> None:
    plane = problems.poisson5((3, 3))
    b = RNG.standard_normal((3, 3, 3))
    found: Any = dsolver.solve(plane, b, **HERE)
    assert np.array_equal(found[1].x, dsolver.solve(plane, b[:, :, 1], **HERE).x)


def test_one_of_several_axes_and_a_list_of_planes_are_what_they_were() -> None:
    """A column of a matrix is one vector, an axis of length 1 behind a grid's counts one; planes are a grid."""
    assert isinstance(dsolver.solve(sp.eye_array(6), np.ones((6, 1)), **HERE), dsolver.Solution)
    assert dsolver.solve(POINTS, B[..., :1], **HERE).x.shape == (*GRID, 1)
    listed = dsolver.solve(POINTS, list(B[..., 0]), **HERE)
    assert isinstance(listed, dsolver.Solution)
    assert np.array_equal(listed.x, dsolver.solve(POINTS, B[..., 0], **HERE).x)
    assert isinstance(dsolver.solve(POINTS, [B[..., 0], B[..., 1]], **HERE).x, list)


def test_arrays_are_turned_slab_by_slab_and_not_where_columns_lie_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(several.SLAB, "numpy", 200)
    turned = several.turned(B)
    assert turned.flags.c_contiguous
    assert np.array_equal(turned, np.moveaxis(B, -1, 0))
    assert np.array_equal(several.stacked(list(turned), B), B)
    assert np.shares_memory(several.turned(np.moveaxis(turned, 0, -1)), turned)


def counted(block: Any, path: str) -> Any:
    with Path(path).open("a") as file:
        file.write("x")
    return block


@pytest.fixture(scope="module")
def client() -> Any:
    with cluster(2) as client:
        yield client


@pytest.mark.parametrize("there", [False, True])
def test_a_dask_array_is_computed_once_for_all(there: bool, client: Client, tmp_path: Path) -> None:
    problem, path = problems.poisson7(GRID, chunks=(2, 1, 1)), str(tmp_path / "calls")
    lazy = da.from_array(B, chunks=(3, 5, 4, 2)).map_blocks(counted, path, dtype=B.dtype, meta=B[:0])
    where: Any = client if there else False
    found = dsolver.solve(problem, lazy, client=where, **HERE)
    assert len(Path(path).read_text()) == 4
    assert isinstance(found.x, da.Array)
    assert found.x.chunks == ((3, 3), (5,), (4,), (3,))
    wanted = dsolver.solve(problem, B, client=False, **HERE)
    assert np.array_equal(np.asarray(found.x), wanted.x)


def test_each_has_saves_of_its_own(tmp_path: Path) -> None:
    store = dsolver.Checkpoint(tmp_path / "saves", every=0.0)
    first: Any = dsolver.solve(POINTS, B, M=None, checkpoint=store, maxiter=6, **HERE)
    assert sorted(path.name for path in store.path.iterdir()) == ["column-0", "column-1", "column-2"]
    again: Any = dsolver.solve(POINTS, B, M=None, checkpoint=store.path, resume=store.path, rtol=1e-10, **HERE)
    assert again.converged
    for before, after in zip(first, again, strict=True):
        assert after.residuals[0] == pytest.approx(before.true_residual, rel=1e-6)
    store = dsolver.Checkpoint(tmp_path / "other")
    store.path.mkdir()
    (store.path / "column-0").symlink_to(tmp_path)
    with pytest.raises(InputError, match="is a link, which is not followed"):
        dsolver.solve(POINTS, B, checkpoint=store, **HERE)


@pytest.mark.gpu
def test_on_a_gpu_arrays_are_turned_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    monkeypatch.setitem(several.SLAB, "cupy", 200)
    turned = several.turned(cupy.asarray(B))
    assert isinstance(turned, cupy.ndarray)
    assert np.array_equal(cupy.asnumpy(turned), np.moveaxis(B, -1, 0))
    assert np.array_equal(cupy.asnumpy(several.stacked(list(turned), cupy.asarray(B))), B)
    a = sp.diags_array([np.full(63, -1.0), np.full(64, 2.5), np.full(63, -1.0)], offsets=[-1, 0, 1])
    b = RNG.standard_normal((64, 2))
    found = dsolver.solve(a, cupy.asarray(b), M="jacobi", device="cuda", rtol=1e-10)
    assert isinstance(found.x, cupy.ndarray)
    assert np.allclose(a @ cupy.asnumpy(found.x), b)
