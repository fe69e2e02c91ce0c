"""Effective conductivity and tortuosity: known ones, both kinds of ends, periodic images, what is refused."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

from dsolver import effective_conductivity, tortuosity
from dsolver.errors import InputError

RANDOM = np.random.default_rng(2)
LAYERS = np.ones((10, 6, 4))
LAYERS[5:] = 3.0


@pytest.mark.parametrize("ends", ["faces", "cells"])
def test_layers_in_a_row_and_side_by_side(ends: Any) -> None:
    in_a_row = 2.0 / (1.0 + 1.0 / 3.0)
    if ends == "cells":
        in_a_row = 9.0 / (4.5 + 4.5 / 3.0)
    for spacing in (None, (0.5, np.linspace(1.0, 2.0, 6), 3.0)):
        found = effective_conductivity(LAYERS, "x", ends=ends, spacing=spacing)
        assert np.isclose(found.conductivity, in_a_row, rtol=1e-8)
        assert np.isclose(found.inflow, found.outflow, rtol=1e-8)
        assert np.isclose(effective_conductivity(LAYERS, 2, ends=ends, spacing=spacing).conductivity, 2.0, rtol=1e-8)
    stretched = (np.linspace(1.0, 2.0, 10), 1.0, 1.0)
    uniform = effective_conductivity(np.full((10, 2, 2), 2.0), "x", ends=ends, spacing=stretched)
    assert np.isclose(uniform.conductivity, 2.0, rtol=1e-8)
    assert np.isclose(effective_conductivity([LAYERS, 1.0, 1.0], "y", ends=ends).conductivity, 1.0, rtol=1e-8)
    plane = effective_conductivity(LAYERS[:, :, 0], "x", ends=ends, bc={"y": "periodic"})
    assert np.isclose(plane.conductivity, in_a_row, rtol=1e-8)


def test_a_checkerboard_conducts_as_the_geometric_mean() -> None:
    """Conductivity of two κ in a plane (Keller, J. Math. Phys. 5, 1964), in the limit of small cells."""
    fine = np.kron(np.indices((4, 4)).sum(axis=0) % 2, np.ones((32, 32)))
    found = effective_conductivity(np.where(fine == 0.0, 1.0, 4.0), "x", bc={"y": "periodic"})
    assert abs(found.conductivity - 2.0) < 0.1


@pytest.mark.parametrize("ends", ["faces", "cells"])
def test_full_tensors(ends: Any) -> None:
    """Along an axis around which the box goes on, a uniform tensor conducts as its entry there."""
    tensor = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 1.5]])
    whole = np.broadcast_to(tensor, (6, 5, 4, 3, 3)).copy()
    sides = {"y": "periodic", "z": "periodic"}
    for kappa in (whole, [[whole[..., 0, 0], *tensor[0, 1:]], *tensor[1:].tolist()]):
        kappa = [list(row) for row in kappa] if isinstance(kappa, list) else kappa
        assert np.isclose(effective_conductivity(kappa, "x", ends=ends, bc=sides).conductivity, 2.0, rtol=1e-8)
    plane = whole[:, :, 0, :2, :2]
    closed = effective_conductivity(plane, "y", ends=ends).conductivity.real
    assert 1.0 - 0.25 / 2.0 < closed < 1.0  # between no flow across at all and a flow that nothing stops


def test_straight_and_winding_pores() -> None:
    straight = np.zeros((8, 5, 5), dtype=bool)
    straight[:, 1:3, 1:3] = True
    found = tortuosity(straight, "x")
    assert np.isclose(found.tortuosity, 1.0, rtol=1e-8)
    assert np.isclose(found.diffusivity, 4.0 / 25.0, rtol=1e-8)
    straight[4, 4, 4] = straight[0, 4, 4] = True  # pockets count in the porosity, and are not passed
    again = tortuosity(straight, "x", ends="cells")
    assert np.isclose(again.tortuosity, 1.0, rtol=1e-8)
    assert again.porosity > again.passed == 32 / straight.size
    assert again.conduction.solution.closed_regions == 0
    bent = np.zeros((5, 7), dtype=bool)
    bent[:2, 0] = bent[1, :] = bent[1:, -1] = True
    path = 0.5 + 10.0 + 0.5  # cells in a row, of size 1, with a half one at each end
    assert np.isclose(tortuosity(bent, "x").diffusivity, 5.0 / 7.0 / path, rtol=1e-8)


def test_pores_that_go_on_around_an_axis() -> None:
    image = np.zeros((6, 4), dtype=bool)
    image[:3, 0] = image[2:, 3] = True
    with pytest.raises(InputError, match="no pore leads from the face x- of the image"):
        tortuosity(image, "x")
    assert tortuosity(image, "x", bc={"y": "periodic"}).tortuosity > 1.0


def test_random_pores_are_those_of_a_network() -> None:
    """As PoreSpy solves them: the mean of the neighbors in each pore, between two layers of pores that are fixed."""
    image = RANDOM.random((12, 11, 10)) < 0.7
    found = tortuosity(image, "y", ends="cells", rtol=1e-12)
    u = found.conduction.solution.x
    passed = u > 0.0
    passed[:, -1] = image[:, -1]
    links = [
        np.diff(u, axis=axis) * (image.take(range(1, n), axis) & image.take(range(n - 1), axis))
        for axis, n in enumerate(u.shape)
    ]
    through = -links[1].sum(axis=(0, 2))
    assert np.allclose(through, through[0], rtol=1e-9), "the same through each layer of faces"
    assert np.isclose(found.diffusivity, through[0] * (11 - 1) / (12 * 10), rtol=1e-9)
    assert np.isclose(found.tortuosity, found.passed / found.diffusivity)
    lazy = tortuosity(da.from_array(image, chunks=(6, 11, 5)), "y", ends="cells", rtol=1e-12)
    assert np.isclose(lazy.tortuosity, found.tortuosity, rtol=1e-9)
    assert isinstance(lazy.conduction.solution.x, da.Array)


@pytest.mark.gpu
def test_pores_on_a_gpu() -> None:
    cupy = pytest.importorskip("cupy")
    image = RANDOM.random((8, 7, 6)) < 0.8
    for ends in ("faces", "cells"):
        options: Any = {"ends": ends, "rtol": 1e-11}
        expected = tortuosity(image, "z", device="cpu", **options)
        found = tortuosity(cupy.asarray(image), "z", device="cuda", **options)
        assert np.isclose(found.tortuosity, expected.tortuosity, rtol=1e-8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: effective_conductivity(LAYERS, "w"), "axis must be one of x, y, z, or a number below 3"),
        (lambda: effective_conductivity(LAYERS[:, :, 0], 2), "axis must be one of x, y"),
        (lambda: effective_conductivity(2.0), "kappa must be an array"),
        (lambda: effective_conductivity(LAYERS, bc={"x-": "dirichlet"}), "bc= .* across x, .* none along x"),
        (lambda: effective_conductivity(LAYERS, bc="periodic"), "bc= .* as {'y': 'periodic'}"),  # type: ignore[arg-type]
        (lambda: tortuosity(LAYERS > 0.0, "y", bc="periodic"), "bc= .* as {'x': 'periodic'}"),  # type: ignore[arg-type]
        (lambda: effective_conductivity(LAYERS, ends="middle"), "ends must be 'faces' or 'cells'"),  # type: ignore[arg-type]
        (lambda: effective_conductivity(LAYERS[:2], ends="cells"), "three layers of cells along x: there are 2"),
        (lambda: tortuosity(LAYERS), "True in pores, such as image > 0.5, not one of float64 in 3"),
        (lambda: tortuosity(LAYERS[0, 0] > 1.0), "image must be an array in two or three dimensions"),
        (lambda: tortuosity([[0, 1], [2, 1]]), "image has integers of more than two kinds, as labels are"),
        (lambda: tortuosity(LAYERS > 5.0), "no pore leads from the face x-"),
    ],
)
def test_what_cannot_be_right_is_refused(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
