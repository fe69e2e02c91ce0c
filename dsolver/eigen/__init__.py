"""Eigenvalues of systems that solves are for: `eigsh` is the call, `pairs` its result.

`pencil` has what is given for A and B as a problem, `search` runs the program, `shift_invert` finds values inside the
spectrum.
"""
