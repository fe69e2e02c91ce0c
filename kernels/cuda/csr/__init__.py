"""Compressed rows on a GPU, as they are or in chunks: their products."""
