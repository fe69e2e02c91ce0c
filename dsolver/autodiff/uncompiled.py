"""The solve of `dsolver.torch` where `torch.compile` looks on: a call that runs as it is, between two compiled graphs.

Imported by the solve itself while PyTorch compiles, for what this needs takes two seconds of processor time.
"""

from __future__ import annotations

from typing import Any

import torch

from dsolver.autodiff.torch import differentiable

solve: Any = torch.compiler.disable(differentiable, reason="dsolver.torch.solve calls a solver that is no graph")
