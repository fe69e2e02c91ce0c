"""Any sparse matrix as a problem: where it comes from, checks of its entries, how its rows are cut into chunks.

Nothing here runs on a cluster: `cluster` reads files and gathers blocks there, with what this package knows of them.
"""
