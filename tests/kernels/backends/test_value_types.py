"""Vectors and matrices in single precision beside those in double."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.backends.boxes import BACKENDS, CASES, LARGE, box, close


@pytest.mark.parametrize("name", ["numpy", "numpy float32", *BACKENDS])
@pytest.mark.parametrize("size", [1e-150, 3e-20, 1.0, 2.0**70, 1e150])
def test_narrowed_vectors_are_about_1_and_widen_to_what_they_were(name: str, size: float) -> None:
    b, wide = box(LARGE, name), box(LARGE, name.partition(" ")[0])
    x, back, narrow = wide.vector(1), wide.zeros(), b.zeros()
    wide.kernel("waxpby")(size, x, 0.0, x, x)
    xx = wide.scalar()
    wide.kernel("dot")(x, x, xx)
    b.kernel("narrow")(x, xx, narrow)
    assert 0.5 < np.linalg.norm(b.block(narrow).ravel()) < 2.1
    b.kernel("widen")(narrow, xx, back)
    rounded = 2.0**-24 if b.backend.dtype == np.float32 else 0.0
    assert (np.abs(wide.block(back) - wide.block(x)) <= rounded * np.abs(wide.block(x)) + 1e-38 * size).all()
    product, one = b.scalar(), wide.scalar(3.0)
    b.kernel("dot")(narrow, narrow, product)
    for _ in range(2):
        b.kernel("unscale")(xx, product)
    b.kernel("quotient")(product, xx, one, one, one, b.scalar(0.0), one, product)
    assert b.backend.to_host(product)[0] == pytest.approx(1.0, rel=rounded + 1e-14)
    dots = [b.scalar(), b.scalar()]
    wide.kernel("dot")(wide.vector(2), wide.vector(3), dots[0])
    b.kernel("dot_narrowed")(wide.vector(2), b.vector(3), dots[1])
    difference = np.abs(np.diff([b.backend.to_host(dot)[0] for dot in dots]))
    assert (difference <= rounded * b.case.rows).all()


@pytest.mark.parametrize("name", ["numpy", "numpy float32", *BACKENDS])
@pytest.mark.parametrize("xx", [0.0, np.nan, np.inf])
def test_a_norm_that_is_no_number_scales_nothing(name: str, xx: float) -> None:
    b, wide = box(CASES[0], name), box(CASES[0], name.partition(" ")[0])
    narrow = b.zeros()
    b.kernel("narrow")(wide.vector(1), b.scalar(xx), narrow)
    assert (b.block(narrow) == wide.block(wide.vector(1)).astype(b.backend.dtype)).all()


@pytest.mark.parametrize("name", ["numpy float32", "cpu float32", pytest.param("cuda float32", marks=pytest.mark.gpu)])
def test_directions_are_updated_in_double_from_a_narrow_vector(name: str) -> None:
    b, wide = box(LARGE, name), box(LARGE, name.partition(" ")[0])
    z, p, expected = b.vector(1), wide.vector(2), wide.vector(2)
    b.kernel("update_p_narrowed")(z, b.scalar(1.0), b.scalar(3.0), b.scalar(1.0), p)
    exact = wide.zeros()
    exact[:] = z
    wide.kernel("update_p")(exact, b.scalar(1.0), b.scalar(3.0), b.scalar(1.0), expected)
    close(wide.block(p), wide.block(expected), 1e-15)


@pytest.mark.parametrize("name", ["numpy float32", "cpu float32", pytest.param("cuda float32", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("factor", [1e-60, 1e-40, 1e60])
def test_a_diagonal_out_of_the_range_of_its_type_is_nan(name: str, factor: float) -> None:
    b = box(CASES[0], name)
    weights = b.backend.to_host(b.stencil.weights) * factor
    made = b.backend.format("sell").matrix(b.layout, replace(b.stencil, weights=b.backend.asarray(weights)))
    assert np.isnan(b.backend.to_host(made.diagonal)[b.backend.to_host(b.layout.position)]).all()
