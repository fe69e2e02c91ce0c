"""Problems of complex matrices."""

from dataclasses import replace
from typing import Any

from dsolver.matrices.checked import look_at, to_gpu
from dsolver.matrices.complex.on_gpu import parts_on_gpu
from dsolver.matrices.complex.parts import ComplexParts, complex_parts
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.properties import check_rows, problem_of
from dsolver.matrices.solved_matrix import SolvedMatrix


def problem_of_complex(A: Any, name: str, words: str = "A", *, gpu: bool = False, **options: Any) -> MatrixProblem:
    """The problem of a complex matrix of SciPy or CuPy that is not cut yet.

    Args:
        words: the matrix in messages.
        gpu: whether one of SciPy goes to the GPU of this process, and is looked at there. One of CuPy is so.
        options: further attributes.

    Raises:
        InputError: rows are empty, or as of `dsolver.matrices.canonical.canonical`.
    """
    on_gpu = type(A).__module__.startswith("cupyx")
    parts = parts_on_gpu(words, A) if gpu or on_gpu else None
    found: ComplexParts = parts or complex_parts(words, A.get() if on_gpu else A, in_place=gpu or on_gpu)
    if (gpu or on_gpu) and parts is None:
        stand_in, *both = map(to_gpu, (found.stand_in, *found.parts))
        found = replace(found, stand_in=stand_in, parts=(both[0], both[1]))
    look = look_at(found.stand_in)
    check_rows(look)
    made = problem_of(SolvedMatrix(rows=found.stand_in, look=look), name, **options)
    return replace(
        made,
        complex=True,
        hermitian=found.hermitian,
        real_valued=found.real_valued,
        parts=found.parts,
        quadrant=found.quadrant,
        phases=found.phases,
        asymmetry=found.asymmetry,
        indefinite=made.indefinite or found.waves,
    )
