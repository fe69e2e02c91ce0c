"""Every backend computes what the NumPy text-book does, on boxes with and without neighbors: these tests' fixtures."""

from __future__ import annotations

import pytest

from tests.kernels.backends.boxes import BACKENDS, CASES, Box, Case, box


@pytest.fixture(params=BACKENDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture
def pair(case: Case, name: str) -> tuple[Box, Box]:
    """The case on the backend under test, and in the text-book."""
    return box(case, name), box(case, "numpy")
