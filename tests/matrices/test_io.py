"""Matrices from files, good ones and bad ones."""

from __future__ import annotations

import bz2
import gzip
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import dsolver
from dsolver.errors import InputError
from dsolver.matrices.canonical import check_form, compressed
from dsolver.matrices.files import matrix_market
from dsolver.matrices.files.lines import Kind, checked_lines
from dsolver.matrices.io import read_matrix, read_vectors

HEAD = "%%MatrixMarket matrix coordinate"


def mtx(folder: Path, text: str) -> Path:
    path = folder / "a.mtx"
    path.write_text(text)
    return path


def petsc(matrix: scipy.sparse.csr_array, index: str = ">i4", value: str = ">f8", factor: complex = 1.0) -> bytes:
    lengths = np.diff(matrix.indptr)
    raw: bytes = (
        np.array([1211216, *matrix.shape, matrix.nnz], index).tobytes()
        + lengths.astype(index).tobytes()
        + matrix.indices.astype(index).tobytes()
        + (matrix.data * factor).astype(value).tobytes()
    )
    return raw


@pytest.fixture
def matrix() -> scipy.sparse.csr_array:
    found = scipy.sparse.random_array((40, 40), density=0.1, format="csr", rng=np.random.default_rng(0))
    found.sum_duplicates()
    return found


def canonical(name: str, given: Any) -> Any:
    check_form(name, given)
    return compressed(name, given)


def same(a: scipy.sparse.csr_array, b: scipy.sparse.csr_array) -> bool:
    return bool(a.shape == b.shape and abs(a - b).max() == 0.0)


