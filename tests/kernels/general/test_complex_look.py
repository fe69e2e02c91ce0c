"""A look at the entries of a complex matrix, against SciPy's and NumPy's operations on all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dsolver.kernels import Backend, load
from dsolver.kernels.cpu.csr.complex_look import real_part
from dsolver.kernels.formats.csr import Csr

RANDOM = np.random.default_rng(8)


def random(rows: int, kind: str) -> Any:
    """A matrix some of whose entries are real, imaginary, or without a mirror image."""
    parts = [sparse.random_array((rows, rows), density=0.06, rng=RANDOM) - 0.5 * sparse.eye_array(rows) for _ in "ab"]
    a = sparse.csr_array(parts[0] + 1j * parts[1])
    made = {"any": a, "symmetric": a + a.T, "hermitian": a + a.conj().T, "hollow": a - sparse.diags_array(a.diagonal())}
    found = sparse.csr_array(made[kind])
    found.sum_duplicates()
    return found


KINDS = ("any", "symmetric", "hermitian", "hollow")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest) -> Backend:
    return load(request.param)


def on(backend: Backend, a: Any) -> Csr:
    kinds = zip((a.indptr, a.indices, a.data), (np.int64, np.int32, np.complex128), strict=True)
    return Csr(*(backend.asarray(part.astype(kind)) for part, kind in kinds))


@pytest.mark.parametrize("kind", KINDS)
def test_mirror_images(kind: str, backend: Backend) -> None:
    a = random(70, kind)
    found = backend.complex_rows.mirrors(on(backend, a))
    difference = abs(a - a.T).toarray()
    magnitudes = [abs(a.toarray()).max(), difference.max(), abs(a - a.conj().T).toarray().max()]
    np.testing.assert_allclose([found.largest, found.difference, found.conjugate], magnitudes, rtol=1e-14)
    assert (found.difference == 0.0) is (kind == "symmetric")
    assert (found.conjugate == 0.0) is (kind == "hermitian")
    i, j = found.place
    assert difference[i, j] >= (1.0 - 1e-14) * difference.max()


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_rows(kind: str, backend: Backend) -> None:
    a = random(70, kind)
    rows, dense, ops = on(backend, a), a.toarray(), backend.complex_rows
    sums = ops.row_sums(rows)
    places, diagonal, total_of_rows = map(backend.to_host, (sums.places, sums.diagonal, sums.sums))
    parts_of = ops.row_parts(rows, sums.diagonal)
    values, sums_of, around, mixed_rows = map(
        backend.to_host, (parts_of.values, parts_of.sums, parts_of.around, parts_of.mixed)
    )
    np.testing.assert_allclose(total_of_rows, dense.sum(axis=1), atol=1e-14)
    assert np.array_equal(diagonal, dense.diagonal())
    own, off = dense.diagonal(), ~np.eye(70, dtype=np.bool_)
    parts, mixed, total = np.zeros((70, 70)), np.zeros(70, dtype=np.bool_), np.abs(own.real)
    for number, (part, diagonal) in enumerate(((dense.real, own.real), (dense.imag, own.imag))):
        signed = np.where(diagonal[:, None] + diagonal < 0.0, -part, part) * off
        parts += signed
        mixed |= ((part * off != 0.0) & (np.sign(diagonal)[:, None] * np.sign(diagonal) < 0.0)).any(axis=1)
        total = total + signed.sum(axis=1) if number == 0 else total
    made = sparse.csr_array((values, a.indices, a.indptr), shape=a.shape).toarray()
    assert np.array_equal(made, parts)
    np.testing.assert_allclose(sums_of, total, atol=1e-14)
    np.testing.assert_allclose(around, abs(parts).sum(axis=1), atol=1e-14)
    assert np.array_equal(mixed_rows, mixed)
    known = places >= 0
    assert np.array_equal(a.data[places[known]], own[known])
    assert not own[~known].any()


@pytest.mark.parametrize("imaginary", [False, True])
def test_parts_without_zeros(imaginary: bool) -> None:
    a = random(70, "any")
    start, columns, values = real_part(Csr(a.indptr, a.indices, a.data), imaginary=imaginary)
    made = sparse.csr_array((values, columns, start), shape=a.shape)
    dense = a.toarray().imag if imaginary else a.toarray().real
    assert np.array_equal(made.toarray(), dense)
    first = a.indptr[:-1][np.diff(a.indptr) > 0]
    assert (values == 0.0).sum() <= len(first)
    assert (np.diff(start) > 0).sum() == (np.diff(a.indptr) > 0).sum()
