"""Set-up of sweeps over the rows of any sparse matrix on a GPU: the colors and factors of the host, to the last bit."""

from typing import Any, ClassVar

import cupy

from dsolver.kernels.colorings.setup import SweepSetup
from dsolver.kernels.cuda.colorings import colors, factors


class CudaSweeps(SweepSetup):
    """Set-up of sweeps on the device."""

    xp: ClassVar[Any] = cupy
    colors: ClassVar[Any] = colors
    factors: ClassVar[Any] = factors
