"""Solves in a session: `batching` groups right-hand sides, `loading` brings them to the program, `solves` solves.

`second_attempts` follow a solve that was slow or failed, `advice` one that has not converged.
"""
