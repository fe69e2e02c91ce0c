"""System that `dsolver solve` solves, from its options: a stencil, diffusion with arrays from files, or a matrix."""
