"""HPCG's levels on a GPU: smoothers with half sweeps, those of a small level in one launch, and injection."""
