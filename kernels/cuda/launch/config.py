"""Launch configurations: how passes over a matrix are cut into launches and blocks. They change no bit of a result.

They follow from the device's properties and from fractions that were measured on an H200.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LaunchConfig:
    """Launch configuration of passes over a matrix."""

    # most warps of a block that multiplies, one slice each: 1, 2, 4 or, of float32, 8, the kernels' launch bounds
    # (`WIDEST` in slices.cuh).
    warps: int
    slab_share: float = 0.27  # share of L2 that x of one slab takes where x of a level does not fit there
    cached_slabs: int  # slabs of a large level whose x does fit


CONFIGS = {8: LaunchConfig(warps=4, cached_slabs=2), 4: LaunchConfig(warps=8, cached_slabs=1)}
"""The configuration by bytes of a value. On an H200:

Sweeps of doubles with 8 warps a block were 3 % slower, with 16 10 %; of floats, 8 made a V-cycle 0.6 % faster.

Launches of one chain start early, and of floats all entries are then on their way before the launch before is over: a
float32 V-cycle from 128³ on took 0.311 ms with one slab where x fits in L2, and 0.346 with two.
"""
