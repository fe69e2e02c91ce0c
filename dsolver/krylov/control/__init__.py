"""Control of solves by their numbers alone, how they go on and when they end: no arrays, no Dask, no caller.

`control` reads as a solve goes: supersteps, true residual, the way back to the best x; its `requests` are answered by a
column. `norms` are those of the recursion's residual, `supersteps` the lengths of supersteps, `drift` is that of the
recursion from the truth, `rounding` what it leaves, and in which rows. `giving_up` has the reasons to end
without success, `best_iterate` the x to go back to.
"""
