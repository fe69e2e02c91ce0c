"""General matrices in one chunk: rows that follow from nothing but their entries, in the format that fits them."""
