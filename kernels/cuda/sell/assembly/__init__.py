"""Assembly of sliced ELL on a GPU."""
