"""A look at the entries of a matrix, against SciPy's and NumPy's operations on all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from scipy import sparse

from dsolver.kernels import load
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.general.look import CANCELED, Faults, Look

ALLOWED: Final = 1e-12


def graph(rows: int, seed: int) -> sparse.csr_array:
    """A random symmetric matrix whose rows add up to zero."""
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, rows, (2, 3 * rows))
    off = sparse.coo_array((rng.uniform(0.1, 2.0, len(i)) * (i != j), (i, j)), shape=(rows, rows)).tocsr()
    off = off + off.T
    return sparse.csr_array(sparse.diags_array(np.asarray(off.sum(axis=1)).ravel()) - off)


def changed(a: sparse.csr_array, *entries: tuple[int, int, float]) -> sparse.csr_array:
    made = a.tolil()
    for i, j, value in entries:
        made[i, j] = value
    return sparse.csr_array(made)


def lines(rows: int) -> sparse.csr_array:
    """A full first row, and little beside it: rows of both kinds."""
    made = sparse.random_array((rows, rows), density=3.0 / rows, rng=np.random.default_rng(2)).tolil()
    made[0, :] = np.linspace(-1.0, 1.0, rows)
    made[rows // 2, :] = 2.0
    return sparse.csr_array(made)


def arrow(rows: int) -> sparse.csr_array:
    """A symmetric matrix with a full first row and column, and little beside them."""
    made = sparse.diags_array(np.linspace(3.0, 4.0, rows)).tolil()
    made[0, 1:] = made[1:, 0] = np.linspace(-1.0, 0.5, rows - 1)
    return sparse.csr_array(made)


def circulation(rows: int) -> sparse.csr_array:
    """Rows and columns of no symmetric matrix that add up to zero."""
    return sparse.csr_array(sparse.eye_array(rows) - sparse.eye_array(rows).tocsr()[np.roll(np.arange(rows), 1)])


def matrices() -> dict[str, sparse.csr_array]:
    closed, flow = graph(300, 1), circulation(50)
    drained = changed(closed, (3, 4, -7.0), (4, 3, -7.0))
    made = {
        "rows that add up to zero": closed,
        "the same but for rounding": sparse.csr_array(closed.multiply(1.0 + 1e-15 * (np.arange(300)[:, None] % 2))),
        "rows that do, columns that do not": sparse.csr_array(sparse.diags_array(np.linspace(1.0, 2.0, 300)) @ closed),
        "rows and columns that do": flow,
        "mirrored rows and columns that do": sparse.csr_array(closed + flow_on(closed)),
        "two entries that differ": changed(drained, (90, 80, 5.0), (80, 90, 1.0), (70, 200, 5.0), (200, 70, 1.0)),
        "an entry below without a mirror image": changed(drained, (90, 85, 50.0)),
        "an entry above without a mirror image": changed(drained, (85, 90, 50.0)),
        "zeros on the diagonal": changed(drained, (7, 7, 0.0), (9, 9, -1.0)),
        "empty rows": sparse.csr_array(sparse.diags_array((np.arange(64) % 5 > 0).astype(float))),
        "a row with all columns": lines(2500),
        "a row and a column with all others": arrow(1500),
        "one entry": sparse.csr_array(np.full((1, 1), -2.0)),
        "diagonal": sparse.csr_array(sparse.diags_array(np.arange(1.0, 40.0))),
        "wide rows": sparse.random_array((120, 120), density=0.4, rng=np.random.default_rng(3), format="csr"),
        "any": sparse.random_array((400, 400), density=0.01, rng=np.random.default_rng(4), format="csr"),
    }
    for a in made.values():
        a.sum_duplicates()
    return made


def flow_on(a: sparse.csr_array) -> sparse.csr_array:
    """Flow around a triangle of rows that are coupled in both directions."""
    flow = np.zeros(a.shape)
    for one, other in ((0, 1), (1, 2), (2, 0)):
        flow[one, one] += 1.0
        flow[one, other] -= 1.0
    return sparse.csr_array(flow)


MATRICES: Final = matrices()


def compressed(a: Any) -> Csr:
    return Csr(a.indptr.astype(np.int64), a.indices.astype(np.int32), a.data.astype(np.float64))


def counted(of: Any) -> tuple[int, int]:
    found = np.flatnonzero(of)
    return len(found), int(found[0]) if len(found) else -1


def expected(a: sparse.csr_array) -> Look:
    """Findings by operations on whole arrays."""
    dense, diagonal = a.toarray(), a.diagonal()
    sums, sizes = dense.sum(axis=1), abs(dense).sum(axis=1)
    difference = abs(dense - dense.T)
    around, both = sizes - abs(diagonal), abs(dense) + abs(dense.T)
    some = (around > 0.0) & (diagonal > 0.0)
    positive = ((sizes + sums) / 2.0 - diagonal)[some] / around[some]
    rows_cancel = bool((abs(sums) <= CANCELED * sizes).all())
    stored = sparse.csr_array((np.ones(a.nnz), a.indices, a.indptr), shape=a.shape).toarray()
    matched = (stored * stored.T == 1.0) & (both > 0.0)
    place = np.unravel_index(int(difference.argmax()), a.shape)
    return Look(
        empty=counted(np.diff(a.indptr) == 0),
        hollow=counted(diagonal == 0.0),
        negative=int((diagonal <= 0.0).sum()),
        opened=int((abs(sums) > CANCELED * sizes).sum()),
        rows_cancel=rows_cancel,
        columns_cancel=rows_cancel and bool((abs(dense.sum(axis=0)) <= CANCELED * abs(dense).sum(axis=0)).all()),
        largest=abs(dense).max(),
        least=abs(diagonal[diagonal != 0.0]).min(initial=np.inf),
        unmatched=int(((stored == 1.0) & (stored.T == 0.0)).sum()),
        difference=difference.max(),
        skewness=(difference[matched] / both[matched]).max(initial=0.0),
        place=(int(place[0]), int(place[1])) if difference.max() > ALLOWED * abs(dense).max() else None,
        positive=float(positive.sum()),
        dominance=float((1.0 - around[some] / diagonal[some]).sum() + np.count_nonzero(~some)),
        squares=int((np.diff(a.indptr).astype(np.int64) ** 2).sum()),
    )


@pytest.mark.parametrize("name", MATRICES)
def test_what_a_cpu_finds(name: str) -> None:
    found, wanted = load("cpu").general.look(compressed(MATRICES[name]), ALLOWED), expected(MATRICES[name])
    assert replace(found, positive=0.0, dominance=0.0) == replace(wanted, positive=0.0, dominance=0.0)
    assert (found.positive, found.dominance) == pytest.approx((wanted.positive, wanted.dominance), rel=1e-12, abs=1e-12)
    assert load("numpy").general.look(compressed(MATRICES[name]), ALLOWED) == found


def test_threads_find_the_same() -> None:
    a = sparse.random_array((40_000, 40_000), density=1e-4, rng=np.random.default_rng(5), format="csr")
    a.sort_indices()
    one, four = (load("cpu", threads=threads).general.look(compressed(a), ALLOWED) for threads in (1, 4))
    assert one == four
    assert one.empty[0] > 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", MATRICES)
def test_a_gpu_finds_the_same(name: str) -> None:
    import cupy

    rows = compressed(MATRICES[name])
    there = load("cuda").general.look(Csr(*(cupy.asarray(part) for part in rows)), ALLOWED)
    assert there == load("cpu").general.look(rows, ALLOWED)


@pytest.mark.gpu
def test_mirror_images_are_searched_where_a_matrix_is_not_symmetric(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    from dsolver.kernels.cuda.csr.look import look as module

    launched: list[str] = []
    launch = module._launch

    def recorded(name: str, *rest: Any) -> None:
        launched.append(name)
        launch(name, *rest)

    monkeypatch.setattr(module, "_launch", recorded)
    closed = graph(300, 1)
    i, j = (int(part[0]) for part in np.nonzero(sparse.triu(closed, 1).toarray()))
    value = float(closed[i, j])
    near, far = np.nextafter(value, 9.0), (i, 299) if closed[i, 299] == 0.0 else (i, 298)
    for a, searched in (
        (closed, False),
        (changed(closed, (i, j, near), (j, i, near)), False),
        (changed(closed, (i, j, near)), True),
        (changed(closed, (i, j, -value)), True),
        (changed(closed, (*far, 2.0)), True),
    ):
        launched.clear()
        rows = Csr(a.indptr.astype(np.int64), a.indices.astype(np.int32), a.data)
        load("cuda").general.look(Csr(*(cupy.asarray(part) for part in rows)), ALLOWED)
        assert any(name.startswith("look") for name in launched) == searched


@pytest.mark.parametrize("name", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_faults_are_found(name: str) -> None:
    def faults(change: Any) -> Faults:
        rows = Csr(*(part.copy() for part in compressed(MATRICES["any"])))
        change(*rows)
        return load(name).general.look(Csr(*map(load(name).asarray, rows)), ALLOWED).faults

    def nothing(*_: Any) -> None:
        pass

    def astray(start: Any, *_: Any) -> None:
        start[100] = 10**12

    def late(start: Any, *_: Any) -> None:
        start[0] = 1

    def outside(_: Any, columns: Any, __: Any) -> None:
        columns[[700, 333]] = 400, -1

    def shuffled(start: Any, columns: Any, _: Any) -> None:
        row = int(np.flatnonzero(np.diff(start) > 1)[0])
        columns[start[row] : start[row] + 2] = columns[start[row] : start[row] + 2][::-1].copy()

    def repeated(start: Any, columns: Any, _: Any) -> None:
        row = int(np.flatnonzero(np.diff(start) > 1)[0])
        columns[start[row] + 1] = columns[start[row]]

    def infinite(_: Any, __: Any, values: Any) -> None:
        values[[50, 20, 1000]] = np.inf, np.nan, -np.inf

    assert faults(nothing) == Faults()
    assert faults(astray).pointers == 2
    assert faults(late).pointers == 1
    assert faults(outside).outside == 333
    assert faults(shuffled).descending == 1
    assert faults(repeated).repeated == 1
    assert faults(infinite).infinite == (3, 20)


def mixed(rows: Csr) -> Csr:
    """Rows with their entries in another order."""
    order = np.random.default_rng(6).permutation(len(rows.columns))
    order = order[np.argsort(np.repeat(np.arange(rows.size), np.diff(rows.start))[order], kind="stable")]
    return Csr(rows.start, rows.columns[order], rows.values[order])


@pytest.mark.parametrize("name", ["a row with all columns", "empty rows"])
def test_entries_are_sorted(name: str) -> None:
    rows = compressed(MATRICES[name])
    general, (start, columns, values) = load("cpu").general, mixed(rows)
    found = general.compressed(general.places(start, len(columns)), columns, values, rows.size)
    for one, other in zip(found, rows, strict=True):
        assert one.dtype == other.dtype
        assert (one == other).all()


@pytest.mark.gpu
def test_entries_are_sorted_on_a_gpu() -> None:
    import cupy

    rows = compressed(MATRICES["a row with all columns"])
    general, (start, columns, values) = load("cuda").general, (cupy.asarray(part) for part in mixed(rows))
    found = general.compressed(general.places(start, len(columns)), columns, values, rows.size)
    for one, other in zip(found, rows, strict=True):
        assert (one.get() == other).all()


@pytest.mark.parametrize("backend", ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("lengths", [[3], [0], [], [2, 0, 0, 1, 3], [0, 0, 4], [1, 2, 0]])
def test_places_of_entries_are_their_rows(backend: str, lengths: list[int]) -> None:
    used = load(backend)
    start = used.asarray(np.concatenate([[0], np.cumsum(lengths, dtype=np.int32)]).astype(np.int32))
    found = used.to_host(used.general.places(start, sum(lengths)))
    assert found.dtype == np.int64
    assert (found == np.repeat(np.arange(len(lengths)), lengths)).all()
