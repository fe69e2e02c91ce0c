"""Sessions: a system that is set up on some devices, and its solves, from users' arrays to solutions.

`session` keeps the program, `solves` solves: `batching` groups right-hand sides, `loading` brings them to the program,
`follower` goes with a solve, `second_attempts` follow one that was slow or failed, `recovery` and `checkpoint` keep
iterates. `arguments`, `options` and `user_arrays` deal with what users give. No numerics: those belong to the program.
"""
