"""Any sparse matrix as a problem: where it comes from, checks of its entries, how its rows are cut into chunks.

`matrix` makes a `problem`, from a matrix that `io` has read or that a user has: `canonical` and `checked` are its form,
`properties` what its entries tell, `cut` and `row_block` its chunks. Nothing here runs on a cluster: `cluster` reads
files and gathers blocks there, with what this package knows of them.
"""
