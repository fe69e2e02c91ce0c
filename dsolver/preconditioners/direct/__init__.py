"""Factors of the whole matrix as a preconditioner: `choice` has when they are worth their time, `part` makes them."""
