"""Names of the coefficients of diffusion, as they are loaded on owners."""

from typing import Final

KAPPA: Final = ("kappa_x", "kappa_y", "kappa_z")
CROSS: Final = ("kappa_xy", "kappa_xz", "kappa_yz")  # fields of what a full tensor κ has beside its diagonal
SIGMA: Final = "sigma"
MASK: Final = "mask"
FIXED: Final = "fixed"  # the field of cells where u is held
HELD: Final = "fixed values"
VELOCITY: Final = ("velocity_x", "velocity_y", "velocity_z")
"""Velocities along x, y, z: of the grid's shape at the cells' centers, or with one more along the axis at faces."""
LEAST_KAPPA: Final = 1e-250
"""Smallest κ: with cells of 1e-50 to 1e50 neither h / κ is infinite nor κ h zero, which would decouple them."""
