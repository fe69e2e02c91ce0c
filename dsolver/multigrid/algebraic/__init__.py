"""Coarsening along strong couplings, wherever they lead. The set-up runs on one chunk, on its owner's host."""
