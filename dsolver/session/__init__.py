"""Sessions: a system that is set up on some devices, and its solves, from users' arrays to solutions.

`session` keeps the program, `run` solves, `batching` groups right-hand sides, `follower` goes with a solve, `recovery`
and `checkpoint` keep iterates; `arguments`, `options` and `arrays` deal with what users give. No numerics: those
belong to the program.
"""
