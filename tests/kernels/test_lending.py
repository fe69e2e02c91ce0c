"""Arrays that another process of this host reads where they lie."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dsolver.kernels.lending.arrays import WORTH, cuts_of, lent
from dsolver.kernels.lending.memory import LendingError, here, open_to_readers

ROOM = WORTH // 8


def values(*shape: int, dtype: Any = np.float64) -> Any:
    return np.random.default_rng(0).integers(0, 100, shape).astype(dtype)


KINDS: dict[str, Callable[[], Any]] = {
    "a vector": lambda: values(ROOM + 1),
    "boxes": lambda: values(70, 40, 90)[3:60, 2:30, 7:],
    "rows of a slab": lambda: values(40, 30, 200)[:, :, 50:150],
    "columns first": lambda: np.asfortranarray(values(80, 40, 30)),
    "every other value": lambda: values(400, 301)[:, ::2],
    "every other row": lambda: values(500, 301)[::2],
    "rows backwards": lambda: values(300, 200)[::-1],
    "one plane for all": lambda: np.broadcast_to(values(1, 200, 200), (5, 200, 200)),
    "float32": lambda: values(4 * ROOM, dtype=np.float32),
    "int64": lambda: values(ROOM, dtype=np.int64),
    "bool": lambda: values(8 * ROOM) > 50,
    "read-only": lambda: np.frombuffer(values(ROOM).tobytes()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_values_are_those_of_the_lender(kind: str) -> None:
    array = KINDS[kind]()
    made = lent(array)
    assert made is not None
    found, _ = made
    assert (found.shape, found.dtype, len(found)) == (array.shape, array.dtype, len(array))
    assert np.array_equal(np.asarray(found), array)
    for cut in cuts_of(found.shape, 5000):
        out = np.empty(found[cut].shape, found.dtype)
        found[cut].read_into(out)
        assert np.array_equal(out, array[cut])


@pytest.mark.parametrize(
    "array", [values(10), values(ROOM).astype(">f8"), values(ROOM).astype(np.longdouble), values(ROOM).astype(object)]
)
def test_others_travel(array: Any) -> None:
    assert lent(array) is None


def test_another_process_reads_them() -> None:
    array = values(300, 400)
    made = lent(array[:, 7:])
    assert made is not None
    program = f"""
import numpy as np
from numpy import dtype
from dsolver.kernels.lending.arrays import LentArray
from dsolver.kernels.lending.memory import Lender
print(int(np.asarray({made[0]!r}).sum()))
"""
    with open_to_readers():
        told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(told.stdout) == int(array[:, 7:].sum())


def test_a_process_that_is_no_more_is_not_read_and_another_one_is_not_taken_for_it() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert "No such process" in replace(here(), pid=ended.pid).why_not()
    assert "another one" in replace(here(), secret=bytes(16)).why_not()
    assert not here().why_not()


def test_memory_that_is_gone_is_told() -> None:
    made = lent(values(ROOM))
    assert made is not None
    with pytest.raises(LendingError, match="cannot be read"):
        np.asarray(replace(made[0], address=8))
