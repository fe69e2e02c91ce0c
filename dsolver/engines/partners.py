"""Chunks that have something to do with each other, as far as an engine can see."""

from collections.abc import Iterable, Mapping, Sequence

from dsolver.errors import RankError


def mutual(named: Mapping[int, Iterable[int]], chunks: int) -> list[tuple[int, ...]]:
    """The chunks that each one has named or is named by, ascending; named: by some of them."""
    found: list[set[int]] = [set() for _ in range(chunks)]
    for number, others in named.items():
        for other in others:
            found[number].add(other)
            found[other].add(number)
    return [tuple(sorted(numbers)) for numbers in found]


def check_expected(pairs: Iterable[tuple[int, int]], expected: Sequence[tuple[int, int]]) -> None:
    """Raise a `RankError` if a message, from one chunk to another, is none of those that may come."""
    if lost := set(pairs) - set(expected):
        raise RankError(f"chunks have messages for others that expect none of them: {sorted(lost)} (from, to)")
