"""Products, transposes and mirror images of entries on a GPU: the arrays of the host's functions, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dsolver.kernels.amg import Cut, Images
from dsolver.kernels.cpu.amg import products as hosts
from dsolver.kernels.cpu.amg import transposes
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr, joined

pytestmark = pytest.mark.gpu
TEAM = Team(2, worth=8)


@pytest.fixture(scope="module")
def cupy() -> Any:
    return pytest.importorskip("cupy")


def shuffled(matrix: Any, seed: int = 0) -> Csr:
    """The rows of a matrix with their entries in any order, and values over six decades of both signs."""
    rng = np.random.default_rng(seed)
    found = sp.csr_array(matrix)
    rows = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
    order = np.lexsort([rng.random(found.nnz), rows])
    values = rng.choice([-1.0, 1.0], found.nnz) * 10.0 ** rng.uniform(-3.0, 3.0, found.nnz)
    return Csr(found.indptr.astype(np.int64), found.indices[order].astype(np.int32), values)


def random(rows: int, columns: int, mean: float, seed: int) -> Csr:
    """Rows of many lengths: most of them short, some empty, one with an entry in three quarters of all columns."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.geometric(1.0 / (mean + 1.0), rows) - 1, columns)
    if rows > 2:
        lengths[rows // 2], lengths[0] = 3 * columns // 4, 0
    picked = [rng.choice(columns, length, replace=False) for length in lengths]
    start = np.concatenate([[0], np.cumsum(lengths)])
    found = np.concatenate([*picked, np.empty(0, dtype=np.int64)])
    return shuffled(sp.csr_array((np.ones(len(found)), found, start), shape=(rows, columns)), seed)


def lattice(n: int) -> Csr:
    """Seven points of an n x n x n lattice."""
    line = sp.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1])
    eye = sp.eye_array(n)
    return shuffled(
        sp.kron(sp.kron(line, eye), eye) + sp.kron(sp.kron(eye, line), eye) + sp.kron(sp.kron(eye, eye), line)
    )


def arrow(n: int) -> Csr:
    """A full row, a full column and a diagonal."""
    row = np.concatenate([np.zeros(n, dtype=np.int64), np.arange(1, n), np.arange(1, n)])
    column = np.concatenate([np.arange(n), np.zeros(n - 1, dtype=np.int64), np.arange(1, n)])
    return shuffled(sp.csr_array((np.ones(len(row)), (row, column)), shape=(n, n)), 5)


CASES: dict[str, tuple[Csr, Csr, int]] = {
    "lattice": (lattice(7), random(343, 120, 3.0, 1), 120),
    "dense": (random(40, 300, 60.0, 2), random(300, 900, 40.0, 3), 900),
    "wide": (random(9, 60, 30.0, 4), random(60, 5000, 300.0, 5), 5000),
    "narrow": (random(200, 500, 20.0, 6), random(500, 3, 1.0, 7), 3),
    "arrow": (arrow(4500), random(4500, 4400, 1.5, 22), 4400),
    "empty": (random(5, 4, 0.0, 8), Csr(np.zeros(5, np.int64), np.zeros(0, np.int32), np.zeros(0)), 6),
    "no rows": (Csr(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0)), random(4, 4, 2.0, 9), 4),
    "one": (random(1, 1, 1e9, 10), random(1, 1, 1e9, 11), 1),
}


def on(cupy: Any, matrix: Csr) -> Csr:
    return Csr(*(cupy.asarray(part) for part in matrix))


def same(found: Csr, expected: Csr) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one.get(), other)
        if other.dtype == np.float64:
            np.testing.assert_array_equal(np.signbit(one.get()), np.signbit(other))


@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_products(cupy: Any, case: str, ascending: bool) -> None:
    from dsolver.kernels.amg import Places
    from dsolver.kernels.cuda.sparse.places import products as placed
    from dsolver.kernels.cuda.sparse.products.product import numeric, product

    a, b, columns = CASES[case]
    expected = hosts.product(a, b, columns, TEAM, ascending=ascending)
    found = product(on(cupy, a), on(cupy, b), columns, ascending=ascending)
    same(found, expected)
    other = a._replace(values=-3.7 * a.values)
    expected = hosts.product(other, b, columns, TEAM, ascending=ascending)
    same(numeric(found, on(cupy, other), on(cupy, b), columns, ascending=ascending), expected)
    kept = Places()
    for _ in range(2):  # places are found, and then kept
        same(placed.numeric(kept, found, on(cupy, other), on(cupy, b), columns, ascending=ascending), expected)


