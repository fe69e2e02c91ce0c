"""Slices of rows, with a column for each entry or one for all lanes; values that lose nothing in single precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.backends.boxes import CASES, TOLERANCE, Case, box, close
from tests.kernels.backends.results import is_run, made_explicit, with_slices


def test_both_kinds_of_slices_give_the_same_product(name: str) -> None:
    seen = np.zeros(2, dtype=bool)
    for case in CASES:
        b = box(case, name)
        run = is_run(b.matrix.local, b.backend)
        seen |= [bool(run.any()), not run.all()]
        other = with_slices(b, made_explicit(b.matrix.local, b.backend))
        y, y_too = b.zeros(), b.zeros()
        b.kernel("spmv")(b.matrix, b.vector(1), y)
        b.kernel("spmv")(other, b.vector(1), y_too)
        assert (b.block(y) == b.block(y_too)).all()
    assert seen.all(), "the cases must have run and explicit slices"


def test_cube_of_even_size_is_made_of_runs(name: str) -> None:
    b = box(Case(shape=(64, 64, 32), points=27, order="parity"), name)
    assert is_run(b.matrix.local, b.backend).all()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_both_assemblies_write_the_same_slices(case: Case, dtype: str) -> None:
    cpu, cuda = box(case, f"cpu {dtype}"), box(case, f"cuda {dtype}")
    for ours, theirs in ((cpu.matrix.local, cuda.matrix.local), (cpu.outer.slices, cuda.outer.slices)):
        for name in ("start", "upper", "column_start", "values", "columns"):
            expected = getattr(ours, name)
            found = cuda.backend.to_host(getattr(theirs, name))
            assert found.dtype == expected.dtype, name
            assert (found == expected).all(), name
    assert (cuda.backend.to_host(cuda.matrix.coarse) == cpu.matrix.coarse).all()


@pytest.mark.gpu
def test_assembly_makes_no_runs_unless_they_are_wanted(case: Case) -> None:
    from dsolver.kernels.cuda.hpcg.matrix import matrix

    b = box(case, "cuda")
    coarse = b.backend.zeros(b.case.rows).astype(bool)
    coarse[b.layout.row[b.transfer.fine_of[b.coarse.position]]] = True
    made = matrix(b.layout, b.stencil, coarse, b.backend.dtype, runs=False)
    assert not is_run(made.local, b.backend).any()
    x, y, y_too = b.vector(1), b.zeros(), b.zeros()
    b.kernel("spmv")(made, x, y)
    b.kernel("spmv")(b.matrix, x, y_too)
    close(b.block(y), b.block(y_too), TOLERANCE["float64"])


@pytest.mark.parametrize("name", ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("exact", [False, True])
def test_compact_storage_changes_no_bit_and_is_taken_only_where_it_loses_nothing(
    case: Case, name: str, *, exact: bool
) -> None:
    b = box(case, name)
    weights = b.backend.to_host(b.stencil.weights)
    rows = replace(b.stencil, weights=b.backend.asarray(weights.astype(np.float32).astype(float) if exact else weights))
    plain = b.backend.format("sell").matrix(b.layout, rows)
    compact = plain.compacted()
    stored = (compact.values if name == "numpy" else compact.local.values).dtype
    single = b.case.rows == 1  # no entry beside the diagonal
    assert stored == (np.float32 if exact or single else np.float64)
    results = []
    for matrix in (plain, compact):
        y, z, dot = b.zeros(), b.zeros(), b.scalar()
        b.kernel("spmv")(matrix, b.vector(1), y)
        b.kernel("spmv_dot")(matrix, b.vector(1), z, dot)
        results.append([b.block(y), b.block(z), b.backend.to_host(dot).copy()])
    assert all((one == other).all() for one, other in zip(*results, strict=True))
