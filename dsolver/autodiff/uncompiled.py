"""Calls that `torch.compile` leaves as they are, between two compiled graphs.

To be imported while PyTorch compiles: what this needs takes two seconds of processor time, and is there by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


called: Any = torch.compiler.disable(_called, reason="dsolver.torch.solve calls a solver that is no graph")
"""The result of a function of these arguments; the compiler looks at neither."""
