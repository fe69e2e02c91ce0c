"""Classical coarsening across chunks: some points are coarse, and all others are interpolated from them.

Couplings that are strong (`strength`) choose `coarse_points` by PMIS, once or twice (`aggressive`). Strong couplings to
them (`coarse_couplings`) are what `interpolation` follows; for flows there is `ideal_restriction`.
"""
