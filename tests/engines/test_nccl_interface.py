from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from dsolver.engines.transport.nccl_interface import VARIABLE, interface_of, point_nccl_at

ADDRESSES = {
    "lo": [SimpleNamespace(address="127.0.0.1")],
    "eth0": [SimpleNamespace(address="10.0.0.5"), SimpleNamespace(address="fe80::1%eth0")],
    "ib0": [SimpleNamespace(address="10.1.0.5")],
}


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with two networks, and no choice made for NCCL."""
    monkeypatch.setattr("psutil.net_if_addrs", lambda: ADDRESSES)
    monkeypatch.setenv(VARIABLE, "")  # so that what a test sets is undone
    monkeypatch.delenv(VARIABLE)


def chosen() -> str | None:
    return os.environ.get(VARIABLE)


@pytest.mark.parametrize(("address", "name"), [("10.1.0.5", "ib0"), ("fe80::1", "eth0"), ("10.9.9.9", None)])
def test_the_interface_of_an_address(address: str, name: str | None) -> None:
    assert interface_of(address) == name


def test_nccl_uses_the_workers_network() -> None:
    point_nccl_at("10.1.0.5")
    assert chosen() == "=ib0"


def test_a_choice_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "eth0")
    point_nccl_at("10.1.0.5")
    assert chosen() == "eth0"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.9.9.9"])
def test_nothing_is_chosen_on_one_host_or_for_an_unknown_address(address: str) -> None:
    point_nccl_at(address)
    assert chosen() is None
