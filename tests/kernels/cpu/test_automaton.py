"""Finite automata over bytes: eight lanes and pairs of bytes find what one byte after the other finds."""

from __future__ import annotations

import random

import pytest

from dsolver.kernels.cpu.automaton import WRONG, Automaton, first_wrong

ODD, EVEN, END = 1, 2, 3
"""Lines of an odd number of letters a begin in state 1; a b may end them."""


def language() -> Automaton:
    table = [[WRONG] * 256 for _ in range(4)]
    table[ODD][ord("a")], table[EVEN][ord("a")] = EVEN, ODD
    table[EVEN][ord("b")] = END
    table[EVEN][ord("\n")] = table[END][ord("\n")] = ODD
    return Automaton(table)


def plainly(text: bytes) -> int:
    place = 0
    for line in text.splitlines(keepends=True):
        count = len(line) - len(line.lstrip(b"a"))
        if count % 2 == 0:
            return place + count
        rest = line[count:]
        if rest not in (b"\n", b"b\n"):
            return place + count + rest.startswith(b"b")
        place += len(line)
    return -1


@pytest.mark.parametrize("seed", range(8))
def test_the_first_wrong_byte(seed: int) -> None:
    chance, found = random.Random(seed), 0
    for _ in range(200):
        lines = [b"a" * chance.choice((1, 3, 5)) + chance.choice((b"\n", b"b\n")) for _ in range(chance.randrange(60))]
        for _ in range(chance.choice((0, 0, 1, 2))):
            lines.insert(
                chance.randrange(len(lines) + 1), chance.choice((b"aa\n", b"\n", b"abb\n", b"c\n", b"aaa\0\n"))
            )
        text = b"".join(lines)
        assert first_wrong(text, language()) == plainly(text), text
        found += plainly(text) >= 0
    assert 0 < found < 200
