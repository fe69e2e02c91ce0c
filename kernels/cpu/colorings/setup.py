"""Set-up of sweeps over the rows of any sparse matrix on the host."""

from typing import Any, ClassVar

import numpy as np

from dsolver.kernels.colorings.setup import SweepSetup
from dsolver.kernels.cpu.colorings import colors, factors


class HostSweeps(SweepSetup):
    """Set-up of sweeps by compiled loops over one row after the other."""

    xp: ClassVar[Any] = np
    colors: ClassVar[Any] = colors
    factors: ClassVar[Any] = factors
