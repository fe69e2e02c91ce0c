"""HPCG's levels on a CPU."""
