"""Files of matrices with random faults: read as what they say or refused, here and by workers, and none is killed."""

from __future__ import annotations

import gzip
import io
import os
import random
import re
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from distributed import Client

import dsolver
from dsolver.cluster.rows.file_rows import blocks_of_file
from dsolver.errors import InputError
from tests.support.clusters import cluster
from tests.support.petsc import write_petsc
from tests.support.waiting import PATIENCE

Found = dict[tuple[int, int], float] | str
"""Entries that are not zero by place, or the reason why there are none."""
WORDS = (
    b"\0",
    b" ",
    b"\n",
    b"\r",
    b"-",
    b"+",
    b".",
    b",",
    b"e",
    b"D",
    b"9",
    b"nan",
    b"%",
    b"\xff",
    b"1 1 1\n",
    b"e+100",
)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with cluster(2) as made:
        yield made


def matrix() -> Any:
    rng = np.random.default_rng(3)
    off = sp.random_array((12, 12), density=0.15, rng=rng, format="csr")
    return (off + off.T + sp.diags_array(rng.random(12) + 2.0)).tocsr()


def market(symmetry: str) -> bytes:
    raw = io.BytesIO()
    scipy.io.mmwrite(raw, matrix(), comment="some words", precision=6, symmetry=symmetry)
    return raw.getvalue()


def stored(kind: str, packed: bool) -> bytes:
    raw = io.BytesIO()
    sp.save_npz(raw, matrix().asformat(kind), compressed=packed)
    return raw.getvalue()


def written(write: Callable[[Path], Any], folder: Path, ending: str) -> bytes:
    path = folder / f"whole{ending}"
    write(path)
    return path.read_bytes()


#: The bytes of a file by its ending; what stands before the point tells formats of one ending apart.
WHOLE: dict[str, Callable[[Path], bytes]] = {
    "general.mtx": lambda _: market("general"),
    "symmetric.mtx": lambda _: market("symmetric"),
    "packed.mtx.gz": lambda _: gzip.compress(market("general"), mtime=0),
    "csr.npz": lambda _: stored("csr", False),
    "csc.npz": lambda _: stored("csc", True),
    "a.petsc": lambda folder: written(lambda path: write_petsc(path, matrix()), folder, ".petsc"),
    "a.rua": lambda folder: written(lambda path: scipy.io.hb_write(path, matrix()), folder, ".rua"),
    "a.mat": lambda folder: written(lambda path: scipy.io.savemat(path, {"A": matrix()}), folder, ".mat"),
}


def broken(raw: bytes, chance: random.Random) -> bytes:
    """A file with one to three faults."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at, length = chance.randrange(len(raw) + 1), chance.choice((1, 1, 2, 4, 8, 50))
        match chance.randrange(6):
            case 0:
                raw = raw[:at]
            case 1:
                raw = raw[:at] + raw[at + length :]
            case 2:
                raw = raw[:at] + chance.choice(WORDS) + raw[at:]
            case 3:
                raw = raw[:at] + chance.choice(WORDS) + raw[at + 1 :]
            case 4:
                raw = raw[:at] + raw[at : at + length] + raw[at:]
            case _:
                flipped = bytes([raw[at] ^ 1 << chance.randrange(8)]) if at < len(raw) else b""
                raw = raw[:at] + flipped + raw[at + 1 :]
    return raw


def entries_of(a: Any) -> dict[tuple[int, int], float]:
    found = a.tocoo()
    places = zip(found.row.tolist(), found.col.tolist(), strict=True)
    return {place: value for place, value in zip(places, found.data.tolist(), strict=True) if value != 0.0}


def here(path: Path) -> Found:
    """As this process reads it."""
    try:
        return entries_of(dsolver.read_matrix(path))
    except InputError as error:
        return str(error)


def there(path: Path, client: Client) -> Found:
    """As the workers of a cluster read it."""
    try:
        dsolver.read_matrix(path, client=client, chunks=2)
        return entries_of(sp.vstack(client.gather(blocks_of_file(path, client, 2)), format="csr"))
    except InputError as error:
        return str(error)


def plainly(name: str, raw: bytes) -> Found:
    """As a reader without any art reads text, or PETSc's words; what it does not know is a reason."""
    if name.endswith(".mtx"):
        lines = raw.split(b"\n")
        head = lines[0].split()
        rest = [line for line in lines[1:] if line.strip(b" \t\r")]
        while rest and rest[0].startswith(b"%"):
            rest.pop(0)
        symmetric = head[-1].lower() == b"symmetric"
        if not rest or len(rest[0].split()) != 3 or int(rest[0].split()[2]) != len(rest) - 1:
            return "its header"
        found: Counter[tuple[int, int]] = Counter()
        for line in rest[1:]:
            match = re.fullmatch(rb"[ \t]*(\d+)[ \t]+(\d+)[ \t]+([-+.\deE]+)[ \t\r]*", re.sub(rb"[dD]", b"e", line))
            if match is None:
                return line.decode("latin-1")
            i, j, value = int(match[1]) - 1, int(match[2]) - 1, float(match[3])
            for place in {(i, j), (j, i)} if symmetric else {(i, j)}:
                found[place] += value  # type: ignore[assignment]
        return {place: value for place, value in found.items() if value}
    if name.endswith(".petsc"):
        _, rows, _, entries = struct.unpack_from(">4i", raw)
        lengths = np.frombuffer(raw, ">i4", rows, 16)
        columns = np.frombuffer(raw, ">i4", entries, 16 + 4 * rows)
        values = np.frombuffer(raw, ">f8", entries, 16 + 4 * rows + 4 * entries)
        places = zip(np.repeat(np.arange(rows), lengths).tolist(), columns.tolist(), strict=True)
        counted: Counter[tuple[int, int]] = Counter()
        for place, value in zip(places, values.tolist(), strict=True):
            counted[place] += value
        return {place: value for place, value in counted.items() if value}
    return "not known"


