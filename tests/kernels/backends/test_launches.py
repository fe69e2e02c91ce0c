"""Duties of launches on a GPU besides results: be captured, take turns, end."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.kernels.backends.boxes import LARGE, box
from tests.kernels.backends.results import with_slices


@pytest.mark.gpu
@pytest.mark.parametrize("arguments", [(np.zeros(513),), (np.int32(0),) * 65], ids=["bytes", "arguments"])
def test_more_than_a_launch_can_tell_a_kernel_is_refused(arguments: tuple[np.generic, ...]) -> None:
    from dsolver.kernels.cuda.launch import streams

    with pytest.raises(ValueError, match="more than a launch can tell"):
        streams._room.hold(arguments)


@pytest.mark.gpu
def test_arguments_are_packed_as_bytes_of_their_own_would_be() -> None:
    import cupy

    from dsolver.kernels.cuda.launch import streams

    numbers = (
        np.int32(-3),
        np.uint32(1 << 31),
        np.int64(-1 << 40),
        np.uint64(1 << 63),
        np.float32(0.1),
        np.float64(0.1),
    )
    given = (cupy.empty(4), *numbers, np.uintp(0))
    places = streams._room.hold(given)
    at = [places[number] for number in range(len(given))]
    assert at == [at[0] + 8 * number for number in range(len(given))]
    assert ctypes.string_at(at[0], 8 * len(given)) == b"".join(map(streams._bytes, given))


@pytest.mark.gpu
def test_an_iteration_can_be_captured_and_replayed() -> None:
    import cupy

    b = box(LARGE, "cuda")
    r, x, y, e, w, c = b.vector(1), b.zeros(), b.zeros(), b.zeros(), b.zeros(), b.zeros()
    h, rc, kept, dot, other = b.halo(4), b.zeros(coarse=True), b.kept(), b.scalar(), b.scalar()
    product, part = b.kept(), b.scalar()

    def work() -> None:
        b.kernel("presmooth_restrict")(b.matrix, b.transfer, r, x, e, rc)
        b.kernel("times_halo")(b.outer, h, product)
        b.kernel("residual_halo")(b.outer, b.transfer, product, r, rc, kept)
        b.kernel("subtract_halo")(b.outer, h, r)
        b.kernel("prolong_postsmooth")(b.matrix, b.transfer, r, rc, e, x, c, w)
        b.kernel("restore")(b.outer, kept, r)
        b.kernel("spmv_dot")(b.matrix, x, y, dot)
        b.kernel("times_halo_dot")(b.outer, h, x, product, part)
        b.kernel("add_halo_dot")(b.outer, product, part, y, dot)
        b.kernel("dot")(x, y, other)

    work()
    expected = [v.get() for v in (x, y, rc, dot, other)]
    cupy.cuda.get_current_stream().synchronize()
    before = cupy.get_default_memory_pool().total_bytes(), cupy.get_default_memory_pool().used_bytes()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        work()
        graph = stream.end_capture()
        for v in (x, y, rc, dot, other):
            v.fill(0.0)
        graph.launch(stream)
        graph.launch(stream)
    stream.synchronize()
    after = cupy.get_default_memory_pool().total_bytes(), cupy.get_default_memory_pool().used_bytes()
    assert after == before
    assert all((a == v.get()).all() for a, v in zip(expected, (x, y, rc, dot, other), strict=True))


@pytest.mark.gpu
def test_slabs_of_a_lattice_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    from dsolver.kernels.cuda.launch import schedule

    b = box(LARGE, "cuda")
    monkeypatch.setattr(schedule, "slabs_of", lambda *_: 4)
    matrix = with_slices(b, b.matrix.local)
    layers, slices_of_layer = 16, 32  # of a color: 32 x 32 x 16 points
    for sweep, colors in zip((matrix.forward_sweep, matrix.changing_sweep), (8, 7), strict=True):
        assert sweep.chains == 2
        assert len(sweep.units) == 4 * colors
        counts = [int(unit.launch[2][2]) for unit in sweep.units]
        assert sum(counts) == colors * layers * slices_of_layer
        shift = slices_of_layer  # a slab's boundary moves by one layer at most
        assert all(abs(count - layers // 4 * slices_of_layer) <= shift for count in counts)