@pytest.mark.parametrize("ending", [".mtx", ".mtx.gz", ".mtx.bz2", ".npz", ".petsc", ".bin"])
def test_what_was_written_is_read(tmp_path: Path, matrix: scipy.sparse.csr_array, ending: str) -> None:
    path = tmp_path / f"a.1{ending}"  # names may have further dots
    if ending == ".npz":
        scipy.sparse.save_npz(path, matrix)
    elif ending in (".petsc", ".bin"):
        path.write_bytes(petsc(matrix))
    else:
        plain = tmp_path / "plain.mtx"
        scipy.io.mmwrite(plain, matrix, precision=17)
        raw = plain.read_bytes()
        path.write_bytes({".mtx": raw, ".mtx.gz": gzip.compress(raw), ".mtx.bz2": bz2.compress(raw)}[ending])
    found = read_matrix(path)
    assert isinstance(found, scipy.sparse.csr_array)
    assert found.has_canonical_format
    assert same(found, matrix)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{HEAD} real symmetric\n% a comment\n2 2 2\n1 1 2.0\n2 1 -1\n", [[2, -1], [-1, 0]]),
        (f"{HEAD} integer skew-symmetric\n2 2 1\n2 1 5\n", [[0, -5], [5, 0]]),
        (f"{HEAD} pattern general\n2 2 3\n1 1\n1 1\n2 1\n", [[2, 0], [1, 0]]),
        (f"{HEAD} real hermitian\n2 2 2\n1 1 2\n2 1 -1\n", [[2, -1], [-1, 0]]),
        (f"{HEAD} real general\n2 2 3\n1 2 1e0\n1 2 2.5\n2 2 -3\n", [[0, 3.5], [0, -3]]),
        (f"{HEAD} integer general\n2 2 4\n1 2 1\n1 1 2\n1 2 3\n2 1 7\n", [[2, 4], [7, 0]]),  # row after row, unsorted
        (f"{HEAD} real general\n2 2 3\n2 2 5\n1 2 1\n2 1 3\n", [[0, 1], [3, 5]]),
        (f"{HEAD} real general\n2 2 2\n2 2 -0.1D+01\n1 2 +2.5d-1\n", [[0, 0.25], [0, -1]]),  # as Fortran writes
        (f"{HEAD} real symmetric\n2 2 2\n2 2 5\n1 2 1\n", [[0, 1], [1, 5]]),  # the upper half
        (f"{HEAD} real general\r\n\r\n 2\t2  1 \r\n  \t\r\n\n 1\t 2  .5 \r\n \n\n", [[0, 0.5], [0, 0]]),
        (f"{HEAD} unsigned-integer skew-symmetric\n2 2 2\n2 1 5\n1 1 0\n", [[0, -5], [5, 0]]),
        (f"{HEAD} integer general\n2 2 1\n2 1 {10**30}", [[0, 0], [1e30, 0]]),
    ],
)
def test_fields_and_symmetries(tmp_path: Path, text: str, expected: list[list[float]]) -> None:
    found = read_matrix(mtx(tmp_path, text))
    assert found.dtype == np.float64
    assert found.toarray().tolist() == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{HEAD} real general\n3 3 4\n1 1 2.0\n2 1 -1\n", "is cut short: its header tells of 4 entries, but 2 lines"),
        (f"{HEAD} real general\n3 3 1\n1 1 2.0\n2 1 -1\n", "has too many lines"),
        (f"{HEAD} real general\n3 3 2\n1 1 2.0\n4 1 -1\n", "Line 4: Row index out of bounds"),
        (f"{HEAD} real general\n3 3 2\n1 1 2.0\n2 x -1\n", "Line 4"),
        (f"{HEAD} complex general\n2 2 1\n1 1 2.0\n", "Line 3: an index, an index, a real number, a real number"),
        (f"{HEAD} complex hermitian\n2 2 1\n1 1 2.0 3.0\n", r"on its diagonal that is not real, at \(1, 1\)"),
        (f"{HEAD} real general\n2 2 2\n1 1 1\n2 1 nan\n", "Line 4: an index, an index, a real number must be there"),
        (f"{HEAD} real general\n2 2 1\n2 1 1e999\n", r"NaN or infinity in 1 entry, the first at \(1, 0\)"),
        (f"{HEAD} real general\n2 2 2\n1 1 1\n1 2 2\0\n", r"Line 4: .* must be there, not '1 2 2\\x00'"),
        (f"{HEAD} real general\n2 2 1\n1 2 0,5\n", "Line 3: .*not '1 2 0,5'"),
        (f"{HEAD} real general\n2 2 1\n1 2 4.0+100\n", "Line 3"),
        (f"{HEAD} real general\n2 2 1\n1 2 1+2\n", "Line 3"),
        (f"{HEAD} real general\n2 2 1\n1 2 1.2.3\n", "Line 3"),
        (f"{HEAD} real general\n2 2 1\n1 2.5 3\n", "Line 3"),
        (f"{HEAD} real general\n2 2 1\n1 2 3 4\n", "Line 3"),
        (f"{HEAD} real general\n2 2 1\n1 2 \n", "Line 3"),
        (f"{HEAD} real general\n2 2 2\n1 2 3\n% no comment here\n", "Line 4"),
        (f"{HEAD} integer general\n2 2 2\n1 2 -3\n1 1 3.5\n", "Line 4: an index, an index, a whole number must be"),
        (f"{HEAD} pattern general\n2 2 1\n1 2 3.5\n", "Line 3: an index, an index must be there"),
        (f"{HEAD} real general\n2 2 1\n1 0 3.5\n", "Line 3: Column index out of bounds"),
        (f"{HEAD} real general\n2 2 1 1\n1 0 3.5\n", "Line 2: three numbers must be there"),
        (f"{HEAD} real general\n2 2 1.0\n1 1 3.5\n", "Line 2: three numbers must be there"),
        (f"{HEAD} real general\n2 2 1\0\n1 1 3.5\n", "Line 2: three numbers must be there"),
        (f"{HEAD} real general\n", "Line 2: three numbers must be there"),
        (f"{HEAD} real general\n\n%\n2 2\n", "Line 4: three numbers must be there"),
        (f"{HEAD} real odd\n2 2 1\n1 1 3.5\n", "'real odd'"),
        (f"{HEAD} quaternion general\n2 2 1\n1 1 3.5\n", "'quaternion general'"),
        (f"{HEAD} real symmetric\n2 3 1\n1 1 3.5\n", "symmetric, and has 2 rows and 3 columns"),
        (
            f"{HEAD} real symmetric\n2 2 2\n1 2 1\n2 1 1\n",
            r"is symmetric by its header, and has entries on both sides of .*, such as at \(2, 1\) and \(1, 2\)",
        ),
        (f"{HEAD} real skew-symmetric\n2 2 1\n2 2 1\n", r"entry on its diagonal, at \(2, 2\)"),
        (f"{HEAD} real general\n{10**17} {10**17} 1\n1 1 1\n", "has 100000000000000000 rows and 1 entry, for which"),
        (f"{HEAD} real general\n0 3 0\n", "shape"),
        ("%%MatrixMarket matrix array real general\n1 1\n1\n", "by coordinates"),
        ("1 1 1\n", "Missing banner"),
        ("", "Missing banner"),
    ],
)
def test_bad_files_are_refused_with_the_line(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_matrix(mtx(tmp_path, text))


def test_files_that_are_cut_short(tmp_path: Path, matrix: scipy.sparse.csr_array) -> None:
    plain = tmp_path / "plain.mtx"
    scipy.io.mmwrite(plain, matrix)
    packed = {"a.mtx.gz": gzip.compress(plain.read_bytes()), "a.petsc": petsc(matrix), "a.npz": b"PK\3\4nothing"}
    for name, raw in packed.items():
        path = tmp_path / name
        path.write_bytes(raw[: 2 * len(raw) // 3])
        with pytest.raises(InputError, match=name):
            read_matrix(path)


@pytest.mark.parametrize(
    ("place", "word", "reason"),
    [(0, 7, "first word"), (1, -4, "rows"), (4, 39, "header"), (44, 99, "column 99 of 40")],
)
def test_a_damaged_petsc_file(
    tmp_path: Path, matrix: scipy.sparse.csr_array, place: int, word: int, reason: str
) -> None:
    raw = bytearray(petsc(matrix))
    raw[4 * place : 4 * place + 4] = struct.pack(">i", word)
    path = tmp_path / "a.petsc"
    path.write_bytes(bytes(raw))
    with pytest.raises(InputError, match=reason):
        read_matrix(path)


VECTOR = struct.pack(">2i2d", 1211214, 2, 1.0, 2.0)


@pytest.mark.parametrize("index", [">i4", ">i8"])
@pytest.mark.parametrize("value", [">f8", ">f4"])
@pytest.mark.parametrize("behind", [b"", VECTOR])
def test_kinds_of_petsc_that_are_read(
    tmp_path: Path, matrix: scipy.sparse.csr_array, index: str, value: str, behind: bytes
) -> None:
    matrix.data = matrix.data.astype(np.float32).astype(float)
    path = tmp_path / "a.petsc"
    more = behind if index == ">i4" or not behind else struct.pack(">2q2d", 1211214, 2, 1.0, 2.0)
    path.write_bytes(petsc(matrix, index, value) + more)
    assert same(read_matrix(path), matrix)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (lambda a: petsc(a, value=">c16", factor=1 + 1e200j), "values are of 128 bits"),
        (lambda a: petsc(a, value=">f2"), "values of 2 bytes, of 16 bits"),
        (lambda a: petsc(a, value=">c16", factor=2j)[:-16] + bytes(48 + 16 * a.nnz), "no other object of PETSc"),
        (lambda a: petsc(a) + b"more", "behind its values, at byte"),
        (lambda a: petsc(a)[:-1], "cut short"),
    ],
)
def test_kinds_of_petsc_that_are_refused(tmp_path: Path, matrix: scipy.sparse.csr_array, raw: Any, reason: str) -> None:
    path = tmp_path / "a.petsc"
    path.write_bytes(raw(matrix))
    with pytest.raises(InputError, match=reason):
        read_matrix(path)


BOEING = """{title:72}{key:8}
{total:14d}{pointers:14d}{indices:14d}{values:14d}{last}
{kind:14}{n:14d}{n:14d}{entries:14d}             0
(3I4)           (2I5)           {format:20}
   1   2   4
   6
    1    1
    2    2
    3
{numbers}"""


def boeing(
    kind: str = "RUA",
    form: str = "(1P,2D12.3)",
    numbers: str = "   1.500D+00  -2.000D+00\n   3.000D+00   4.000E+00\n  -5.000D-01\n",
    last: str = "             0",
    **counts: int,
) -> str:
    lines = {"total": 8, "pointers": 2, "indices": 3, "values": 3, "n": 3, "entries": 5} | counts
    return BOEING.format(title="a matrix", key="a", kind=kind, format=form, numbers=numbers, last=last, **lines)


@pytest.mark.parametrize(
    ("text", "ending", "expected"),
    [
        (boeing(), ".rua", [[1.5, -2, 0], [0, 3, 4], [0, 0, -0.5]]),
        (boeing(last=""), ".rb", [[1.5, -2, 0], [0, 3, 4], [0, 0, -0.5]]),
        (boeing("rsa"), ".RSA", [[1.5, -2, 0], [-2, 3, 4], [0, 4, -0.5]]),
        (
            boeing("RUA", "(2F6.1)", " 100.0-200.0\n   3.0   4.0\n  -0.5"),
            ".hb",
            [[100, -200, 0], [0, 3, 4], [0, 0, -0.5]],
        ),
        (boeing("IUA", "(5I3)", "  1 -2  3  4 -5\n", values=1), ".iua", [[1, -2, 0], [0, 3, 4], [0, 0, -5]]),
        (boeing("PSA", "", "", values=0), ".psa", [[1, 1, 0], [1, 1, 1], [0, 1, 1]]),
    ],
)
def test_harwell_and_rutherford_boeing(tmp_path: Path, text: str, ending: str, expected: list[list[float]]) -> None:
    path = tmp_path / f"a.1{ending}"  # names may have further dots
    path.write_text(text)
    assert read_matrix(path).toarray().tolist() == expected


def test_what_scipy_writes_as_harwell_boeing_is_read(tmp_path: Path, matrix: scipy.sparse.csr_array) -> None:
    scipy.io.hb_write(tmp_path / "a.rua", matrix)
    assert abs(read_matrix(tmp_path / "a.rua") - scipy.io.hb_read(tmp_path / "a.rua")).max() == 0.0
    scipy.io.hb_write(tmp_path / "b.rua", diagonals := scipy.sparse.csc_array(2.5 * np.eye(40) - np.eye(40, k=1)))
    assert abs(read_matrix(tmp_path / "b.rua") - diagonals).max() == 0.0  # fields of 25 characters that have 24


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (boeing("RUE"), "Line 3: 'rue' is no type"),
        (
            boeing("RSA").replace("   2   4\n", "   3   4\n").replace("    1    1\n    2", "    1    2\n    1"),
            r"is symmetric by its header, and has entries on both sides of .*, such as at \(2, 1\) and \(1, 2\)",
        ),
        (boeing().replace("    2    2\n", "    2    9\n"), "has an index 8"),
        (boeing().replace("   6\n", "   7\n"), "cannot be read"),
        (boeing().replace("3.000D", "3.0x0D"), "Line 11: a real number must be there"),
        (boeing().replace("1.500D+00", "1.500    "), "Line 10: '1.500' has no point or no exponent"),
        (boeing("RUA", "(2F6.1)", "   100   200\n   3.0   4.0\n  -0.5"), "Line 10: '100' has no point"),
        (boeing().replace("   1   2   4\n", "   1   2\n"), "Line 5: it has 2 numbers"),
        (boeing(values=2), "it has 2 lines for 5 numbers"),
        (boeing(entries=10**12, indices=5 * 10**11), "cut short: it ends before line 13"),
        (boeing("RUA", "(many)"), r"Line 4: '\(many\)' is no format of real numbers"),
        (boeing("RUA", "(2D0.3)"), "Line 4"),
        ("\0" * 200, "cut short: it ends before line 2"),
        ("", "cut short"),
    ],
)
def test_bad_files_of_harwell_boeing(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "a.rua"
    path.write_text(text)
    with pytest.raises(InputError, match=reason):
        read_matrix(path)


def test_matlab(tmp_path: Path, matrix: scipy.sparse.csr_array) -> None:
    path = tmp_path / "a.mat"
    for variables in ({"K": matrix, "b": np.ones(3)}, {"Problem": {"name": "one", "A": matrix}}):
        for packed in (False, True):
            scipy.io.savemat(path, variables, do_compression=packed)
            assert same(read_matrix(path), matrix)
    for variables, reason in (
        ({"K": matrix, "M": matrix}, "it holds K, M: save the one"),
        ({"b": np.ones((3, 3))}, "it holds none"),
    ):
        scipy.io.savemat(path, variables)
        with pytest.raises(InputError, match=reason):
            read_matrix(path)
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM" + bytes(400))
    with pytest.raises(InputError, match=r"v7\.3"):
        read_matrix(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{HEAD} real general\n10 10 {10**15}\n1 1 1\n", "is cut short"),
        (f"{HEAD} real general\n{10**12} {10**12} 1\n1 1 1\n", f"has {10**12} rows and 1 entry, for which"),
        (f"{HEAD} real general\n{10**30} 5 1\n1 1 1\n", "Line 2: three numbers"),
        (f"{HEAD} real general\n{10**19 - 1} 5 1\n1 1 1\n", "Line 2: 9999999999999999999 is out of range"),
        (f"{HEAD} real general\n2 2 -1\n", "Line 2: three numbers"),
        (f"{HEAD.replace('coordinate', 'array')} real general\n{10**9} {10**9}\n1\n", "by coordinates"),
    ],
)
def test_absurd_counts_are_refused_before_memory_is_taken(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_matrix(mtx(tmp_path, text))


def test_a_petsc_file_of_absurd_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.petsc"
    path.write_bytes(struct.pack(">4i", 1211216, *[2**31 - 1] * 3))
    with pytest.raises(InputError, match="more bytes were to come where 0 are left"):
        read_matrix(path)


def test_a_long_text_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = range(1, 300)
    text = "".join(f"{i} {i} {i}.5\n" for i in rows)
    path = mtx(tmp_path, f"{HEAD} real symmetric\n%\n299 299 {len(rows)}\n{text}")
    whole = read_matrix(path)
    assert (whole.diagonal() == np.array(rows) + 0.5).all()
    monkeypatch.setattr(matrix_market, "AT_ONCE", 100)
    assert same(read_matrix(path), whole)
    path.write_text(path.read_text().replace("\n250 ", "\n250,"))
    with pytest.raises(InputError, match=r"Line 253: .* not '250,250 250.5'"):
        read_matrix(path)


@pytest.mark.parametrize("byte", range(256))
def test_any_byte_in_a_number_is_read_as_what_it_means_or_refused(byte: int) -> None:
    numbers: tuple[Kind, ...] = ("index", "index", "real")
    text = b"1 2 3.25\n1 2 3%c25\n" % byte
    try:
        expected = float(text.split()[-1].replace(b"D", b"E").replace(b"d", b"e")) if byte not in b"_" else None
    except ValueError:
        expected = None
    if len(text.split()) != 6 or expected is None or byte in b"\v\f":
        with pytest.raises(ValueError, match=r"Line 1[23]"):
            checked_lines(text, numbers, 10)
        return
    found, lines = checked_lines(text, numbers, 10)
    assert (float(found.split()[-1]), lines) == (expected, 2)


class Ran:
    """Object that runs where it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("ran",)


@pytest.mark.parametrize("name", ["format", "data"])
def test_objects_in_a_file_of_scipy_are_not_unpickled(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"indices": np.array([0]), "indptr": np.array([0, 1, 1]), "shape": np.array([2, 2])}
    arrays: dict[str, Any] = {"format": np.array(b"csr"), "data": np.ones(1), **places}
    np.savez(tmp_path / "a.npz", **(arrays | {name: np.array([Ran()], dtype=object)}))
    with pytest.raises(InputError, match="Object arrays cannot be loaded"):
        read_matrix(tmp_path / "a.npz")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["indices", "indptr", "shape"])
def test_indices_that_are_no_integers_are_not_rounded(tmp_path: Path, name: str) -> None:
    arrays: dict[str, Any] = {"indices": np.array([0, 1]), "indptr": np.array([0, 1, 2]), "shape": np.array([2, 2])}
    rounded = {name: arrays[name] + 0.4}
    np.savez(tmp_path / "a.npz", format=np.array(b"csr"), data=np.ones(2), **(arrays | rounded))
    with pytest.raises(InputError, match=f"its array {name}.npy has dtype float64: integers are needed"):
        read_matrix(tmp_path / "a.npz")


@pytest.mark.parametrize(("place", "byte"), [(8, 99), (6, 1), (40, 255)])  # method, encryption, compressed data
def test_a_damaged_archive(tmp_path: Path, matrix: scipy.sparse.csr_array, place: int, byte: int) -> None:
    path = tmp_path / "a.npz"
    scipy.sparse.save_npz(path, matrix)
    raw = bytearray(path.read_bytes())
    for found in (b"PK\3\4", b"PK\1\2"):  # of an array, and in the list of all
        at = raw.index(found) + place + 2 * (found == b"PK\1\2")
        raw[at] = byte
        if place == 40:
            raw[at : at + 20] = bytes(20)
            break
    path.write_bytes(bytes(raw))
    with pytest.raises(InputError, match="cannot be read as a sparse matrix"):
        read_matrix(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    for name, reason in (("a.mtx", "there is no file"), ("a.txt", "ends in none of"), ("matrix", "ends in none of")):
        with pytest.raises(InputError, match=reason):
            read_matrix(tmp_path / name)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_every_format_and_its_owner_keeps_it(matrix: scipy.sparse.csr_array, kind: str) -> None:
    given = matrix.asformat(kind)
    before = given.toarray()
    assert same(canonical("A", given), matrix)
    assert (given.toarray() == before).all()


def test_duplicates_and_unsorted_columns() -> None:
    given = scipy.sparse.csr_matrix((np.array([1, 2, 3, 4]), np.array([1, 0, 1, 1]), np.array([0, 3, 4])), shape=(2, 2))
    assert canonical("A", given).toarray().tolist() == [[2, 4], [0, 4]]
    assert given.nnz == 4


@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "bsr"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_, np.float32])
def test_duplicates_are_added_in_float64(kind: str, dtype: Any) -> None:
    large = {np.bool_: 1.0, np.float32: 2.0**24}.get(dtype, 100.0)
    values, columns = np.array([large, large, 1], dtype), np.array([0, 0, 0])
    if kind == "coo":
        given = scipy.sparse.coo_array((values, (columns, columns)), shape=(1, 1))
    else:
        data = values.reshape(-1, 1, 1) if kind == "bsr" else values
        given = getattr(scipy.sparse, f"{kind}_array")((data, columns, np.array([0, 3])), shape=(1, 1))
    assert canonical("A", given).toarray().tolist() == [[2 * large + 1]]
    assert given.nnz == 3


def with_arrays(kind: str, **arrays: Any) -> Any:
    """A matrix whose arrays were changed behind SciPy's back."""
    made = scipy.sparse.eye_array(6).asformat(kind)
    for name, value in arrays.items():
        setattr(made, name, value)
    return made


def with_row(*columns: Any) -> Any:
    made = scipy.sparse.eye_array(6).tolil()
    made.rows[2] = list(columns)
    return made


def with_key(*key: Any) -> Any:
    made = scipy.sparse.eye_array(6).todok()
    made._dict[key] = 1.0
    return made


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: with_row(99), r"has an index \(99,\), but shape \(6, 6\)"),
        (lambda: with_row(-1), "has an index"),
        (lambda: with_row(1.5), "has an index"),
        (lambda: with_row(1, 2), r"lists of columns \(rows\) and of values \(data\) of different lengths"),
        (lambda: with_key(99, 0), r"has an index \(99, 0\), but shape \(6, 6\)"),
        (lambda: with_key(0, -1), "has an index"),
        (lambda: with_key(0, 1, 2), "has an index"),
        (lambda: with_arrays("csr", indptr=np.array([0, 1, 2, 3, 4, 2**40, 6])), "do not ascend"),
        (lambda: with_arrays("csr", indptr=np.array([1, 1, 2, 3, 4, 5, 6])), "do not ascend from 0"),
        (lambda: with_arrays("csr", indptr=np.arange(7.0)), "of dtype float64: integers"),
        (lambda: with_arrays("csr", indices=np.arange(6.0)), "indices of dtype float64"),
        (lambda: with_arrays("csc", data=np.ones((6, 2))), r"values of shape \(6, 2\): 1 dim"),
        (lambda: with_arrays("bsr", data=np.ones((6, 4, 1))), "which do not divide"),
        (lambda: with_arrays("coo", data=np.ones(5)), "they must be equal"),
        (lambda: with_arrays("dia", offsets=np.array([0, 1])), "diagonals of shape"),
        (lambda: with_arrays("dia", offsets=np.array([1, 1]), data=np.ones((2, 6))), "two diagonals with one offset"),
    ],
)
def test_arrays_that_lead_out_of_a_matrix_are_refused(make: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        canonical("A", make())


def test_a_rectangular_matrix(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.write_text(f"{HEAD} real general\n3 2 3\n1 1 1\n3 2 2\n2 1 4\n", encoding="utf-8")
    a, b = read_matrix(path), np.array([1.0, 4.0, 6.0])
    assert a.toarray().tolist() == [[1.0, 0.0], [4.0, 0.0], [0.0, 2.0]]
    assert dsolver.lsmr(a, b).x == pytest.approx([1.0, 3.0])
    with pytest.raises(InputError, match=r"use dsolver\.lsmr"):
        dsolver.solve(a, b)


def test_what_is_no_system() -> None:
    with pytest.raises(InputError, match="has no rows"):
        canonical("A", scipy.sparse.csr_array((0, 0)))
    with pytest.raises(InputError, match="dtype complex128"):
        canonical("A", scipy.sparse.csr_array(np.eye(2, dtype=complex)))


def test_vectors_of_a_matrix_market_array(tmp_path: Path) -> None:
    values = np.arange(6.0).reshape(3, 2)
    scipy.io.mmwrite(tmp_path / "b.mtx", values)
    assert read_vectors(tmp_path / "b.mtx").tolist() == values.tolist()
    scipy.io.mmwrite(tmp_path / "sparse.mtx", scipy.sparse.coo_array(np.array([[0.0], [2.5], [0.0]])))
    assert read_vectors(tmp_path / "sparse.mtx").tolist() == [[0.0], [2.5], [0.0]]
    array = "%%MatrixMarket matrix array real"
    for text, reason in (
        (f"{HEAD} real general\n1 2 1\n1 1 1\n", "coordinates in 2 columns: vectors are an array, or have one column"),
        (f"{HEAD} real general\n2 1 1\n3 1 1\n", "3"),
        (f"{array} symmetric\n1 1\n1\n", "'symmetric'"),
        (f"{array} general\n{10**9} {10**9}\n1\n", "it has 1 values"),
        (f"{array} general\n2 1\n1\n2\0\n", "Line 4: a real number must be there"),
        (f"{array.replace('real', 'complex')} general\n1 1\n1\n", "a real number, a real number must be there"),
        ("x", "cannot be read"),
    ):
        with pytest.raises(InputError, match=reason):
            read_vectors(mtx(tmp_path, text))


def test_what_is_no_name_of_a_file_is_refused() -> None:
    with pytest.raises(InputError, match="path must be the name of a file, not 3"):
        read_matrix(3)  # type: ignore[arg-type]
