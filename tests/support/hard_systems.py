"""Random systems that have no solution, hardly one, or none that conjugate gradients find; all are seeded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

F64 = npt.NDArray[np.float64]
Generator = np.random.Generator


def _sparse(rng: Generator, n: int) -> Any:
    """Some entries in each row, of both signs."""
    values = rng.standard_normal(4 * n)
    rows, columns = rng.integers(0, n, (2, 4 * n))
    return sp.csr_array((values, (rows, columns)), shape=(n, n)) + 1e-3 * sp.eye_array(n)


def _edges(rng: Generator, n: int, pieces: int) -> Any:
    """Laplacian of a graph in pieces, each a path with chords and weights of several orders."""
    piece = np.sort(rng.integers(0, pieces, n))
    i, j = np.arange(n - 1), np.arange(1, n)
    more = rng.integers(0, n, (2, n))
    i, j = np.concatenate([i, more[0]]), np.concatenate([j, more[1]])
    inside = (piece[i] == piece[j]) & (i != j)
    i, j = i[inside], j[inside]
    weights = 10.0 ** rng.uniform(-2.0, 2.0, len(i))
    off = sp.csr_array((weights, (i, j)), shape=(n, n))
    off = off + off.T
    return (sp.diags_array(np.asarray(off.sum(axis=1)).ravel()) - off + sp.csr_array((n, n))).tocsr()


def singular_symmetric(rng: Generator, n: int) -> Any:
    """Semidefinite, of a random rank."""
    b = _sparse(rng, n)[:, rng.random(n) < rng.uniform(0.5, 0.98)]
    return b @ b.T


def pieces(rng: Generator, n: int) -> Any:
    """The Laplacian of a graph in pieces."""
    return _edges(rng, n, int(rng.integers(1, 6)))


def near_singular(rng: Generator, n: int) -> Any:
    """Definite by a part of 1e-6 to 1e-15."""
    a = singular_symmetric(rng, n)
    return a + abs(a).max() * 10.0 ** rng.uniform(-15.0, -6.0) * sp.eye_array(n)


def indefinite(rng: Generator, n: int) -> Any:
    """Symmetric with eigenvalues of both signs."""
    a = _sparse(rng, n)
    return a + a.T + sp.diags_array(rng.standard_normal(n))


def at_an_eigenvalue(rng: Generator, n: int) -> Any:
    """A line's Laplacian less one of its eigenvalues, as Helmholtz's equation at a resonance."""
    k = int(rng.integers(1, n + 1))
    shift = 4.0 * np.sin(0.5 * np.pi * k / (n + 1)) ** 2
    return sp.diags_array([np.full(n - 1, -1.0), np.full(n, 2.0 - shift), np.full(n - 1, -1.0)], offsets=[-1, 0, 1])


def saddle(rng: Generator, n: int) -> Any:
    """Definite rows with constraints, some of which say the same."""
    m = max(2, n // 4)
    a = _edges(rng, n - m, 1) + sp.eye_array(n - m)
    c = sp.random_array((m, n - m), density=min(1.0, 3.0 / (n - m)), rng=rng).tolil()
    c[m - 1] = c[0]
    c = c.tocsr()
    return sp.block_array([[a, c.T], [c, None]])


def unsymmetric(rng: Generator, n: int) -> Any:
    """Without any structure."""
    return _sparse(rng, n) + sp.diags_array(rng.standard_normal(n))


def singular_unsymmetric(rng: Generator, n: int) -> Any:
    """Without any structure, and some columns say the same."""
    a = unsymmetric(rng, n).toarray()
    for _ in range(int(rng.integers(1, 4))):
        i, j = rng.integers(0, n, 2)
        a[:, i] = a[:, j]
    return sp.csr_array(a)


def convection(rng: Generator, n: int) -> Any:
    """Central differences of convection and diffusion, with far too much of the former."""
    c = 10.0 ** rng.uniform(0.0, 4.0)
    lower, upper = np.full(n - 1, -1.0 - c), np.full(n - 1, -1.0 + c)
    return sp.diags_array([lower, np.full(n, 2.0), upper], offsets=[-1, 0, 1])


def badly_scaled(rng: Generator, n: int) -> Any:
    """Symmetric and indefinite, with rows and columns of twelve orders."""
    d = sp.diags_array(10.0 ** rng.uniform(-6.0, 6.0, n))
    return d @ indefinite(rng, n) @ d


KINDS: Final[tuple[Callable[[Generator, int], Any], ...]] = (
    singular_symmetric,
    pieces,
    near_singular,
    indefinite,
    at_an_eigenvalue,
    saddle,
    unsymmetric,
    singular_unsymmetric,
    convection,
    badly_scaled,
)


def system(seed: int) -> tuple[str, Any, F64]:
    """The name of a kind, a matrix whose rows all have an entry, and a right-hand side, in reach in one of three."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    a = sp.csr_array(kind(rng, int(rng.integers(4, 301))))
    a.sum_duplicates()
    empty = np.flatnonzero(np.diff(a.indptr) == 0)
    if len(empty):
        a = (a + sp.csr_array((np.full(len(empty), 1e-300), (empty, empty)), shape=a.shape)).tocsr()
    b = rng.standard_normal(a.shape[0])
    return kind.__name__, a, a @ b if seed % 3 == 0 else b
