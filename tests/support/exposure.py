"""Rules for the exposed communication of any iterations."""

from __future__ import annotations

import pytest

from dsolver.monitor.spans import Exposure


def check_that_numbers_agree(found: Exposure) -> None:
    assert sum(level.ms for level in found.levels.values()) == pytest.approx(found.total.ms)
    assert sum(level.percent for level in found.levels.values()) == pytest.approx(found.total.percent)
    assert sum(level.mean_ms for level in found.levels.values()) == pytest.approx(found.total.mean_ms)
    assert found.total.percent == pytest.approx(100.0 * found.total.ms / found.iteration_ms)
    assert found.total.percent <= 100.0 + 1e-9
