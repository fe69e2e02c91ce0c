"""Algebraic multigrid's set-up: loops over the rows of a level, on the host. `dsolver.kernels.cuda.amg` has a GPU's.

`setup` has all that there is: strong `couplings`, then coarse points (`pmis`) with `extended_interpolation`, or what
`aggregation` has, and products (`products`). All loops give the same bits whatever the
number of threads.

Names mean the same everywhere here: `a` has own rows, with columns in a window of rows, of which `below` are ghosts
before the own ones; `team` shares the loop. Of every point of a window `state` is int8, `key` uint64, `origin`, the
finest row that it stems from, int64, and `coarse`, its place among coarse points, int32, -1 for fine ones; `points`:
int64, some own points, ascending; `bits`: of `couplings.couplings`; `columns`: how many the result has; `offsets`: the
K offsets of a grid's columns, (0, 0, 0) among them. Of nodes `graph` is of `nodes.strong_nodes`, `found` float64, the
root of every node of the window, -1 for none, and `open_` bool, of own nodes that take part. A window's numbers are
int64, `first` the first of its `rows` own ones, and places in it int32.
"""
