"""New values of products on a GPU, at places that are kept."""
