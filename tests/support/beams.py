"""Beams: elements whose matrices are as badly conditioned as their number to the fourth power."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def clamped_beam(elements: int) -> tuple[Any, Any]:
    """Stiffness and mass, CSR arrays (2 elements, 2 elements), of a beam that is clamped at one end.

    Unknowns are the deflection and the rotation of each node; length, E I and the mass of a unit of length are 1.
    Hermite's elements: Cook et al., Concepts and applications of finite element analysis, section 2.3.
    """
    h = 1.0 / elements
    unit = np.diag([1.0, h, 1.0, h])
    bending = np.array([[12, 6, -12, 6], [6, 4, -6, 2], [-12, -6, 12, -6], [6, 2, -6, 4]]) / h**3
    inertia = np.array([[156, 22, 54, -13], [22, 4, 13, -3], [54, 13, 156, -22], [-13, -3, -22, 4]]) * h / 420.0
    unknowns = 2 * np.arange(elements)[:, None] + np.arange(4)
    places = np.repeat(unknowns, 4, axis=1).ravel(), np.tile(unknowns, 4).ravel()
    made = [sp.csr_array((np.tile((unit @ m @ unit).ravel(), elements), places)) for m in (bending, inertia)]
    return made[0][2:, 2:], made[1][2:, 2:]
