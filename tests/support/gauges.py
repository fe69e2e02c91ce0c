"""Gauges of Hermitian matrices: A and D A Dᴴ with phases D are the same system."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def in_random_gauge(a: sp.csr_array, seed: int = 3) -> sp.csr_array:
    """D A Dᴴ with random phases D, columns ascending."""
    d = sp.diags_array(np.exp(2j * np.pi * np.random.default_rng(seed).uniform(size=a.shape[0])))
    made = sp.csr_array(d @ a @ d.conj())
    made.sort_indices()
    return made
