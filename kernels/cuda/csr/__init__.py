"""Compressed rows on a GPU, as they are or padded to the longest: their products."""
