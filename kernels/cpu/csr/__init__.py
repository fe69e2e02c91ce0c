"""General matrices on a CPU: compressed rows, a look at them, their statistics, and formats and factors from them."""
