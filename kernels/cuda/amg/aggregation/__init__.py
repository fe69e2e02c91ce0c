"""Set-up of smoothed aggregation on a GPU."""
