"""Batches of right-hand sides that are iterated on together, and their columns."""
