"""Arrays that are copied to addresses and back, many in one launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

LENGTHS = (1, 3, 1000, 7, 40_003, 16, 5)


def made_of(kinds: tuple[str, ...], count: int) -> list[Any]:
    """Views of arrays, one item behind their begins."""
    import cupy

    random = np.random.default_rng(3)
    found = []
    for number in range(count):
        size, kind = LENGTHS[number % len(LENGTHS)], kinds[number % len(kinds)]
        found.append(cupy.asarray(random.integers(0, 100, size + number % 2).astype(kind))[number % 2 :])
    return found


@pytest.mark.parametrize("count", [1, 7, 40])
def test_arrays_go_to_addresses_and_come_back(count: int) -> None:
    """Copies of all sizes, from any byte on, in one launch and in several."""
    import cupy

    from dsolver.kernels.cuda.peer.moves import move

    parts = made_of(("float64", "int8", "int32", "int64"), count)
    room = cupy.zeros(sum(part.nbytes + 16 for part in parts), dtype=np.uint8)
    addresses, end = [], room.data.ptr
    for part in parts:
        addresses.append(end)
        end += -(-part.nbytes // 16) * 16
    move([*zip(parts, addresses, strict=True)])
    back = [cupy.empty_like(part) for part in parts]
    move([*zip(back, addresses, strict=True)], back=True)
    for part, again in zip(parts, back, strict=True):
        np.testing.assert_array_equal(cupy.asnumpy(part), cupy.asnumpy(again))
        assert len(part)


def test_nothing_beside_a_place_is_written() -> None:
    """Array of an odd number of bytes, at an odd address."""
    import cupy

    from dsolver.kernels.cuda.peer.moves import move

    part, room = cupy.arange(1, 78, dtype=np.int8), cupy.full(100, -1, dtype=np.int8)
    move([(part, room.data.ptr + 5)])
    found = cupy.asnumpy(room)
    np.testing.assert_array_equal(found[5:82], np.arange(1, 78))
    assert (found[:5] == -1).all()
    assert (found[82:] == -1).all()
