"""Formats without columns of rows whose colors alternate along axes: stars in two, and transfers between eight."""
