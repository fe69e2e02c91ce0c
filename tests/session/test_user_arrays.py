"""Every kind of array comes back as the kind that it was, with and without a cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from distributed import Client, futures_of

import dsolver
from dsolver import Status, problems, solve
from dsolver.engines.spmd import worker
from dsolver.errors import InputError
from tests.support.clusters import cluster
from tests.support.waiting import gone

F64 = npt.NDArray[np.float64]
GRID = (16, 16, 24)
CHUNKS = (2, 1, 3)
PROBLEM = problems.poisson7(GRID, chunks=CHUNKS)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers as threads of this process, where their ranks can be looked at."""
    with cluster(2) as client:
        yield client


@pytest.fixture(params=["here", "on a cluster"])
def where(request: pytest.FixtureRequest) -> Iterator[Client | None]:
    """The client to pass, or None, and then Dask knows of no cluster either."""
    if request.param == "here":
        with dask.config.set(scheduler="threads"):
            yield None
    else:
        yield request.getfixturevalue("client")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert gone(lambda: list(worker._RANKS))


@pytest.fixture(scope="module")
def b() -> F64:
    return np.random.default_rng(2).integers(-9, 10, GRID).astype(np.float64)


@pytest.fixture(scope="module")
def expected(b: F64) -> F64:
    x: F64 = solve(PROBLEM, b).x
    return x


# -- NumPy -------------------------------------------------------------------------------------------------------------


def strided(values: F64) -> F64:
    """Equal values, with memory between them that is not theirs."""
    wide = np.full(tuple(2 * n for n in values.shape), np.nan)
    view = wide[::2, 1::2, ::-2]
    view[:] = values
    return view


