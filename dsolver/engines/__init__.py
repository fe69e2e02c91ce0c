"""How a program's operations are run: see `base` for the interface."""
