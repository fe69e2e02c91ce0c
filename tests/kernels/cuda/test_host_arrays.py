"""Arrays of the host on a GPU and back, in pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dsolver.kernels import load
from dsolver.kernels.cpu.loops import copying
from dsolver.kernels.lending import arrays as lent_arrays

pytestmark = pytest.mark.gpu


def values(*shape: int, dtype: Any = np.float64) -> Any:
    made = np.random.default_rng(0).integers(0, 200, shape)
    return made.astype(dtype)


KINDS: dict[str, Callable[[], Any]] = {
    "a vector": lambda: values(100_001),
    "rows": lambda: values(31, 17, 47),
    "long rows": lambda: values(3, 20_011),
    "columns first": lambda: np.asfortranarray(values(31, 17, 47)),
    "axes turned": lambda: values(31, 17, 47).transpose(1, 2, 0),
    "every other value": lambda: values(40, 301)[:, ::2],
    "every other row": lambda: values(41, 301)[::2],
    "backwards": lambda: values(10_001)[::-1],
    "one value for all": lambda: np.broadcast_to(np.float64(3.0), (57, 129)),
    "float32": lambda: values(9_001, dtype=np.float32),
    "bytes": lambda: values(90_001, dtype=np.uint8),
    "bool": lambda: values(90_001) > 100,
    "int64": lambda: values(9_001, dtype=np.int64),
    "big end first": lambda: values(9_001, dtype=">f8"),
    "nothing": lambda: values(0, 5),
}


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(kind: str, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, given = load("cuda"), KINDS[kind]()
    from dsolver.kernels.cuda import host_arrays

    monkeypatch.setattr(host_arrays, "STAGED", 1 << 30 if small else 1)
    monkeypatch.setattr(host_arrays, "PIECE", 1 << 12)
    monkeypatch.setattr(host_arrays, "_kept", host_arrays._CopyBuffers())  # the buffers of others are larger
    before = given.copy()
    there = backend.asarray(given)
    assert there.shape == before.shape
    assert there.dtype == before.dtype.newbyteorder("=")
    back = backend.to_host(there)
    assert isinstance(back, np.ndarray)
    assert (back == before).all()
    assert (backend.to_host(there[..., 1:]) == before[..., 1:]).all()


@pytest.mark.parametrize("shape", [(40, 301), (301, 40)])
def test_an_array_comes_to_the_room_made_for_it(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    backend, given = load("cuda"), values(40, 301)
    from dsolver.kernels.cuda import host_arrays

    monkeypatch.setattr(host_arrays, "STAGED", 1)
    monkeypatch.setattr(copying, "ROOMY", 1)
    room = backend.host_room(shape, given.dtype)
    array = room._array
    first, second = (backend.to_host(backend.asarray(given), room) for _ in range(2))
    assert (first is array) == (shape == given.shape)
    assert second is not array
    assert (first == given).all()
    assert (second == given).all()


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("big end first", "nothing")])
def test_what_another_process_lends_goes_there_as_well(kind: str, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, given = load("cuda"), KINDS[kind]()
    from dsolver.kernels.cuda import host_arrays

    monkeypatch.setattr(lent_arrays, "WORTH", 1)
    monkeypatch.setattr(host_arrays, "STAGED", 1 << 30 if small else 1)
    monkeypatch.setattr(host_arrays, "PIECE", 1 << 12)
    monkeypatch.setattr(host_arrays, "_kept", host_arrays._CopyBuffers())
    made = lent_arrays.lent(given)
    assert made is not None
    there = backend.asarray(made[0])
    assert there.dtype == given.dtype
    assert (backend.to_host(there) == given).all()


def test_memory_of_the_host_may_be_written_to_at_once() -> None:
    backend, given = load("cuda"), values(1 << 18)
    before = given.copy()
    there = backend.asarray(given)
    given[:] = -1.0
    assert (backend.to_host(there) == before).all()


def test_memory_without_gaps_keeps_the_order_of_its_axes() -> None:
    given = np.asfortranarray(values(64, 64, 64))
    there = load("cuda").asarray(given)
    assert there.strides == given.strides


@pytest.mark.parametrize(("given", "made"), [(np.longdouble, np.float64), (np.clongdouble, np.complex128)])
def test_long_doubles_become_doubles(given: Any, made: Any) -> None:
    there = load("cuda").asarray(values(5, dtype=given))
    assert there.dtype == made
