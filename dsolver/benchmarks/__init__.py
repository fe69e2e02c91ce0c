"""Benchmarks on top of the public pieces."""
