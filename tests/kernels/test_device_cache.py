"""Measurements of a device that are kept, and what happens where none can be."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from dsolver.cluster import devices
from dsolver.kernels import device_cache
from dsolver.kernels.device_cache import Model, folder, keep, read

H200 = Model(name="NVIDIA H200 / x", driver="13000", toolkit="13.0")
OTHER = Model(name="NVIDIA H200 / x", driver="13010", toolkit="13.0")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(device_cache.VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_what_is_kept_is_read_again(home: Path) -> None:
    assert read(H200) == {}
    path = keep(H200, "copy_bandwidth", 4.2e12)
    keep(H200, "choice", {"slabs": 8})
    assert path is not None
    assert path.parent == home
    assert read(H200) == {"copy_bandwidth": 4.2e12, "choice": {"slabs": 8}}
    keep(H200, "copy_bandwidth", 4.3e12)
    assert read(H200) == {"copy_bandwidth": 4.3e12, "choice": {"slabs": 8}}
    assert [file.name for file in home.iterdir()] == [path.name]  # nothing temporary is left


def test_another_driver_has_its_own() -> None:
    keep(H200, "copy_bandwidth", 4.2e12)
    assert read(OTHER) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}', '{"format": 99}', "\x00\x01"])
def test_a_damaged_file_is_ignored_with_a_warning_and_replaced(text: str, caplog: pytest.LogCaptureFixture) -> None:
    path = keep(H200, "copy_bandwidth", 4.2e12)
    assert path is not None
    path.write_text(text)
    with caplog.at_level(logging.WARNING):
        assert read(H200) == {}
    assert str(path) in caplog.text
    assert device_cache.VARIABLE in caplog.text
    keep(H200, "copy_bandwidth", 1.0)
    caplog.clear()
    assert read(H200) == {"copy_bandwidth": 1.0}
    assert not caplog.text


def test_bytes_that_are_no_text_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    path = keep(H200, "copy_bandwidth", 4.2e12)
    assert path is not None
    path.write_bytes(b"\xff\xfe\x80")
    assert read(H200) == {}
    assert str(path) in caplog.text


def test_a_file_of_another_model_is_ignored() -> None:
    path = keep(H200, "copy_bandwidth", 4.2e12)
    assert path is not None
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": {"name": "else"}}))
    assert read(H200) == {}


def test_a_folder_that_cannot_be_made_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is in its place: that also refuses root, for whom nothing is read-only."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(device_cache.VARIABLE, str(tmp_path / "file" / "kept"))
    assert keep(H200, "copy_bandwidth", 4.2e12) is None
    assert read(H200) == {}


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(device_cache.VARIABLE, "off")
    assert folder() is None
    assert keep(H200, "copy_bandwidth", 4.2e12) is None
    assert read(H200) == {}


def test_where_each_system_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    end = Path("dsolver", "devices")
    assert folder({"DSOLVER_CACHE": "/mine"}, "linux") == Path("/mine")
    assert folder({"XDG_CACHE_HOME": "/xdg"}, "linux") == Path("/xdg") / end
    assert folder({}, "linux") == Path("/home/me/.cache") / end
    assert folder({}, "darwin") == Path("/home/me/Library/Caches") / end
    assert folder({"LOCALAPPDATA": "/local"}, "win32") == Path("/local") / end


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", none)
    assert folder({}, "linux") is None


@pytest.mark.gpu
def test_the_copy_is_measured_once() -> None:
    from dsolver.kernels.cuda.launch import probe

    probe.copy_bandwidth.cache_clear()
    found = devices.copy_bandwidth()
    assert read(probe.model(0))[probe.COPY] == found
    keep(probe.model(0), probe.COPY, 1.0)
    assert devices.copy_bandwidth() == found
    probe.copy_bandwidth.cache_clear()
    assert devices.copy_bandwidth() == 1.0
    probe.copy_bandwidth.cache_clear()
