"""Preconditioners of systems of blocks: `base` sets the fields up, `methods` has those that users name."""
