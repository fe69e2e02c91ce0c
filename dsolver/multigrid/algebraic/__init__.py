"""Algebraic multigrid: levels that follow strong couplings, wherever they lead.

`parallel_setup` makes a hierarchy across chunks, by one of the `methods`: coarse points or aggregates. `setup` makes
the coarse levels of a grid that one chunk holds whole, on its owner's host.
"""
