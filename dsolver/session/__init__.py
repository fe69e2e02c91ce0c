"""Sessions: a system that is set up on some devices, and its solves, from users' arrays to solutions.

`session` says who may use the system when, `running` has its program, `facts`, `notes` and `feed` tell of it, `vectors`
has products and solutions, `recovery` and `checkpoints/` keep iterates. `arguments`, `options` and `user_arrays` deal
with what users give. Solves are in `solving/`. No numerics: those belong to the program.
"""
