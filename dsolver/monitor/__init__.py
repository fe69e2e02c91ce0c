"""Watching a solve: measured spans, the events of a solve, and what shows them. Import the modules."""
