"""Solves in a session: `batching` groups right-hand sides, `loading` brings them to the program, an `attempt` solves.

`second_attempts` go on where one was slow or failed; `solves` is the way to the last of them, `advice` for what has not
converged.
"""