def test_rows_that_outgrow_their_tables_go_to_larger_ones_and_in_the_end_to_blocks(
    cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dsolver.kernels.cuda.sparse.products import product as gpu
    from dsolver.kernels.cuda.sparse.products import tables

    for module in (gpu, tables):
        monkeypatch.setattr(module, "LEAST_BITS", 3)
    monkeypatch.setattr(tables, "LONGEST", 90)
    a, b = random(60, 200, 9.0, 12), random(200, 3000, 50.0, 13)
    lengths = np.diff(hosts.product(a, b, 3000, TEAM).start)
    assert (lengths > 768).any()
    assert ((lengths > 192) & (lengths <= 768)).any()
    for ascending, room in ((False, 0), (True, 1 << 20), (False, 1 << 20)):
        monkeypatch.setattr(gpu, "MOST_ROOM", room)  # rows are counted first, or have rooms of equal size
        found = gpu.product(on(cupy, a), on(cupy, b), 3000, ascending=ascending)
        same(found, hosts.product(a, b, 3000, TEAM, ascending=ascending))


@pytest.mark.parametrize("ascending", [False, True])
def test_rows_with_many_columns_are_made_in_ranges_and_of_many_terms_sorted(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, ascending: bool
) -> None:
    from dsolver.kernels.cuda.sparse.products import long_rows

    monkeypatch.setattr(long_rows, "AT_ONCE", 700)
    a, b, columns = random(9, 60, 5.0, 12), random(60, 900, 20.0, 13), 900
    expected, rows = hosts.product(a, b, columns, TEAM, ascending=ascending), cupy.arange(9, dtype=np.int32)
    a, b = on(cupy, a), on(cupy, b)
    for width, sums, tall in ((1 << 20, 1 << 20, 100), (256, 8, 100), (1 << 20, 1 << 20, 7)):
        monkeypatch.setattr(long_rows, "RANGE", width)  # of three ranges at least, sums in global memory
        monkeypatch.setattr(long_rows, "MOST_SUMS", sums)
        monkeypatch.setattr(long_rows, "TALL", tall)
        lengths = long_rows.count(rows, a, b, columns)
        np.testing.assert_array_equal(lengths.get(), np.diff(expected.start))
        start, entries = cupy.asarray(expected.start), len(expected.columns)
        out = Csr(start, cupy.empty(entries, dtype=np.int32), cupy.empty(entries))
        long_rows.fill(rows, a, b, columns, out, ascending=ascending)
        same(out, expected)


def test_sums_of_wide_rows_begin_at_eight_bytes() -> None:
    from dsolver.kernels.cuda.sparse.products import long_rows

    for columns in (1000, 26_721, 200_000, 3_000_000):
        room = long_rows._room(columns)
        bits = room.range // 8 + 4 * (room.range // long_rows.GROUP)
        assert bits % 8 == 0
        assert bits + 8 * room.sums == room.shared


@pytest.mark.parametrize("case", CASES)
def test_some_rows_of_large_products_are_counted_first(cupy: Any, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    from dsolver.kernels.cuda.sparse.products import expected_columns
    from dsolver.kernels.cuda.sparse.products import product as gpu

    monkeypatch.setattr(expected_columns, "LARGE", 0)
    a, b, columns = CASES[case]
    for terms, ascending in ((gpu.MANY_TERMS, False), (200, True)):
        monkeypatch.setattr(gpu, "MANY_TERMS", terms)
        found = gpu.product(on(cupy, a), on(cupy, b), columns, ascending=ascending)
        same(found, hosts.product(a, b, columns, TEAM, ascending=ascending))


def test_long_rows_of_large_products_are_made_by_blocks_at_once(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dsolver.kernels.cuda.sparse.products import expected_columns
    from dsolver.kernels.cuda.sparse.products import product as gpu

    monkeypatch.setattr(expected_columns, "LARGE", 0)
    monkeypatch.setattr(gpu, "MANY_TERMS", 200)
    monkeypatch.setattr(gpu, "Stages", None)  # of no use
    a, b, columns = CASES["dense"]
    same(gpu.product(on(cupy, a), on(cupy, b), columns), hosts.product(a, b, columns, TEAM, ascending=True))


@pytest.mark.parametrize(
    ("matrix", "columns"), [*((b, columns) for _, b, columns in CASES.values()), (lattice(6), 216), (arrow(4500), 4500)]
)
def test_transposes(cupy: Any, matrix: Csr, columns: int) -> None:
    from dsolver.kernels.cuda.sparse.products.mirrors import transposed

    same(transposed(on(cupy, matrix), columns), transposes.transposed(matrix, columns, TEAM))


def test_long_rows_of_a_transpose_are_sorted_elsewhere(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dsolver.kernels.cuda.sparse.products import mirrors

    monkeypatch.setattr(mirrors, "MOST_SORTED", 40)
    a = random(300, 60, 9.0, 14)
    same(mirrors.transposed(on(cupy, a), 60), transposes.transposed(a, 60, TEAM))


@pytest.mark.parametrize("most", [4096, 40])
def test_rows_in_another_order_and_their_columns_too(cupy: Any, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    from dsolver.kernels.cuda.sparse.products import mirrors

    monkeypatch.setattr(mirrors, "MOST_SORTED", most)
    rng = np.random.default_rng(23)
    a, places = random(300, 4500, 9.0, 24), rng.permutation(4500).astype(np.int32)
    order = np.insert(rng.permutation(300), [0, 7, 7, 300], -1).astype(np.int32)
    empty = sp.csr_array((1, 4500))
    whole = sp.vstack([sp.csr_array((a.values, places[a.columns], a.start), shape=(300, 4500)), empty])[order]
    whole.sort_indices()
    found = mirrors.reordered(on(cupy, a), cupy.asarray(order))
    found = mirrors.ascending(found._replace(columns=cupy.asarray(places)[found.columns]), 4500)
    same(found, Csr(whole.indptr.astype(np.int64), whole.indices.astype(np.int32), whole.data))


@pytest.mark.parametrize("count", [0, 1, 4096, 4097, 30000, 200000])
def test_running_sums(cupy: Any, count: int) -> None:
    from dsolver.kernels.cuda.sparse.starts import add_up, running_sums, starts_of, starts_of_lists

    lengths = np.random.default_rng(count).integers(0, 2**31, (count, 2), dtype=np.int32)
    expected = np.cumsum(lengths, axis=0, dtype=np.int64)
    sums, totals = running_sums(cupy.asarray(lengths))
    np.testing.assert_array_equal(sums.get(), expected.T)
    np.testing.assert_array_equal(totals.get(), lengths.sum(axis=0, dtype=np.int64))
    start = cupy.asarray(np.append(-1, lengths[:, 0]).astype(np.int64))
    add_up(start)
    np.testing.assert_array_equal(start.get(), np.append(0, expected[:, 0]))
    found = starts_of(cupy.asarray(lengths[:, 0].copy()))
    np.testing.assert_array_equal(found.get(), np.append(0, expected[:, 0]))
    start = cupy.asarray(np.append(-1, -lengths[:, 0].astype(np.int64)))
    add_up(start)
    np.testing.assert_array_equal(start.get(), np.append(0, -expected[:, 0]))
    totals[:] = 0
    if count:
        found = starts_of_lists(cupy.asarray(lengths), totals)
        np.testing.assert_array_equal(found.get(), np.pad(expected, ((1, 0), (0, 0))).T)
        np.testing.assert_array_equal(totals.get(), expected[-1])


@pytest.mark.parametrize("count", [0, 1, 5000])
def test_marked_items_are_taken_in_their_order(cupy: Any, count: int) -> None:
    from dsolver.kernels.cuda.sparse.starts import starts_of, taken

    rng = np.random.default_rng(count)
    marks, numbers = rng.integers(0, 2, count, dtype=np.int32), rng.integers(0, 2**40, count)
    before, wanted = starts_of(cupy.asarray(marks)), np.flatnonzero(marks)
    np.testing.assert_array_equal(taken(before, len(wanted)).get(), wanted)
    np.testing.assert_array_equal(taken(before, len(wanted), cupy.asarray(numbers)).get(), numbers[wanted])
    np.testing.assert_array_equal(taken(before, len(wanted) // 2).get(), wanted[: len(wanted) // 2])


@pytest.mark.parametrize("count", [1, 5000, 200000])
def test_running_sums_of_rows_with_mirror_images(cupy: Any, count: int) -> None:
    from dsolver.kernels.cuda.sparse.starts import starts_of_halves

    lengths, counts = np.random.default_rng(count).integers(0, 2**20, (2, count), dtype=np.int32)
    totals = cupy.zeros(3, dtype=np.int64)
    found = starts_of_halves(cupy.asarray(lengths.astype(np.int64)), cupy.asarray(counts), totals)
    for part, of in zip(found, (lengths + counts, counts), strict=True):
        np.testing.assert_array_equal(part.get(), np.append(0, np.cumsum(of, dtype=np.int64)))
    whole = lengths + counts
    assert totals.get().tolist() == [whole.sum(dtype=np.int64), counts.sum(dtype=np.int64), whole.max()]


def symmetric(matrix: Csr) -> Csr:
    """The pattern of A + Aᵀ, with values that are not symmetric."""
    whole = sp.csr_array((np.ones(len(matrix.columns)), matrix.columns, matrix.start))
    n = max(whole.shape)
    whole = sp.csr_array((whole.data, whole.indices, whole.indptr), shape=(n, n))
    return shuffled(whole + whole.T, 15)


def ascended(matrix: Csr) -> Csr:
    """The rows with their columns ascending."""
    order = np.lexsort([matrix.columns, np.repeat(np.arange(matrix.size), np.diff(matrix.start))])
    return Csr(matrix.start, matrix.columns[order], matrix.values[order])


@pytest.mark.parametrize("matrix", [lattice(5), arrow(4500), symmetric(random(300, 300, 8.0, 16))])
def test_mirror_images_of_entries(cupy: Any, matrix: Csr) -> None:
    from dsolver.kernels.cuda.sparse.products.mirrors import mirrored

    expected, wrong = hosts.mirrored(matrix, TEAM)
    for given in (matrix, ascended(matrix)):
        found, missing = mirrored(on(cupy, given))
        same(found, expected)
        assert missing == wrong == 0


class Chunk:
    """A chunk's part of R A P of a symmetric matrix.

    Args:
        a: A.
        p: P.
        fine: own rows.
        coarse: own rows of R A P.
    """

    def __init__(self, a: Csr, p: Csr, fine: tuple[int, int], coarse: tuple[int, int]) -> None:
        self.a, self.p, self._fine, self._coarse = a, p, np.arange(*fine), coarse
        self.diagonal = np.random.default_rng(23).random(a.size)

    def halves(self, amg: AmgKernels, there: Any = lambda part: part, array: Any = np.asarray) -> list[Csr]:
        """R, entries behind, from the diagonal on, and all rows, in a window without what is not there."""
        (first, last), host = self._coarse, AmgKernels(TEAM)
        columns = int(self.p.columns.max()) + 1
        taken = host.selected(self.p, None, (first, last))
        rows = np.flatnonzero(np.diff(taken.start))
        rows = np.union1d(rows, self._fine)
        ap = host.product(self.a, self.p, columns, ascending=False)
        sides = rows[rows < self._fine[0]], rows[rows > self._fine[-1]]
        fine = taken.selected(rows)
        others = [there(ap.selected(side)) for side in sides]
        cut = Cut(
            fine=there(fine._replace(columns=fine.columns - np.int32(first))),
            rows=last - first,
            width=columns,
            before=len(sides[0]),
            after=len(sides[1]),
            below=first,
            stacked=lambda own: joined([others[0], own, others[1]]),
        )
        begun = amg.begun_galerkin(there(self.a.selected(self._fine)), there(self.p), columns)
        r, half = amg.half_galerkin(begun, cut, array(self.diagonal[rows]))
        used = half.tight()
        assert 0 < len(used) < columns - last
        whole = host.galerkin(self.a, self.p, columns, self.diagonal, symmetric=True)[1].selected(
            np.arange(first, last)
        )
        before = np.flatnonzero(whole.columns < first)
        names = np.unique(whole.columns[before])
        images = Images(
            array(np.repeat(np.arange(last - first), np.diff(whole.start))[before]),
            array(np.searchsorted(names, whole.columns[before])),
            array(whole.values[before]),
        )
        return [r, half.behind, half.upper, amg.completed(half, images, len(names))]


def in_rooms(a: Csr, p: Csr, columns: int, diagonal: Any, *, symmetric: bool) -> Any:
    from dsolver.kernels.cuda.sparse.products import galerkin

    whole = Cut(fine=p, rows=columns, width=columns)
    return galerkin._in_rooms(a, p, whole, diagonal, symmetric=symmetric)


ROOMS: dict[str, tuple[dict[str, Any], bool]] = {
    "ample": ({}, True),
    "of samples": ({"LARGE": 0}, True),
    "read by lanes together": ({"LARGE": 0, "SHORT": 0}, True),
    "by threads, which read rooms": ({"LARGE": 0, "MANY": 0}, True),
    "by threads, which read larger rooms, too": ({"MANY": 0}, True),
    "many in larger ones": ({"TIGHT": 0.1}, True),
    "larger ones too few": ({"TIGHT": 0.1, "FEW": 0}, False),
    "by groups of lanes": ({"MOST_ALONE": 0, "AMPLE": 0.5}, True),
    "too large": ({"MOST_ROOM": 0}, False),
}
"""Names in `product`, `alone` or `expected_columns`, and whether rows find room."""


@pytest.mark.parametrize("case", ROOMS)
def test_coarse_rows_with_one_wait_and_again_where_rows_find_no_room(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    from dsolver.kernels.cuda.sparse.products import expected_columns, galerkin
    from dsolver.kernels.cuda.sparse.products import product as gpu
    from dsolver.kernels.cuda.sparse.products.alone import alone

    names, fits = ROOMS[case]
    for name, value in names.items():
        of_name = next(module for module in (gpu, alone, expected_columns) if hasattr(module, name))
        monkeypatch.setattr(of_name, name, value)
    a, diagonal = symmetric(lattice(7)), np.random.default_rng(23).random(343)
    p = shuffled(sp.diags_array([np.ones(343)] * 3, offsets=[0, 7, 49], shape=(343, 343)).tocsr()[:, ::2])
    there = on(cupy, a), on(cupy, p), 172, cupy.asarray(diagonal)
    assert (in_rooms(*there, symmetric=False) is not None) == fits
    for whole in (False, True):
        r, coarse = galerkin.galerkin(*there, symmetric=whole)
        expected = AmgKernels(TEAM).galerkin(a, p, 172, diagonal, symmetric=whole)
        same(r, expected[0])
        same(coarse, expected[1])


@pytest.mark.parametrize("last", [False, True])
def test_a_long_coarse_row_has_its_images_and_one_too_long_for_shared_memory_is_sorted_elsewhere(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, last: bool
) -> None:
    from dsolver.kernels.cuda.sparse.products import expected_columns, galerkin, mirrors
    from dsolver.kernels.cuda.sparse.products.alone import alone

    monkeypatch.setattr(expected_columns, "AMPLE", 200.0)  # also a full row finds room
    monkeypatch.setattr(alone, "MOST_ALONE", 0)
    n, a = 600, symmetric(arrow(600))
    turned = sp.csr_array((a.values, a.columns, a.start), shape=(n, n))[:: -1 if last else 1, :: -1 if last else 1]
    a = Csr(turned.indptr.astype(np.int64), turned.indices.astype(np.int32), turned.data)
    p = shuffled(sp.kron(sp.eye_array(n // 2), np.ones((2, 1))))
    diagonal = np.random.default_rng(29).random(n)
    there = on(cupy, a), on(cupy, p), n // 2, cupy.asarray(diagonal)
    expected = AmgKernels(TEAM).galerkin(a, p, n // 2, diagonal, symmetric=True)
    assert np.diff(expected[1].start).max() == n // 2 > 50 * np.median(np.diff(expected[1].start))
    assert in_rooms(*there, symmetric=True) is not None
    for longest in (n // 2, n // 2 - 1):
        monkeypatch.setattr(mirrors, "MOST_SORTED", longest)
        same(galerkin.galerkin(*there, symmetric=True)[1], expected[1])


@pytest.mark.parametrize("apart", [7, 49])
@pytest.mark.parametrize("whole", [False, True])
def test_coarse_rows_in_pieces_whose_rows_of_ap_find_room(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, apart: int, whole: bool
) -> None:
    from dsolver.kernels.cuda.sparse.products import expected_columns, galerkin
    from dsolver.kernels.cuda.sparse.products import product as gpu
    from dsolver.kernels.cuda.sparse.stages.stages import Rooms

    monkeypatch.setattr(gpu, "SPARE", 0)  # as of products that are made in pieces
    a, diagonal = symmetric(lattice(7)), np.random.default_rng(23).random(343)
    p = shuffled(sp.diags_array([np.ones(343)] * 2, offsets=[0, apart], shape=(343, 343)).tocsr()[:, ::2])
    there = on(cupy, a), on(cupy, p), 172, cupy.asarray(diagonal)
    of_ap = there[0], Rooms(*there[1]), there[1].mean
    expected = expected_columns.expected_of(*of_ap)
    # Two pieces, which may have a quarter more rows than half of all.
    most = -(-5 * gpu._shape(*of_ap, expected).entries // 8)
    monkeypatch.setattr(gpu, "MOST_ROOM", most)
    assert gpu.pieces_of(*of_ap, expected) == 2
    assert (in_rooms(*there, symmetric=whole) is not None) == (apart == 7)
    r, coarse = galerkin.galerkin(*there, symmetric=whole)
    of_host = AmgKernels(TEAM).galerkin(a, p, 172, diagonal, symmetric=whole)
    same(r, of_host[0])
    same(coarse, of_host[1])


@pytest.mark.parametrize("case", ["rooms", "pieces", "counted", "long rows"])
def test_halves_of_a_chunk(cupy: Any, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """Images of other chunks among own ones; columns behind own rows without entries are left out."""
    from dsolver.kernels.cuda.amg.setup import CudaAlgebra
    from dsolver.kernels.cuda.sparse.products import mirrors
    from dsolver.kernels.cuda.sparse.products import product as gpu

    p = shuffled(sp.diags_array([np.ones(343)] * 3, offsets=[0, 7, 49], shape=(343, 343)).tocsr()[:, ::2])
    chunk = Chunk(symmetric(lattice(7)), p, (120, 220), (60, 110))
    if case == "pieces":
        monkeypatch.setattr(gpu, "SPARE", 0)
        monkeypatch.setattr(gpu, "MOST_ROOM", 4000)
    elif case == "counted":
        monkeypatch.setattr(gpu, "MOST_ROOM", 0)
    elif case == "long rows":
        monkeypatch.setattr(mirrors, "MOST_SORTED", 12)
    host, device = AmgKernels(TEAM), CudaAlgebra(TEAM)
    expected, found = chunk.halves(host), chunk.halves(device, lambda part: on(cupy, part), cupy.asarray)
    same(found[0], expected[0])
    for one, other in zip(found[1:], expected[1:], strict=True):
        same(on(cupy, ascended(Csr(*(part.get() for part in one)))), ascended(other))
    same(found[-1], expected[-1])
    whole = host.galerkin(chunk.a, p, 172, chunk.diagonal, symmetric=True)[1].selected(np.arange(60, 110))
    used = np.unique(whole.columns)
    np.testing.assert_array_equal(np.searchsorted(used, whole.columns), expected[-1].columns)
    np.testing.assert_array_equal(whole.values, expected[-1].values)


@pytest.mark.parametrize("short", [0, 8])
def test_new_values_of_short_rows_are_made_by_a_thread_each(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, short: int
) -> None:
    from dsolver.kernels.cuda.sparse.products import expected_columns
    from dsolver.kernels.cuda.sparse.products import product as gpu
    from dsolver.kernels.cuda.sparse.products.alone import alone

    monkeypatch.setattr(expected_columns, "LARGE", 0)
    monkeypatch.setattr(alone, "SHORT", short)  # read by lanes together, or by the thread
    monkeypatch.setattr(gpu, "room_for", lambda _: 4)  # some rows have more
    a, p = symmetric(lattice(7)), shuffled(sp.eye_array(343, 172, format="csr") + sp.eye_array(343, 172, k=-171))
    found = gpu.product(on(cupy, a), on(cupy, p), 172, ascending=False)
    lengths = np.diff(found.start.get())
    assert lengths.min() <= 4 < lengths.max()
    a = a._replace(values=-0.3 * a.values)
    again = gpu.numeric(found, on(cupy, a), on(cupy, p), 172, ascending=False)
    same(again, hosts.product(a, p, 172, TEAM, ascending=False))


@pytest.mark.parametrize("case", ["lattice", "dense"])
def test_new_values_of_rows_of_all_lengths_have_kept_places(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    from dsolver.kernels.amg import Places
    from dsolver.kernels.cuda.sparse.places import products as placed

    monkeypatch.setattr(placed, "ROOM", 2)
    a, b, columns = CASES[case]
    found, kept = hosts.product(a, b, columns, TEAM), Places()
    placed.numeric(kept, on(cupy, found), on(cupy, a), on(cupy, b), columns)
    assert kept.found.places.dtype == (np.uint8 if case == "lattice" else np.uint16)
    lengths = np.diff(found.start)
    np.testing.assert_array_equal(
        kept.found.longer.get(), np.flatnonzero((lengths > kept.found.room) & (lengths <= 768))
    )
    other = b._replace(values=0.3 * b.values)
    again = placed.numeric(kept, on(cupy, found), on(cupy, a), on(cupy, other), columns)
    same(again, hosts.product(a, other, columns, TEAM))


def test_places_that_take_more_memory_than_the_matrices_are_not_kept(
    cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dsolver.kernels.amg import Places
    from dsolver.kernels.cuda.sparse.places import products as placed

    monkeypatch.setattr(placed, "OF_ENTRY", 4)
    a, b, kept = random(200, 300, 40.0, 31), random(300, 60, 40.0, 32), Places()
    found = hosts.product(a, b, 60, TEAM)
    same(placed.numeric(kept, on(cupy, found), on(cupy, a), on(cupy, b), 60), found)
    assert kept.found.places is None


def test_entries_without_a_mirror_image_are_counted(cupy: Any) -> None:
    from dsolver.kernels.cuda.sparse.products.mirrors import mirrored

    matrix = random(50, 50, 4.0, 17)
    dense = np.zeros((50, 50), dtype=np.bool_)
    dense[np.repeat(np.arange(50), np.diff(matrix.start)), matrix.columns] = True
    assert mirrored(on(cupy, matrix))[1] == np.count_nonzero(dense & ~dense.T)


def test_symmetrized_windows(cupy: Any) -> None:
    from dsolver.kernels.cuda.sparse.products.mirrors import symmetrize

    window = sp.csr_array(transposes.transposed(random(90, 60, 12.0, 18), 60, TEAM)[::-1], shape=(60, 90))
    window.sort_indices()
    rows = Csr(window.indptr.astype(np.int64), window.indices.astype(np.int32), window.data)
    found = on(cupy, rows)
    symmetrize(found, 20)
    hosts.symmetrize(rows, 20)
    same(found, rows)


def test_lost_rows(cupy: Any) -> None:
    from dsolver.kernels.cuda.sparse.products.mirrors import fill_lost

    rng = np.random.default_rng(19)
    coarse, r, below = random(60, 80, 9.0, 20), random(60, 200, 9.0, 21), 10
    own = coarse.columns == below + np.repeat(np.arange(60), np.diff(coarse.start))
    coarse.values[own] *= np.where(rng.random(np.count_nonzero(own)) < 0.7, 1e-22, 1.0)
    r.values[r.start[3] : r.start[6]] = 0.0
    diagonal = rng.random(200)
    found = on(cupy, coarse)
    fill_lost(found, below, on(cupy, r), cupy.asarray(diagonal))
    before = coarse.values.copy()
    hosts.fill_lost(coarse, below, r, diagonal, TEAM)
    assert not np.array_equal(before, coarse.values)
    same(found, coarse)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_arrays_that_are_compared(cupy: Any, kind: Any) -> None:
    from dsolver.kernels.cuda.amg.setup import CudaAlgebra

    amg, places = CudaAlgebra(TEAM), cupy.asarray(np.random.default_rng(7).permutation(90).astype(kind))
    changed = places.copy()
    assert amg.same(places, changed)
    assert not amg.same(places, changed[:-1])
    changed[89] += 1
    assert not amg.same(places, changed)


def test_rows_find_room_that_their_mean_does_not_foretell(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dsolver.kernels.cuda.sparse.products import galerkin
    from dsolver.kernels.cuda.sparse.products import product as gpu

    monkeypatch.setattr(gpu, "FEW", 0)  # as of larger products
    band = sp.diags_array(np.ones(9), offsets=np.arange(-4, 5), shape=(2000, 2000))
    a = symmetric(shuffled(sp.csr_array(sp.block_diag([sp.eye_array(2000), band]))))
    rows = a.size
    p = shuffled(sp.eye_array(rows, format="csr"))
    there = on(cupy, a), on(cupy, p), rows, cupy.ones(rows)
    monkeypatch.setattr(galerkin, "SOME", rows + 1)
    foreseen = in_rooms(*there, symmetric=True)
    monkeypatch.setattr(galerkin, "SOME", 1)
    counted = in_rooms(*there, symmetric=True)
    assert counted is not None
    of_host = AmgKernels(TEAM).galerkin(a, p, rows, np.ones(rows), symmetric=True)
    same(counted[1].completed(), of_host[1])
    assert foreseen is None


@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("larger", [768, 24])
def test_the_few_rows_that_find_no_room_are_made_by_blocks(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, larger: int, ascending: bool
) -> None:
    from dsolver.kernels.cuda.sparse.products import expected_columns
    from dsolver.kernels.cuda.sparse.products import product as gpu
    from dsolver.kernels.cuda.sparse.stages.stages import Rooms

    monkeypatch.setattr(expected_columns, "LARGE", 0)
    monkeypatch.setattr(gpu, "FEW", 0)
    monkeypatch.setattr(gpu, "LARGER", ((600, 16),))  # so few that some rows find none, whatever they have
    size = 2000
    band = sp.lil_array(sp.diags_array(np.ones(5), offsets=np.arange(-2, 3), shape=(size, size)))
    for row in (3, 700, 1999):
        band[row, :: 2000 // larger] = 1.0
    for row in range(100, 112):
        band[row, :100] = 1.0
    a = shuffled(band)
    there = on(cupy, a)
    expected = hosts.product(a, a, size, TEAM, ascending=ascending)
    assert (np.diff(expected.start) > 768).any() == (larger == 768)
    found = gpu._of_even_rows(there, there, size, expected_columns.expected_of(there, Rooms(*there), 5.0), ascending)
    assert found is not None
    same(found, expected)


@pytest.mark.parametrize("ascending", [False, True])
def test_rows_without_entries_are_left_out(cupy: Any, monkeypatch: pytest.MonkeyPatch, ascending: bool) -> None:
    from dsolver.kernels.cuda.sparse.products import expected_columns
    from dsolver.kernels.cuda.sparse.products import product as gpu

    monkeypatch.setattr(expected_columns, "LARGE", 0)
    lengths = np.where(np.arange(900) % 5 < 2, 6, 0)  # of the last rows, too
    start = np.concatenate([[0], np.cumsum(lengths)])
    columns = np.concatenate([np.random.default_rng(3).choice(900, 6, replace=False) for _ in range(360)])
    a = shuffled(sp.csr_array((np.ones(len(columns)), columns, start), shape=(900, 900)), 4)
    there, expected = on(cupy, a), hosts.product(a, a, 900, TEAM, ascending=ascending)
    made: list[int] = []
    whole = gpu._of_even_rows

    def spied(a: Csr, *more: Any) -> Csr | None:
        made.append(a.size)
        return whole(a, *more)

    monkeypatch.setattr(gpu, "_of_even_rows", spied)
    found = gpu.product(there, there, 900, ascending=ascending)
    same(found, expected)
    assert made == [360]
    other = a._replace(values=2.0 * a.values)
    expected = hosts.product(other, a, 900, TEAM, ascending=ascending)
    same(gpu.numeric(found, on(cupy, other), there, 900, ascending=ascending), expected)
