"""Systems whose A is no single sparse matrix: a function, or blocks of matrices."""
