"""Halo values and partial sums that GPUs write into each other's memory."""
