"""Complex matrices and vectors in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import dsolver
from dsolver.errors import InputError
from dsolver.matrices.io import read_matrix, read_vectors, write_vector
from tests.matrices.test_io import boeing, petsc
from tests.support.petsc import write_petsc


@pytest.fixture
def matrix() -> Any:
    random = np.random.default_rng(0)
    found = sp.random_array((40, 40), density=0.1, format="csr", rng=random)
    found = sp.csr_array(found + 1j * sp.random_array((40, 40), density=0.1, format="csr", rng=random))
    found.sum_duplicates()
    return found


def same(a: Any, b: Any) -> bool:
    return bool(a.dtype == np.complex128 and a.shape == b.shape and abs(a - b).max() == 0.0)


@pytest.mark.parametrize("ending", [".mtx", ".mtx.gz", ".npz", ".petsc", ".mat"])
def test_what_was_written_is_read(ending: str, tmp_path: Path, matrix: Any) -> None:
    path = tmp_path / f"a{ending}"
    match ending:
        case ".npz":
            sp.save_npz(path, matrix)
        case ".petsc":
            write_petsc(path, matrix)
        case ".mat":
            scipy.io.savemat(path, {"A": matrix})
        case _:
            scipy.io.mmwrite(tmp_path / "a.mtx", matrix, precision=17)
            if ending == ".mtx.gz":
                import gzip

                path.write_bytes(gzip.compress((tmp_path / "a.mtx").read_bytes()))
    assert same(read_matrix(path), matrix)


@pytest.mark.parametrize("symmetry", ["symmetric", "skew-symmetric", "hermitian"])
def test_entries_that_stand_for_two(symmetry: str, tmp_path: Path, matrix: Any) -> None:
    other = matrix.T.conj() if symmetry == "hermitian" else matrix.T
    whole = sp.csr_array(matrix - other if symmetry == "skew-symmetric" else matrix + other)
    scipy.io.mmwrite(tmp_path / "a.mtx", whole, precision=17, symmetry=symmetry)
    assert f"complex {symmetry}" in (tmp_path / "a.mtx").read_text().splitlines()[0]
    assert same(read_matrix(tmp_path / "a.mtx"), whole)


@pytest.mark.parametrize("value", [">c16", ">c8"])
def test_petsc_of_both_precisions_and_with_objects_behind(value: str, tmp_path: Path, matrix: Any) -> None:
    path = tmp_path / "a.petsc"
    wanted = sp.csr_array(matrix * (1 + 2j))
    if value == ">c8":
        wanted = wanted.astype(np.complex64).astype(np.complex128)
    raw = petsc(matrix, value=value, factor=1 + 2j)
    for more in (b"", np.array([1211214, 1], ">i4").tobytes() + bytes(16)):
        path.write_bytes(raw + more)
        assert same(read_matrix(path), wanted)


def test_harwell_boeing_with_two_numbers_an_entry(tmp_path: Path) -> None:
    path = tmp_path / "a.cua"
    numbers = (
        "   1.500D+00  -2.000D+00\n   3.000D+00   4.000E+00\n  -5.000D-01   0.000D+00\n"
        "   1.000D+00   1.000D+00\n   0.000D+00   2.000D+00\n"
    )
    path.write_text(boeing("CUA", numbers=numbers, values=5, total=10))
    expected = [[1.5 - 2j, 3 + 4j, 0], [0, -0.5, 1 + 1j], [0, 0, 2j]]
    assert np.array_equal(read_matrix(path).toarray(), expected)


def test_vectors_and_a_system_of_files(tmp_path: Path, matrix: Any) -> None:
    b = np.arange(40) + 1j * np.arange(40)[::-1]
    write_vector(tmp_path / "b.mtx", b)
    assert np.array_equal(read_vectors(tmp_path / "b.mtx")[:, 0], b)
    whole = sp.csr_array(matrix + 10.0 * sp.eye_array(40))
    scipy.io.mmwrite(tmp_path / "a.mtx", whole, precision=17)
    x = dsolver.solve(read_matrix(tmp_path / "a.mtx"), b, rtol=1e-12).x
    assert np.linalg.norm(whole @ x - b) <= 1e-11 * np.linalg.norm(b)


def test_workers_read_real_matrices_alone(tmp_path: Path, matrix: Any) -> None:
    from dsolver.matrices.io import all_entries, header_of

    scipy.io.mmwrite(tmp_path / "a.mtx", matrix)
    sp.save_npz(tmp_path / "a.npz", matrix)
    for read, name in ((header_of, "a.mtx"), (all_entries, "a.npz")):
        with pytest.raises(InputError, match="real numbers are needed; complex systems are a sparse matrix"):
            read(tmp_path / name)