def close(one: Found, other: Found) -> bool:
    """Whether two findings are the same entries, up to the order of sums."""
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str)
    return one.keys() == other.keys() and all(abs(one[k] - other[k]) <= 1e-14 * abs(other[k]) for k in one)


def tried(name: str, count: int, folder: Path, client: Client | None) -> Counter[str]:
    """So many broken files of a format: how many were read and refused; asserts that each was treated well."""
    chance, whole, counts = random.Random(name), WHOLE[name](folder), Counter[str]()
    sound = folder / f"sound{name[name.index('.') :]}"
    sound.write_bytes(whole)
    intact = here(sound)
    assert isinstance(intact, dict)
    if client is not None:  # what is compiled on first use is not timed
        assert close(there(sound, client), intact)
    for number in range(count):
        path = folder / f"{number}{name[name.index('.') :]}"
        path.write_bytes(broken(whole, chance))
        began = time.monotonic()
        found = here(path) if client is None else client.submit(here, path, pure=False, retries=0).result()
        took = time.monotonic() - began
        expected = plainly(name, path.read_bytes()) if isinstance(found, dict) else found
        if expected != "not known":
            assert close(found, expected), (path, found, expected)
        counts["read" if isinstance(found, dict) else "refused"] += 1
        if client is not None:
            began = time.monotonic()
            other = there(path, client)
            took = max(took, time.monotonic() - began)
            empty = isinstance(other, str) and " empty row" in other
            elsewhere = isinstance(found, str) and close(other, intact)  # a fault that workers need not see
            assert empty or elsewhere or close(other, found), (path, found, other)
        assert took < PATIENCE, (path, took)
        path.unlink()
    return counts


@pytest.mark.parametrize("name", WHOLE)
def test_some_broken_files(tmp_path: Path, name: str) -> None:
    counts = tried(name, 2 if name.endswith(".mat") else 40, tmp_path, None)
    assert counts["refused"] > 0 or name == "a.mat"


@pytest.mark.parametrize("name", ["symmetric.mtx", "csr.npz", "a.petsc"])
def test_some_broken_files_on_workers(client: Client, tmp_path: Path, name: str) -> None:
    before = client.run(os.getpid)
    tried(name, 6, tmp_path, client)
    assert client.run(os.getpid) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_500_broken_files_here_and_on_workers(
    client: Client, tmp_path: Path, name: str, record_property: Callable[[str, object], None]
) -> None:
    before = client.run(os.getpid)
    counts = tried(name, 500, tmp_path, client)
    record_property("counts", dict(counts))
    assert counts["refused"] > 0 or name == "a.mat"
    assert client.run(os.getpid) == before
