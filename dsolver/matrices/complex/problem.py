"""Problems of complex matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dsolver.matrices.checked import look_at
from dsolver.matrices.complex.parts import ComplexParts
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.properties import check_rows, problem_of
from dsolver.matrices.solved_matrix import SolvedMatrix


def problem_of_complex(found: ComplexParts, name: str, **options: Any) -> MatrixProblem:
    """The problem of a complex matrix that is not cut yet; options: further attributes. InputError: rows are empty."""
    look = look_at(found.stand_in)
    check_rows(look)
    made = problem_of(SolvedMatrix(rows=found.stand_in, look=look), name, **options)
    differs = ""
    if found.place is not None:
        i, j = found.place
        differs = f"A[{i}, {j}] = {found.whole[i, j]:.6g}, but A[{j}, {i}] = {found.whole[j, i]:.6g}"
    return replace(
        made,
        complex=True,
        hermitian=found.hermitian,
        real_valued=found.real_valued,
        parts=found.parts,
        quadrant=found.quadrant,
        asymmetry=differs,
        indefinite=made.indefinite or found.waves,
    )
