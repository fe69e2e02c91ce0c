"""Sliced ELL on a GPU: set-up, products and half sweeps."""
