"""What is chosen by device, and what is kept of it. That no choice changes a bit is tested in backends/test_bits.py."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dsolver.kernels import device_cache
from dsolver.kernels.cuda.launch import config
from dsolver.kernels.device_cache import Model


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.setenv(device_cache.VARIABLE, str(tmp_path))
    return Model(name="H200", driver="13000", toolkit="13.0")


def read(model: Model, itemsize: int) -> Any:
    return config.kept(device_cache.read(model), itemsize)


def test_a_choice_is_kept_for_each_value_type(model: Model) -> None:
    assert read(model, 8) is None
    best = replace(config.default(8), warps=2, slab_share=0.36, flow=False)
    assert config.keep(model, 8, best)
    assert read(model, 8) == best
    assert read(model, 4) is None
    device_cache.keep(model, "copy_bandwidth", 4e12)
    assert read(model, 8) == best


def test_a_choice_for_other_kernels_is_none(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    config.keep(model, 8, config.default(8))
    monkeypatch.setattr(config, "fingerprint", lambda: "changed")
    assert read(model, 8) is None


@pytest.mark.parametrize(
    "damage",
    [
        {"warps": 3},
        {"warps": 8},  # more than blocks of float64 have
        {"warps": True},
        {"warps": "4"},
        {"narrow": 5},
        {"slab_share": 0.0},
        {"slab_share": float("nan")},
        {"slab_share": 1},
        {"mixed_share": -0.1},
        {"mixed_share": float("nan")},
        {"cached_slabs": 0},
        {"cached_slabs": 10**9},
        {"flow": 1},
        {"unknown": 1},
    ],
)
def test_what_no_kernel_can_do_is_not_taken(model: Model, damage: dict[str, Any]) -> None:
    entry = {"kernels": config.fingerprint(), "choice": {**asdict(config.default(8)), **damage}}
    device_cache.keep(model, config.name_of(8), entry)
    assert read(model, 8) is None


@pytest.mark.parametrize("entry", [None, 1, [], {}, {"kernels": "?"}])
def test_what_is_no_choice_is_not_taken(model: Model, entry: Any) -> None:
    device_cache.keep(model, config.name_of(8), entry)
    assert read(model, 8) is None


def test_a_choice_lasts_as_long_as_it_is_wanted() -> None:
    one, two = replace(config.default(8), warps=1), replace(config.default(8), warps=2)
    with config.using(8, one):
        with config.using(8, two):
            assert config.chosen(8) == two
        assert config.chosen(8) == one
    assert 8 not in config._forced


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_tuning_keeps_what_it_finds(model: Model, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dsolver import kernels
    from dsolver.kernels.cuda.hpcg import tuning
    from dsolver.kernels.cuda.launch import probe

    monkeypatch.setattr(tuning, "sizes", lambda _: {"large": 64, "medium": 64, "small": 32})
    monkeypatch.setattr(probe, "model", lambda _: model)
    backend = kernels.load("cuda", dtype=dtype)
    trials: list[Any] = []
    best = tuning.tune(backend, trials.append)
    itemsize = backend.dtype.itemsize
    assert len(trials) == sum(len(values) for _, _, values in tuning.questions(itemsize))
    assert all(trial.seconds > 0.0 for trial in trials)
    assert read(model, itemsize) == best
    assert config.chosen(itemsize) == best
    monkeypatch.undo()
    config._of_device.cache_clear()
