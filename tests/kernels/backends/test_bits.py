"""Bits of kernels: the same each time, by any number of threads, and however passes are launched on a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dsolver.kernels import load
from tests.kernels.backends.boxes import LARGE, Box, Case, box
from tests.kernels.backends.results import everything, made_explicit, smoothed, with_slices


def test_bits_repeat(name: str) -> None:
    b = box(LARGE, name)
    first = everything(b)
    for _ in range(5):
        assert all((a == z).all() for a, z in zip(first, everything(b), strict=True))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bits_do_not_depend_on_the_number_of_threads(dtype: str) -> None:
    one, two = (Box(LARGE, load("cpu", threads, dtype)) for threads in (1, 2))
    assert all((a == z).all() for a, z in zip(everything(one), everything(two), strict=True))


@pytest.mark.gpu
def test_early_starts_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    from dsolver.kernels.cuda.launch import streams

    b = box(LARGE, "cuda")
    early = everything(b)
    monkeypatch.setattr(streams, "_starts_early", lambda *_: False)
    assert all((a == z).all() for a, z in zip(early, everything(b), strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("slabs", [2, 5])
@pytest.mark.parametrize("explicit", [False, True])
def test_slabs_change_no_bit(case: Case, slabs: int, monkeypatch: pytest.MonkeyPatch, *, explicit: bool) -> None:
    from dsolver.kernels.cuda.launch import schedule

    b = box(case, "cuda")
    local = made_explicit(b.matrix.local, b.backend) if explicit else b.matrix.local
    expected = smoothed(b, with_slices(b, local))
    monkeypatch.setattr(schedule, "slabs_of", lambda *_: slabs)
    matrix = with_slices(b, local)
    for _ in range(3):
        assert all((a == z).all() for a, z in zip(expected, smoothed(b, matrix), strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("explicit", [False, True])
def test_no_choice_changes_a_bit(case: Case, dtype: str, monkeypatch: pytest.MonkeyPatch, *, explicit: bool) -> None:
    """Widths of blocks, slabs."""
    from dsolver.kernels.cuda.launch import schedule

    monkeypatch.setattr(schedule, "WARPS_TO_FILL", 0)  # boxes are small
    b = box(case, f"cuda {dtype}")
    local = made_explicit(b.matrix.local, b.backend) if explicit else b.matrix.local
    itemsize = b.backend.dtype.itemsize
    plain = schedule.CONFIGS[itemsize]
    expected = smoothed(b, with_slices(b, local))
    for change in ({"warps": 1}, {"warps": 2}, {"cached_slabs": 1}, {"cached_slabs": 4}):
        monkeypatch.setitem(schedule.CONFIGS, itemsize, replace(plain, **change))
        assert all((a == z).all() for a, z in zip(expected, smoothed(b, with_slices(b, local)), strict=True)), change
