"""Remains of the set-up of a matrix, for the next one with entries in the same places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

Outcome = Literal["used", "first", "pattern", "none"]
"""Use that a set-up has made of the one before: "used"; none, as there was nothing yet ("first"), as entries are in
other places or stored in another order ("pattern"), or as the preconditioner keeps nothing ("none")."""


@final
@dataclass
class Reuse:
    """Remains of set-ups for those that follow, on every rank.

    Attributes:
        kept: by the last one; None for nothing.
        outcome: what the last one has used of the one before.
    """

    kept: Any = None
    outcome: Outcome = "none"
