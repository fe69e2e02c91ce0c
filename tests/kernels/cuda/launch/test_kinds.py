"""Programs of kinds of solves have the kernels that such a solve calls, which would be compiled one by one else."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.kernels.cuda.launch import loader
from dsolver.kernels.cuda.launch.compiling import kinds
from dsolver.kernels.cuda.launch.compiling.kinds import Program
from dsolver.problems import Dirichlet, diffusion

N: Final = 10
RANDOM: Final = np.random.default_rng(0)


def lattice() -> sp.csr_array:
    line = sp.diags_array([-np.ones(N - 1), 2.0 * np.ones(N), -np.ones(N - 1)], offsets=[-1, 0, 1])
    one = sp.eye_array(N)
    terms = ((line, one, one), (one, line, one), (one, one, line))
    return sp.csr_array(sum(sp.kron(sp.kron(x, y), z) for x, y, z in terms))


def in_two_chunks() -> Any:
    return dsolver.matrix(lattice(), chunks=2)


def rock() -> Any:
    """Open cells with closed pockets among them."""
    return diffusion((N, N, N), 1.0, mask=RANDOM.random((N, N, N)) < 0.6, bc={"x-": Dirichlet(1.0), "x+": Dirichlet(0)})


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lattice, ["matrices"]),
        (in_two_chunks, ["matrices", "chunks", "aggregates"]),
        (rock, list(kinds.KINDS)),
    ],
)
def test_algebraic_multigrid_calls_kernels_of_programs_alone(
    make: Any, wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    called, program_of = set[tuple[str, str]](), loader.program_of

    def recorded(file: str, name: str, dtype: str) -> Program:
        called.add((file, name))
        return program_of(file, name, dtype)

    def refused(*_: Any) -> Any:
        raise AssertionError("a product of CuPy loads cuBLAS, for longer than the kernels take")

    monkeypatch.setattr(loader, "program_of", recorded)
    monkeypatch.setattr(pytest.importorskip("cupy").ndarray, "__matmul__", refused)
    loader.kernel.cache_clear()
    problem = make()
    b = np.zeros((N, N, N)) if make is rock else RANDOM.standard_normal(N**3)
    assert dsolver.solve(problem, b, M="amg", device="cuda").converged
    programs = [made for kind in wanted for made in kinds.KINDS[kind]] + list(kinds.ALWAYS)
    alone = called - {(made.file, name) for made in programs for name in made.names}
    assert not alone
    assert len(called) > 60
