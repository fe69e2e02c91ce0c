"""Factors of whole matrices by libraries, for direct solves.

`factors` makes them whatever the matrix, `libraries` chooses who does, and `parts` brings the kernels with which chunks
solve by factors that one of them has.
"""
