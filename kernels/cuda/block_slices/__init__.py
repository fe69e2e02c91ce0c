"""Slices of rows of blocks on a GPU: made from compressed rows, and their products."""
