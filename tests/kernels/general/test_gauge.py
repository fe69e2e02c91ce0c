"""Phases in which a Hermitian matrix couples by negative numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dsolver.kernels import load
from dsolver.kernels.cpu.amg.aggregation import nodes, roots
from dsolver.kernels.cpu.csr import complex_look, gauge
from dsolver.kernels.formats.csr import Csr
from dsolver.matrices.complex.gauge import in_gauge
from tests.support.gauges import in_random_gauge

N = 12
FLUX = 0.2


def lattice(flux: float, *, open_sides: bool = True) -> Any:
    """The Laplacian of a square with a magnetic flux through each face, and Dirichlet values where sides are open."""
    numbers = np.arange(N * N).reshape(N, N)
    here = np.concatenate([numbers[:-1].ravel(), numbers[:, :-1].ravel()])
    there = np.concatenate([numbers[1:].ravel(), numbers[:, 1:].ravel()])
    turned = np.exp(1j * flux * np.where(there == here + 1, here // N, 0))
    couplings = sparse.coo_array((-turned, (here, there)), (N * N, N * N)).tocsr()
    couplings = couplings + couplings.conj().T
    around = np.full(N * N, 4.0) if open_sides else abs(couplings).sum(axis=1)
    return sparse.csr_array(couplings + sparse.diags_array(around))


def found(a: Any, name: str = "cpu", threads: int = 1) -> Any:
    """d, complex128 (rows,) or None, and the real parts of turned entries, on the host."""
    backend = load(name, threads)
    kinds = zip((a.indptr, a.indices, a.data), (np.int64, np.int32, np.complex128), strict=True)
    rows = Csr(*(backend.asarray(part.astype(kind)) for part, kind in kinds))
    turned, values = in_gauge(backend, rows, float(abs(a.data).max()), backend.complex_rows.row_sums(rows))
    return None if turned is None else backend.to_host(turned).view(np.complex128)[:, 0], backend.to_host(values)


def test_without_flux_the_matrix_becomes_real() -> None:
    plain = lattice(0.0)
    a = in_random_gauge(plain, 4)
    d, values = found(a)
    np.testing.assert_allclose(abs(d), 1.0, rtol=1e-14)
    np.testing.assert_allclose((d.conj()[:, None] * a.toarray() * d), plain.toarray(), atol=1e-13)
    np.testing.assert_allclose(values, plain.data.real, atol=1e-13)


def test_with_flux_couplings_are_nearly_what_their_magnitudes_are() -> None:
    """In whatever gauge the matrix came; the one that it was assembled in has far smaller ones."""
    a = lattice(FLUX)
    sums = [
        -(found(each)[1].sum() - 4 * N * N) / (abs(each.data).sum() - 4 * N * N) for each in (a, in_random_gauge(a, 4))
    ]
    assert min(sums) > 0.925
    assert sums[0] == pytest.approx(sums[1], rel=1e-10)
    assert -(a.data.real.sum() - 4 * N * N) / (abs(a.data).sum() - 4 * N * N) < 0.8


@pytest.mark.parametrize("where", [("cpu", 3), pytest.param(("cuda", 1), marks=pytest.mark.gpu)])
def test_threads_and_gpus_give_the_same_bits(where: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (complex_look, gauge, nodes, roots):
        for name in vars(module):
            if name.endswith("WORTH_A_THREAD"):
                monkeypatch.setattr(module, name, 1)
    for a in (in_random_gauge(lattice(FLUX), 4), in_random_gauge(lattice(0.0), 4)):
        for alone, together in zip(found(a), found(a, *where), strict=True):
            assert (alone == together).all()


@pytest.mark.parametrize("exponent", [-700, 700])
def test_sizes_of_entries_do_not_matter(exponent: int) -> None:
    """Entries whose squares are no numbers."""
    a = in_random_gauge(lattice(FLUX), 4)
    far = sparse.csr_array(a * 2.0**exponent)
    (d, values), (same, scaled) = found(a), found(far)
    assert (same == d).all()
    assert (scaled == values * 2.0**exponent).all()


def test_rows_without_couplings_stay() -> None:
    a = in_random_gauge(lattice(FLUX), 4)
    whole = sparse.block_array([[a, None], [None, sparse.eye_array(3)]], format="csr")
    d, values = found(whole)
    assert (d[-3:] == 1.0).all()
    assert (values[-3:] == 1.0).all()
    assert (d[:-3] == found(a)[0]).all()


def test_there_is_none_where_it_gains_nothing_or_would_leave_a_null_vector() -> None:
    for a in (lattice(0.0), in_random_gauge(lattice(0.0, open_sides=False), 4)):
        d, values = found(a)
        assert d is None
        assert (values == a.data.real).all()
