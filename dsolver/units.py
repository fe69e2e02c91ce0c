"""Quantities as people read them."""

from __future__ import annotations


def amount(size: float) -> str:
    """Bytes for people."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB")):
        if size >= unit / 4:
            return f"{size / unit:.3g} {name}"
    return f"{size / (1 << 20):.3g} MiB"
