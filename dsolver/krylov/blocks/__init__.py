"""Methods that iterate on several vectors at once: `block` has the vectors, `lobpcg` finds eigenvalues."""
