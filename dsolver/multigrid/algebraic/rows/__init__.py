"""A chunk's rows of a level: what they see, how they are sent, and how levels get theirs.

Each chunk has `level_rows` of its own, whose columns are places in a `window`; coarsening and smoothers follow
`measures` of these rows. Between chunks `global_rows` travel, of which `ghost_rows` are brought into a window; owners
of coarse points are told who has `seen` them. A level's own rows are made `symmetric` to the bit, or get a symmetric
part where A is `unsymmetric`; those of a small level are `gathered` on every owner.
"""
