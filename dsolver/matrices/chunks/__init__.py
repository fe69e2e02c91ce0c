"""Chunks of a matrix's rows: `plan` has which rows they have, `cut` makes them of a matrix in this process."""