KINDS: dict[str, Any] = {
    "as it is": lambda b: b,
    "Fortran order": np.asfortranarray,
    "not contiguous": strided,
    "a transposed view": lambda b: np.ascontiguousarray(b.T).T,
    "float32": lambda b: b.astype(np.float32),
    "float16": lambda b: b.astype(np.float16),
    "int64": lambda b: b.astype(np.int64),
    "int8": lambda b: b.astype(np.int8),
    "big-endian": lambda b: b.astype(">f8"),
    "lists": lambda b: b.tolist(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_in_numpy_out(kind: str, where: Client | None, b: F64, expected: F64) -> None:
    x = solve(PROBLEM, KINDS[kind](b), client=where).x
    assert type(x) is np.ndarray
    assert x.dtype == np.float64
    assert x.shape == GRID
    assert x.flags.c_contiguous
    assert x.tobytes() == expected.tobytes(), "the values are the same, so the bits are"


def test_a_guess_may_be_of_any_kind(where: Client | None, b: F64, expected: F64) -> None:
    for guess in (expected, np.asfortranarray(expected), strided(expected), da.from_array(expected, chunks=5)):
        solution = solve(PROBLEM, b, x0=guess, client=where)
        assert solution.iterations == 0
        assert (solution.x == expected).all()


# -- Dask --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [(8, 16, 8), (5, 7, 24), (16, 16, 24)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_dask_in_dask_out_with_one_block_a_chunk(
    chunks: tuple[int, int, int], dtype: Any, where: Client | None, b: F64, expected: F64
) -> None:
    x = solve(PROBLEM, da.from_array(b.astype(dtype), chunks=chunks), client=where).x
    assert isinstance(x, da.Array)
    assert x.dtype == np.float64
    assert x.chunks == ((8, 8), (16,), (8, 8, 8))
    values = x.compute()
    assert type(values) is np.ndarray
    assert values.tobytes() == expected.tobytes()


def test_a_dask_array_is_never_gathered(client: Client, b: F64, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that go from worker to worker; the client sees only their futures."""

    scatter: Callable[..., Any] = Client.scatter

    def no_gather(*_: Any, **__: Any) -> Any:
        raise AssertionError("a block came to the client")

    def no_arrays(to: Client, data: Any, **options: Any) -> Any:
        assert not isinstance(data, np.ndarray), "a block left the client"
        return scatter(to, data, **options)

    given = client.persist(da.from_array(b, chunks=(5, 7, 24)))
    monkeypatch.setattr(Client, "gather", no_gather)
    monkeypatch.setattr(Client, "scatter", no_arrays)
    x = solve(PROBLEM, given, client=client).x
    futures = futures_of(x)
    assert len(futures) == 6
    places = client.who_has(futures)
    workers = {holder for holders in places.values() for holder in holders}
    assert workers == set(client.nthreads()), "each owner keeps its own blocks"


def test_a_solution_can_be_the_next_right_hand_side(client: Client, b: F64, expected: F64) -> None:
    first = solve(PROBLEM, da.from_array(b, chunks=8), client=client)
    second = solve(PROBLEM, first.x + 0.0, x0=first.x, client=client)
    assert second.converged
    here = solve(PROBLEM, expected, x0=expected)
    assert second.x.compute().tobytes() == here.x.tobytes()


def test_lazy_dask_arrays_are_computed_once(where: Client | None, tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    def block(values: F64) -> F64:
        with calls.open("a") as file:
            file.write(".")
        return values + 1.0

    lazy = da.zeros(GRID, chunks=(8, 16, 8)).map_blocks(block, dtype=np.float64, meta=np.empty((0, 0, 0)))
    assert solve(PROBLEM, lazy, client=where).converged
    assert calls.read_text() == 6 * "."


def test_blocks_in_another_cut_are_asked_for_once(client: Client, b: F64, caplog: pytest.LogCaptureFixture) -> None:
    """Dask warns of deadlocks where tasks of one name come twice, in graphs that were fused in different ways."""
    logger = logging.getLogger("distributed.scheduler")
    logger.addHandler(caplog.handler)
    try:
        assert solve(PROBLEM, da.from_array(b, chunks=(4, 16, 24)), client=client).converged
    finally:
        logger.removeHandler(caplog.handler)
    assert "run_spec" not in caplog.text


# -- the cluster changes nothing ---------------------------------------------------------------------------------------


def test_workers_change_no_bit(client: Client, b: F64) -> None:
    here, there = solve(PROBLEM, b), solve(PROBLEM, b, client=client)
    assert there.residuals == here.residuals
    assert there.x.tobytes() == here.x.tobytes()
    assert there.engine == "resident/cpu with 2 workers, sockets"


def test_a_grid_is_cut_for_the_workers(client: Client, b: F64) -> None:
    x = solve(problems.poisson7(GRID), da.from_array(b), client=client).x
    assert x.chunks == ((16,), (16,), (12, 12))
    x = solve(problems.poisson7(GRID), da.from_array(b), client=client, M="hpcg").x
    assert x.chunks == ((16,), (8, 8), (24,)), "3 x 8 planes cannot be halved into multiples of 8"


def test_the_reference_engine_stays_here_and_keeps_the_kind(client: Client, b: F64, expected: F64) -> None:
    solution = solve(PROBLEM, da.from_array(b, chunks=8), client=client, engine="reference")
    assert isinstance(solution.x, da.Array)
    assert solution.engine == "reference/cpu"
    assert solution.x.compute().tobytes() == expected.tobytes()


def test_a_callback_stops_a_cluster_too(client: Client, b: F64) -> None:
    solution = solve(PROBLEM, b, client=client, callback=lambda state: state.iteration == 2)
    assert solution.status is Status.STOPPED
    assert solution.iterations == 2


@pytest.mark.parametrize("name", ["b", "x0"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_dask_values_that_are_not_finite_are_refused(name: str, value: float, where: Client | None, b: F64) -> None:
    bad = b.copy()
    bad[-1, 2, 3] = value
    given: dict[str, Any] = {"b": b} | {name: da.from_array(bad, chunks=8)}
    with pytest.raises(InputError, match=f"{name} has .*NaN or infinit"):
        solve(PROBLEM, client=where, **given)


def test_a_dask_array_that_cannot_be_computed_says_why(where: Client | None) -> None:
    def fail(_: F64) -> F64:
        raise KeyError("lost")

    lazy = da.zeros(GRID, chunks=8).map_blocks(fail, dtype=np.float64, meta=np.empty((0, 0, 0)))
    with pytest.raises(KeyError, match="lost"):
        solve(PROBLEM, lazy, client=where)


def test_a_dask_array_whose_norm_underflows(where: Client | None) -> None:
    tiny = da.full(GRID, 2.0**-700, chunks=8)
    found, plain = solve(PROBLEM, tiny, client=where), solve(PROBLEM, da.ones(GRID, chunks=8), client=where)
    assert found.residuals == tuple(norm * 2.0**-700 for norm in plain.residuals)
    np.testing.assert_array_equal(np.asarray(found.x), 2.0**-700 * np.asarray(plain.x))
    assert solve(PROBLEM, 0.0 * tiny, client=where).converged


def test_dask_arrays_of_masked_arrays_are_refused(where: Client | None, b: F64) -> None:
    hidden = da.ma.masked_greater(da.from_array(b, chunks=8), 8.0)
    with pytest.raises(
        InputError, match=r"b is a Dask array of masked arrays.*: pass dask.array.ma.filled\(b, VALUE\)"
    ):
        solve(PROBLEM, hidden, client=where)
    assert solve(PROBLEM, da.ma.filled(hidden, 0.0), client=where).converged
    with pytest.raises(InputError, match="kappa is a Dask array of masked arrays"):
        solve(problems.diffusion(GRID, 10.0 + hidden), b, client=where)


def test_what_dask_has_beside_arrays_is_refused(b: F64) -> None:
    lazy = da.from_array(b, chunks=8).to_delayed()[0, 0, 0]
    with pytest.raises(InputError, match=r"b is a Delayed.* of Dask: pass an array, as of dask\.array\.from_delayed"):
        solve(PROBLEM, lazy)


def test_columns_of_unknown_length_are_refused_with_what_makes_arrays_of_them() -> None:
    class Series:
        """A column of Dask, whose own module may be absent here."""

        def to_dask_array(self) -> None:
            """A mark of such columns."""

    Series.__module__ = "dask.dataframe"
    with pytest.raises(InputError, match=r"b is a Series of Dask: pass b\.to_dask_array\(lengths=True\)$"):
        solve(sp.eye_array(9), Series())
    values = da.ones(9, chunks=3)
    some = values[values > 0.0]
    for lazy in (some, da.stack([some, some], 1)):
        with pytest.raises(
            InputError, match=r"a shape that Dask does not know, .*: call b\.compute_chunk_sizes\(\) first"
        ):
            solve(sp.eye_array(9), lazy)


def test_a_message_is_one_line_whatever_was_given(b: F64) -> None:
    with pytest.raises(InputError, match=r"b must be an array of shape .*, not an object of type dict$"):
        solve(PROBLEM, {"b": b})
    with pytest.raises(InputError, match=r"b must be an array of shape .*, not 3\.0$"):
        solve(PROBLEM, 3.0)


# -- xarray ------------------------------------------------------------------------------------------------------------


def labeled(values: Any) -> Any:
    """A DataArray with coordinates along two axes and one that depends on two, a name and attributes."""
    xr = pytest.importorskip("xarray")
    nx, ny, nz = values.shape
    return xr.DataArray(
        values,
        dims=("x", "y", "z"),
        coords={"x": np.linspace(0.0, 1.0, nx), "z": np.arange(nz) ** 2, "depth": (("x", "y"), np.ones((nx, ny)))},
        name="source",
        attrs={"units": "W"},
    )


def test_labels_come_back_with_the_solution() -> None:
    xr = pytest.importorskip("xarray")

    grid = (8, 8, 16)
    problem, plain = problems.poisson7(grid), np.random.default_rng(0).standard_normal(grid)
    b = labeled(plain)
    expected = dsolver.solve(problem, plain, device="cpu")
    solution = dsolver.solve(problem, b, device="cpu")
    assert isinstance(solution.x, xr.DataArray)
    assert (solution.x.values == expected.x).all()
    assert solution.x.dims == b.dims
    assert solution.x.coords.identical(b.coords)
    assert solution.x.name == "source"
    assert solution.x.attrs == {"units": "W"}
    assert float(abs(solution.x.sel(x=1.0) - expected.x[-1]).max()) == 0.0
    warm = dsolver.solve(problem, b, x0=solution.x, device="cpu")
    assert warm.iterations == 0
    with dsolver.Solver(problem, device="cpu") as solver:
        several: Any = solver.solve(xr.concat([b, 2 * b], dim="time").transpose(..., "time"))
        of_list = solver.solve([b, 2 * b])
    assert several.x.dims == ("x", "y", "z", "time")
    assert (several.x[..., 1].values == 2 * expected.x).all()
    assert of_list.x[1].coords.identical(b.coords)
    x, info = dsolver.cg(problem, b, M="mg")
    assert info == 0
    assert x.coords.identical(b.coords)


def test_labels_around_dask_arrays_stay_around_dask_arrays(client: Client) -> None:
    grid = (16, 8, 8)
    problem = problems.poisson7(grid, chunks=(2, 1, 1))
    values = np.random.default_rng(0).standard_normal(grid)
    b = labeled(da.from_array(values, chunks=(8, 8, 8)))
    expected = dsolver.solve(problem, values, device="cpu")
    for given in (client, None):
        x = dsolver.solve(problem, b, client=given, device="cpu").x
        assert isinstance(x.data, da.Array)
        assert (x.compute().values == expected.x).all()
        assert x.coords.identical(b.coords)


def test_dimensions_in_another_order_are_refused() -> None:
    xr = pytest.importorskip("xarray")

    b = labeled(np.ones((8, 8, 8)))
    with pytest.raises(InputError, match=r"b has the dimensions .*'z', 'y', 'x'.*pass b.transpose\('x', 'y', 'z'\)"):
        dsolver.solve(problems.poisson7((8, 8, 8)), b.transpose("z", "y", "x"))
    other = xr.DataArray(np.ones((8, 8, 8)), dims=("i", "j", "k"))
    assert dsolver.solve(problems.poisson7((8, 8, 8)), other).x.dims == ("i", "j", "k")
    several = xr.concat([b] * 8, dim="time")
    with dsolver.Solver(problems.poisson7((8, 8, 8)), device="cpu") as solver:
        # of a shape that would do
        with pytest.raises(InputError, match=r"b has the .*: pass b.transpose\('x', 'y', 'z', 'time'\)"):
            solver.solve(several)
        with pytest.raises(InputError, match=r"x0 has the .*: pass x0.transpose\('x', 'y', 'z', 'time'\)"):
            solver.solve(several.transpose(..., "time"), x0=several)
        unnamed = xr.concat([other] * 2, dim="time")
        with pytest.raises(InputError, match=r"the last; pass b.transpose\(..., 'time'\)"):
            solver.solve(unnamed)
    b[0, 0, 0] = np.nan
    with pytest.raises(InputError, match="b has NaN or infinity in 1 value"):
        dsolver.solve(problems.poisson7((8, 8, 8)), b)


def test_a_dimension_is_the_same_axis_of_all_arrays() -> None:
    xr = pytest.importorskip("xarray")

    b = xr.DataArray(np.ones((8, 8, 8)), dims=("lon", "lat", "lev"))
    turned = b.transpose("lev", "lat", "lon")
    flat = xr.DataArray(np.ones((8, 6)), dims=("lon", "lat"))  # told before the shapes, which differ as well
    with pytest.raises(InputError, match=r"kappa has the dimensions \('lon', 'lat'\), but sigma has"):
        problems.diffusion(flat.shape, flat, flat.T)
    with pytest.raises(InputError, match=r"kappa has the dimensions \('lon', 'lat'\), but b has"):
        dsolver.solve(problems.diffusion(flat.shape, flat), flat.T)
    message = r"kappa has the dimensions \('lev', 'lat', 'lon'\), but b has \('lon', 'lat', 'lev'\): transpose one"
    with pytest.raises(InputError, match=message):
        dsolver.solve(problems.diffusion(b.shape, turned), b)
    with dsolver.Solver(problems.diffusion(b.shape, mask=turned > 2.0), device="cpu") as solver:
        with pytest.raises(InputError, match=r"mask has the dimensions .*, but b has"):
            solver.solve(xr.concat([b, b], dim="time").transpose(..., "time"))
        assert solver.solve(xr.concat([turned, turned], dim="time").transpose(..., "time")).converged
        with pytest.raises(InputError, match=r"mask has the dimensions .*, but x0 has"):
            solver.solve(turned, x0=b)


def test_dimensions_of_a_face_are_in_order() -> None:
    face = labeled(np.ones((8, 8, 8)))[0].drop_vars("z")
    problems.diffusion((8, 8, 8), bc={"x-": problems.Dirichlet(face)})
    with pytest.raises(InputError, match=r"value at face x- has the dimensions \('z', 'y'\), but the order"):
        problems.diffusion((8, 8, 8), bc={"x-": problems.Dirichlet(face.T)})


@pytest.mark.parametrize("name", ["source", "data"])
def test_what_xarray_has_beside_data_arrays_is_refused(name: str) -> None:
    b, problem = labeled(np.ones((8, 8, 8))), problems.poisson7((8, 8, 8))
    with pytest.raises(InputError, match="b is a Dataset: pass a DataArray"):
        dsolver.solve(problem, b.to_dataset(name=name))
    with pytest.raises(InputError, match="b is a Variable: pass a DataArray"):
        dsolver.solve(problem, b.variable)


# -- arrays of other packages ------------------------------------------------------------------------------------------


class Kind:
    """Another package's type of numbers: a size and a name, of which NumPy knows nothing."""

    def __init__(self, dtype: Any) -> None:
        self.itemsize, self.name = dtype.itemsize, dtype.name

    def __repr__(self) -> str:
        return f"package.{self.name}"


class Tensor:
    """Array of another package, with DLPack and a shape, and no more of NumPy."""

    def __init__(self, values: Any) -> None:
        self.values, self.shape, self.dtype, self.ndim = values, values.shape, Kind(values.dtype), values.ndim

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()

    def __array_namespace__(self) -> Any:
        return Package

    def __getitem__(self, where: Any) -> Tensor:
        return Tensor(self.values[where])

    def __len__(self) -> int:
        return len(self.values)

    def reshape(self, *shape: Any) -> Tensor:
        return Tensor(self.values.reshape(*shape))


class Package:
    """The package of such arrays."""

    @staticmethod
    def from_dlpack(values: Any) -> Tensor:
        return Tensor(values)


def test_arrays_of_other_packages_come_back_as_they_were(where: Client | None, b: F64, expected: F64) -> None:
    x = solve(PROBLEM, Tensor(b), x0=Tensor(0.0 * b), client=where).x
    assert type(x) is Tensor
    assert x.values.tobytes() == expected.tobytes()


def test_flat_tensors_and_several_of_them(b: F64) -> None:
    laplacian = sp.diags_array([-np.ones(63), 2.5 * np.ones(64), -np.ones(63)], offsets=[-1, 0, 1])
    one = b.reshape(-1)[:64].copy()
    two = np.stack([one, one[::-1]], axis=1)
    expected = np.linalg.solve(laplacian.toarray(), two)
    x, info = dsolver.cg(laplacian, Tensor(one), rtol=1e-12)
    assert info == 0
    assert type(x) is Tensor
    assert np.allclose(x.values, expected[:, 0])
    with dsolver.Solver(laplacian, device="cpu") as solver:
        several: Any = solver.solve(Tensor(two), rtol=1e-12)
    assert type(several.x) is Tensor
    assert np.allclose(several.x.values, expected)
    x, info = dsolver.cg(PROBLEM, Tensor(b.reshape(-1)), rtol=1e-12)
    assert x.shape == (b.size,)


def test_tensors_that_cannot_be_read_are_refused(b: F64) -> None:
    class Elsewhere(Tensor):
        def __dlpack_device__(self) -> Any:
            return 8, 0

    class Hollow(Tensor):
        def __dlpack_device__(self) -> Any:
            raise ValueError("Unknown device type meta")

    class Locked(Tensor):
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("it requires a gradient")

    with pytest.raises(InputError, match="b is a Elsewhere on a device that is neither"):
        solve(PROBLEM, Elsewhere(b))
    with pytest.raises(InputError, match=r"b is a Hollow without memory that can be shared .*type meta.: move it to"):
        solve(PROBLEM, Hollow(b))
    with pytest.raises(InputError, match="b is a Locked that cannot be read: it requires a gradient"):
        solve(PROBLEM, Locked(b))
    with pytest.raises(InputError, match="b has shape"):
        solve(PROBLEM, Tensor(b[1:].copy()))
    with pytest.raises(InputError, match="b has NaN or infinity in 1 value"):
        solve(PROBLEM, Tensor(np.where(np.arange(b.size).reshape(b.shape) == 7, np.nan, b)))


def test_x_of_one_chunk_belongs_to_the_user(b: F64) -> None:
    with dsolver.Solver(dsolver.matrix(sp.diags_array([np.full(b.size, 3.0)], offsets=[0])), M="jacobi") as solver:
        first = solver.solve(b.ravel()).x
        expected = first.copy()
        second = solver.solve(2.0 * b.ravel()).x
        assert np.array_equal(first, expected)
        first[:] = 0.0
        assert np.array_equal(solver.solve(2.0 * b.ravel()).x, second)


@pytest.mark.gpu
def test_device_memory_of_other_packages_stays_there() -> None:
    """By DLPack as a tensor, and by the CUDA array interface alone, whose package has no way back but CuPy's."""
    import cupy

    class Interface:
        def __init__(self, values: Any) -> None:
            self.__cuda_array_interface__ = values.__cuda_array_interface__
            self.values, self.shape, self.ndim = values, values.shape, values.ndim

    b = cupy.random.default_rng(0).standard_normal(GRID)
    expected = solve(PROBLEM, b).x
    tensor, plain = solve(PROBLEM, Tensor(b)).x, solve(PROBLEM, Interface(b)).x
    assert type(tensor) is Tensor
    for x in (tensor.values, plain):
        assert isinstance(x, cupy.ndarray)
        assert bool((x == expected).all())


@pytest.mark.gpu
def test_dask_arrays_of_cupy_blocks_are_taken_without_a_cluster() -> None:
    import cupy

    b = np.random.default_rng(0).standard_normal(GRID)
    blocks = da.from_array(cupy.asarray(b), chunks=tuple(-(-n // 2) for n in GRID))
    several = da.from_array(cupy.asarray(np.stack([b, 2.0 * b], axis=-1)), chunks=(*GRID, 1))
    for x, expected in ((solve(PROBLEM, blocks).x, 1.0), (solve(PROBLEM, several).x[..., 1], 2.0)):
        found = x.compute()
        assert isinstance(found, cupy.ndarray)
        wanted = expected * solve(PROBLEM, b, device="cpu").x
        np.testing.assert_allclose(cupy.asnumpy(found), wanted, rtol=1e-5, atol=1e-7)
