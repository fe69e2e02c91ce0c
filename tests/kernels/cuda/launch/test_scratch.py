"""Scratch memory of dot products on a GPU."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.gpu


def test_a_stream_that_records_takes_a_slab_of_its_own() -> None:
    """Waits and clearings within a recording would be refused, or be a part of it."""
    import cupy

    from dsolver.kernels.cuda.launch.scratch import SLOTS, Scratch

    scratch, places = Scratch(8), set()
    streams: list[Any] = [cupy.cuda.Stream(non_blocking=True) for _ in range(SLOTS + 1)]
    for stream in streams[:-1]:
        with stream:
            places.add(int(scratch.here()[1].data.ptr))
    with streams[-1] as last:
        last.begin_capture()
        partials, ticket = scratch.here()
        last.end_capture()
        places.add(int(ticket.data.ptr))
        assert int(ticket[0]) == 0
        assert partials.shape == (8,)
    assert len(places) == SLOTS + 1
