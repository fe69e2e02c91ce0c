"""The compiler of loops: numba, its cache, loops compiled ahead and on first use; and the threads that share them.

Loops themselves are beside the data that they run over. Nothing here holds a matrix.
"""
