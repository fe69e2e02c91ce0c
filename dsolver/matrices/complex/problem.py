"""Problems of complex matrices."""

from dataclasses import replace
from typing import Any

from dsolver.engines.out_of_memory import if_memory_suffices
from dsolver.kernels.reductions import some
from dsolver.matrices.canonical import check_form, compressed
from dsolver.matrices.checked import look_at, rows_on_gpu, to_gpu
from dsolver.matrices.complex.parts import ComplexParts, complex_parts
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.properties import problem_of
from dsolver.matrices.sent import EntriesOnGpu
from dsolver.matrices.solved_matrix import SolvedMatrix, filled, of_sizes


def problem_of_complex(A: Any, name: str, words: str = "A", *, gpu: bool = False, **options: Any) -> MatrixProblem:
    """The problem of a complex matrix of SciPy or CuPy that is not cut yet.

    Args:
        words: the matrix in messages.
        gpu: whether one of SciPy goes to the GPU of this process, and is looked at there. One of CuPy is so.
        options: further attributes.

    Raises:
        InputError: as of `dsolver.matrices.canonical.canonical`.
    """
    check_form(words, A, complex_too=True)
    on_gpu = isinstance(A, EntriesOnGpu) or type(A).__module__.startswith("cupyx")
    notes: tuple[str, ...] = ()
    found = if_memory_suffices(lambda: _there(words, A)) if gpu or on_gpu else None
    if found is None:
        rows, notes = filled(compressed(words, A.get() if on_gpu else A, complex_too=True))
        found = complex_parts(rows, in_place=gpu or on_gpu)
        if gpu or on_gpu:
            found = replace(found, stand_in=to_gpu(found.stand_in), parts=tuple(map(to_gpu, found.parts)))
    look = look_at(found.stand_in)
    negated = found.hermitian and look.negative == found.stand_in.shape[0] and not look.hollow[0]
    if negated:
        return replace(problem_of_complex(-1.0 * A, name, words, gpu=gpu, **options), negated=True)
    notes += of_sizes(found.stand_in, look, found.parts)
    solved = SolvedMatrix(rows=found.stand_in, look=look, notes=notes)
    made = problem_of(solved, name, **options)
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


def _there(words: str, A: Any) -> ComplexParts | None:
    """Parts of compressed rows on this process's GPU; None of others, and where the host has to mend or to tell."""
    rows = rows_on_gpu(words, A)
    return None if rows is None or some(rows.indptr[1:] == rows.indptr[:-1]) else complex_parts(rows)
