"""Least squares from a rectangular matrix and b to a solution."""

import time
from dataclasses import replace
from typing import Any

from dsolver.cluster.runtime import connect
from dsolver.discretize.lifting import times
from dsolver.errors import InputError, in_a_line
from dsolver.least_squares.matrix import rectangular
from dsolver.least_squares.options import LeastSquaresOptions, Tolerances
from dsolver.least_squares.run import LeastSquaresRun
from dsolver.least_squares.solution import LeastSquaresSolution, LeastSquaresSolutions
from dsolver.matrices.matrix import is_matrix
from dsolver.problems.problem import no_matrix
from dsolver.session.arguments import client_of
from dsolver.session.options import Setup
from dsolver.session.user_arrays import array_of
from dsolver.session.user_arrays.several import check_axes, paired, separated, stacked


def solve_least_squares(
    method: str, A: Any, b: Any, x0: Any, tolerances: Tolerances, options: LeastSquaresOptions
) -> LeastSquaresSolution | LeastSquaresSolutions:
    """The x with least ‖b - A x‖² + damp² ‖x‖², or several for several b, with one set-up.

    InputError: an argument cannot be right. Nothing was started. DeviceError: the device is not there, or has not the
    memory. ClusterError: the cluster cannot be reached, or failed during the solve.
    """
    began = time.perf_counter()
    if options.scale not in (None, "columns"):
        raise InputError(f"scale must be None or 'columns', not {in_a_line(options.scale)}")
    if options.scale and tolerances.damp:
        raise InputError("damp= would damp the scaled unknowns: leave out scale=, or append damp times I to A")
    if not is_matrix(A):
        raise InputError(f"A must be a sparse matrix of SciPy or CuPy, not {no_matrix(A)}")
    setup = Setup(client=options.client, engine=options.engine, device=options.device, kernels=options.kernels)
    runtime = connect(client_of(setup), engine=setup.engine, device=setup.device, kernels=setup.kernels)
    chunks = options.chunks or max(1, len(runtime.workers))
    here = runtime.client is None and runtime.device == "cuda" and chunks == 1
    matrix = rectangular("A", A, gpu=here)
    of_a = matrix.exponent
    cut = matrix.times(of_a).cut(chunks, options.formats)
    damped = replace(tolerances, damp=times(tolerances.damp, of_a))
    rows, columns = (partition.grid[0] for partition in (cut.row_partition, cut.column_partition))
    right, several = _each("b", b, rows, runtime.client)
    guesses = [None] * len(right) if x0 is None else _each("x0", x0, columns, runtime.client)[0]
    run = LeastSquaresRun(method, cut, paired(right, guesses), damped, options, runtime, began, of_a)
    found = run.solutions()
    if not several:
        return found[0]
    each = [one.x for one in found]
    return LeastSquaresSolutions(found, each if _are_arrays(b) else stacked(each, each[0]))


def _are_arrays(values: Any) -> bool:
    """Whether these are vectors in a list, not an array, or the numbers of one."""
    return isinstance(values, list | tuple) and bool(values) and all(getattr(each, "shape", ()) for each in values)


def _each(name: str, values: Any, size: int, client: Any) -> tuple[list[Any], bool]:
    """Vectors of a user, and whether they are several; (size, 1) is one. InputError: another shape, or none."""
    if _are_arrays(values):
        return list(values), True
    if isinstance(values, list | tuple):
        values = array_of(name, values, (size,))
    shape = getattr(values, "shape", ())
    if not isinstance(shape, tuple) or len(shape) != 2 or shape[1] == 1 or is_matrix(values):
        return [values], False
    check_axes(name, values, (size,), rows=name == "b")
    if shape[1] == 0:
        raise InputError(f"{name} has no vector: its last axis has length 0")
    return separated(name, values, client), True
