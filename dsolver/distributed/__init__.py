"""Distributed matrices and vectors: local and ghost parts, halo plans, all-gathers, null spaces.

Written against engines. What a matrix was made from, a grid or anything else, is not known here.
"""
