"""What worker processes of the tests have in common is done here, before they are forked: see tests/clusters.py."""

from __future__ import annotations

from numba.core.registry import cpu_target

import dsolver.kernels.cpu.backend  # noqa: F401  numba's contexts, below, know what has been imported

# As the first call of a compiled function does: half a second.
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
