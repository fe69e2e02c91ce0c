"""The emulated GPU finds what is wrong in kernels, and computes what a GPU computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.emulated import compiler, cupy

SOURCE = """
#define KERNEL(NAME, ...)                               \\
    extern "C" __global__ void NAME(double* x, int n) { \\
        __shared__ int s[64];                           \\
        const int t = threadIdx.x, lane = t % 32;       \\
        __VA_ARGS__                                     \\
    }
KERNEL(not_waited, s[t] = t; x[t] = s[(t + n) & 63];)
KERNEL(waited, s[t] = t; __syncthreads(); x[t] = s[(t + n) & 63];)
KERNEL(warp_not_waited, s[t] = t; __syncwarp(); x[t] = s[t ^ n]; s[t] = -1;)
KERNEL(beside, x[n + t] = 1.0;)
KERNEL(far_away, x[1ll << 40] = n;)
KERNEL(divided, x[t] = n / (n - 64);)
KERNEL(apart, if (t < 3) __syncthreads(); else __syncwarp(); x[t] = 1.0;)
KERNEL(masks_differ, if (lane < 16) __syncwarp(); else __syncwarp(0xffffff00u); x[t] = 1.0;)
KERNEL(not_in_mask, x[t] = __ballot_sync(0xffu, n);)
KERNEL(assembly, asm volatile("bar.sync 0;" ::: "memory"); x[t] = n;)
KERNEL(rounded, const double a = x[1]; x[2] = a * a - 1.0; x[3] = __dadd_rn(__dmul_rn(a, a), -1.0);)
KERNEL(meetings,
    const unsigned eight = 0xffu << (lane & ~7);
    const int first = __shfl_sync(eight, t, 0, 8), above = __shfl_up_sync(~0u, t, 1);
    const int across = __shfl_xor_sync(~0u, t, 5), most = __reduce_max_sync(eight, -t);
    const unsigned alike = __match_any_sync(~0u, t / 4), odd = __ballot_sync(eight, t & 1);
    x[t] = first == t / 8 * 8 && above == t - (lane > 0) && across == (t ^ 5) && most == -first
        && alike == 0xfu << (lane & ~3) && odd == (0xaaaaaaaau & eight);)
KERNEL(ended, if (lane >= 20) return; x[t] = __popc(__ballot_sync(~0u, 1));)
"""


@pytest.fixture(autouse=True)
def _compiler() -> None:
    if reason := compiler.missing():
        pytest.skip(reason)


def launched(name: str, n: int = 64, x: Any = None) -> Any:
    """Results of a kernel of two warps in 64 numbers."""
    x = cupy.empty(64) if x is None else cupy.asarray(x)
    cupy.RawKernel(SOURCE, name)((1,), (64,), (x, np.int32(n)))
    return x.get()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_missing_wait_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "seed", seed)
    later = -1 if seed else 1  # a thread that runs after the one that reads its number
    expected = (np.arange(64) + later) % 64
    assert np.array_equal(launched("waited", later), expected)
    assert not np.array_equal(launched("not_waited", later), expected)
    assert np.array_equal(launched("not_waited", -later)[1:-1], (np.arange(64) - later)[1:-1])  # by this order's luck


def test_a_missing_wait_of_a_warp_is_found() -> None:
    assert not np.array_equal(launched("warp_not_waited", 1), np.arange(64) ^ 1)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("beside", "beside wrote beside one of its arrays"),
        ("far_away", "bad address"),
        ("divided", "division by zero"),
        ("apart", "deadlock.*thread 0 on in __syncthreads.*thread 3 on in __syncwarp"),
        ("masks_differ", "deadlock.*mask ffffffff.*mask ffffff00"),
        ("not_in_mask", "__ballot_sync: the caller is not in its mask"),
        ("assembly", "assembly"),
    ],
)
def test_faults_are_errors(name: str, words: str) -> None:
    with pytest.raises(compiler.EmulationError, match=words):
        launched(name)


def test_warps_meet() -> None:
    assert np.array_equal(launched("meetings"), np.ones(64))
    assert np.array_equal(launched("ended").reshape(2, 32)[:, :20], np.full((2, 20), 20.0))


def test_products_and_sums_are_contracted_unless_they_are_rounded() -> None:
    a = 1.0 + 2.0**-30
    found = launched("rounded", x=np.full(64, a))
    assert found[2] == 2.0**-29 + 2.0**-60
    assert found[3] == 2.0**-29


@pytest.mark.parametrize("arguments", [(np.zeros(3), 1), ("float32", np.int32(1)), ("float64", np.int64(1)), ()])
def test_arguments_are_compared_with_parameters(arguments: Any) -> None:
    made = [cupy.empty(64, one) if isinstance(one, str) else one for one in arguments]
    with pytest.raises(TypeError):
        cupy.RawKernel(SOURCE, "waited")((1,), (64,), made)


def test_arrays_of_the_host_are_none_of_the_device() -> None:
    x = cupy.ones(3)
    for call in (lambda: x + np.ones(3), lambda: np.asarray(x), lambda: cupy.maximum(x, np.ones(3))):
        with pytest.raises(TypeError):
            call()
    assert np.isnan(cupy.empty(3).get()).all()
    assert float((2.0 - x).sum()) == 3.0


def test_sources_share_their_stacks() -> None:
    """A process may have 65530 mappings, of which the guarded stacks of a block's threads are 2048."""
    before = len(Path("/proc/self/maps").read_bytes().splitlines())
    for number in (1, 2):
        source = f'extern "C" __global__ void number(double* x) {{ x[threadIdx.x] = {number}; }}'
        x = cupy.zeros(2)
        cupy.RawKernel(source, "number")((1,), (2,), (x,))
        assert (x.get() == number).all()
    assert len(Path("/proc/self/maps").read_bytes().splitlines()) < before + 2048 + 200
