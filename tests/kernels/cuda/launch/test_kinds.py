"""Programs of kinds of solves have the kernels that such a solve calls, which would be compiled one by one else."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.kernels.cuda.launch import loader
from dsolver.kernels.cuda.launch.compiling import kinds
from dsolver.kernels.cuda.launch.compiling.kinds import Program


@pytest.mark.gpu
def test_a_matrix_with_algebraic_multigrid_calls_kernels_of_programs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    called, program_of = set[tuple[str, str]](), loader.program_of

    def recorded(file: str, name: str, dtype: str) -> Program:
        called.add((file, name))
        return program_of(file, name, dtype)

    monkeypatch.setattr(loader, "program_of", recorded)
    loader.kernel.cache_clear()
    n = 14
    line, one = (
        sp.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1]),
        sp.eye_array(n),
    )
    terms = ((line, one, one), (one, line, one), (one, one, line))
    a = sp.csr_array(sum(sp.kron(sp.kron(x, y), z) for x, y, z in terms))
    b = np.random.default_rng(0).standard_normal(n**3)
    assert dsolver.solve(a, b, M="amg", device="cuda").converged
    programs = (*kinds.KINDS["matrices"], *kinds.ALWAYS)
    assert called <= {(made.file, name) for made in programs for name in made.names}
    assert len(called) > 60
