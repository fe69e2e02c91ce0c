"""`dsolver solve`: the command, room for its system, and what it shows of solutions."""
