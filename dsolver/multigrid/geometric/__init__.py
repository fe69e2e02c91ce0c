"""Coarsening of a lattice: halved boxes, interpolation that follows the coefficients, levels that are not stored.

The cycle knows nothing of this: levels bring their smoothers and transfers.
"""
