"""Systems from sparse matrices of SciPy and CuPy: `dsolver.matrix` with its options."""

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from operator import index
from typing import Any, Final, Literal, get_args

from dsolver.errors import InputError, in_a_line
from dsolver.matrices.checked import RowsOnGpu, backend_of, checked, on_host
from dsolver.matrices.chunks.plan import by_entries, grouped, in_parts
from dsolver.matrices.complex.parts import is_complex
from dsolver.matrices.complex.problem import problem_of_complex
from dsolver.matrices.lattice_matrix import on_lattice
from dsolver.matrices.nodes import MOST, unknowns_of_nodes
from dsolver.matrices.null_vectors import near_null, orthonormal, to_host
from dsolver.matrices.problem import Formats, MatrixProblem, Order, PartitionName
from dsolver.matrices.properties import asymmetry, check_rows, problem_of, zeros
from dsolver.matrices.sent import EntriesOnGpu
from dsolver.matrices.solved_matrix import of_sizes, solved_matrix, with_all_rows
from dsolver.problems.problem import Problem, no_matrix

MANY: Final = 3000  # rows from which on unknowns of nodes are looked for: below, factors take less time than levels do


def matrix(
    A: Any,
    *,
    chunks: int | Sequence[int] | None = None,
    partition: PartitionName | Any = "rows",
    order: Order | None = None,
    formats: Formats | None = None,
    grid: Sequence[int] | None = None,
    nullspace: Any = None,
    near_nullspace: Any = None,
    block_size: int | None = None,
    symmetric: bool | None = None,
    name: str = "matrix",
    device: Literal["cpu", "cuda"] = "cpu",
) -> Problem:
    """A linear system with any sparse matrix.

    Args:
        A: (n, n), of `scipy.sparse` or `cupyx.scipy.sparse` in any format, real or complex. It is copied where it is no
            CSR matrix of float64 with sorted columns. Whether it is symmetric, up to the rounding of its assembly, is
            looked at. That of CuPy in CSR, CSC or COO is checked on its GPU, and stays there where one chunk is solved
            on it; a complex one does where it is in CSR with sorted columns, and else comes to this process. Entries
            that are given twice are added. Of a complex matrix preconditioners are made of Re A + |Im A|, or of
            Re DᴴAD where it is Hermitian, with phases D that turn couplings to negative numbers.
        chunks: how many, each with consecutive rows and about as many entries; or the number of rows of each; by
            default one for each worker.
        partition: which rows a chunk has. "rows": consecutive ones. "graph": those that METIS puts together, so that
            little is exchanged; it needs the extra `partition`. Or the part of each row, integers (n,), a chunk for
            each part. Vectors keep the order of A's rows.
        order: "rcm" stores each chunk's rows in reverse Cuthill-McKee order, so that rows which read each other lie
            close together. That makes products of meshes in a bad order faster; b and x keep A's order.
        grid: points along x, y, z (or x and y, or x) of the lattice that the rows are, in the order of ``numpy.ravel``
            (the last axis fastest). That A fits it is checked: each row may have entries for its 26 neighbors and
            itself. Multigrid (M="mg") then serves it as it serves a grid; chunks are given as for a grid, and vectors
            stay (n,).
        formats: in which rows are stored and multiplied. By default each chunk's follows from statistics of its rows
            (`dsolver.kernels.formats.choice`): the same one, and the same bits, in every run. A name is for all chunks:
            "chunks" (compressed rows, balanced: for rows of very different lengths), "slices" (32 rows side by side:
            for lattices and meshes), "rows" (compressed rows as they are), on GPUs "blocks" (slices of blocks of 2, 3,
            4 or 6 rows), on CPUs "octets" (8 sorted rows side by side: for meshes). "measure" has each owner time those
            that may be fast on its chunk: bits may then differ from run to run. `Solver.formats` tells what was taken.
        nullspace: (n,) or (n, k), independent vectors N with A N = 0, such as the rigid motions of an elastic body. b
            is made orthogonal to them, and the solution is. Constants are found by themselves.
        near_nullspace: (n,) or (n, k), independent vectors that A makes small, for multigrid by smoothed aggregation
            (``M="amg"``, which takes it then): `dsolver.rigid_body_modes` for an elastic body. By default
            `nullspace`, or constants of each unknown of a node. Arrays of CuPy stay on their GPU where A does.
        block_size: unknowns of a node, such as three displacements: so many rows, one after the other, belong to one
            node and to one chunk. By default the rows of A's blocks if it is in BSR format; else what the pattern of
            its rows tells where A is symmetric and not elliptic, and the rows of chunks are not given.
        symmetric: whether A counts as symmetric. By default it does where mirrored entries differ by no more than
            rounding leaves, in float32, too: then (A + Aᵀ)/2 is solved with, until the residual of A itself is small,
            and `Solution.notes` tell the difference. True: however much they differ. False: only where they are equal.
        name: for reports.
        device: "cuda" to send a matrix of SciPy (CSR, CSC, COO, BSR or DIA) to the GPU of this process as it is, to
            check it and keep it there. A matrix that is given to `dsolver.solve` goes where it is solved.

    Returns:
        A problem for `dsolver.solve`, `dsolver.Solver`, `dsolver.cg` and the other methods. If constants solve A x = 0
        and Aᵀ x = 0, its solution has mean zero, and b is made to sum to zero: where A is symmetric and its rows are
        not all connected, in each connected piece by itself. Where other rows fix a part of x, such pieces are looked
        for once a solve has failed.

    Raises:
        InputError: A is no square matrix of finite numbers; it cannot be cut so, there is no such order, its rows do
            not fit the formats, or an entry does not fit the grid; A times a vector of `nullspace` is not zero; vectors
            are not finite or not independent; or nodes do not divide the rows.
    """
    _check_names(order, formats)
    if device not in ("cpu", "cuda"):
        raise InputError(f"device must be 'cpu' or 'cuda', not {in_a_line(device)}")
    if not is_matrix(A):
        raise InputError(f"A must be a sparse matrix of SciPy or CuPy, not {no_matrix(A)}")
    if is_complex(A):
        for option, value in (("grid", grid), ("nullspace", nullspace), ("symmetric", symmetric)):
            if value is not None:
                raise InputError(f"A is complex, and {option}= is for real matrices: leave it out")
        block = _block_of(A) if block_size is None else _checked_block(block_size, A.shape[0])
        whole = problem_of_complex(A, name, gpu=device == "cuda", order=order, formats=formats, block=block)
        return _partitioned(_with_vectors(whole, None, near_nullspace), chunks, partition)
    rows, look = checked("A", A, gpu=device == "cuda")
    if grid is not None:
        check_rows(look)
        _check_no_options(partition, order, formats, nullspace, near_nullspace, block_size, symmetric)
        _check_symmetric("grid=", asymmetry(rows, look) or zeros(look))
        return on_lattice(on_host(rows), grid, chunks=_cut(chunks), name=name)
    block = _block_of(A) if block_size is None else _checked_block(block_size, rows.shape[0])
    rows, look, notes = with_all_rows(rows, look)
    solved = solved_matrix(rows, look, symmetric, held=nullspace is None)
    solved = replace(solved, notes=(*notes, *solved.notes, *of_sizes(rows, look)))
    whole = problem_of(solved, name, order=order, formats=formats, block=block)
    if block == 1 and block_size is None and isinstance(partition, str) and (found := _found_block(whole, chunks)) > 1:
        whole = replace(whole, block=found)
    return _partitioned(_with_vectors(whole, nullspace, near_nullspace), chunks, partition)


def _check_names(order: Any, formats: Any) -> None:
    """Refuse orders and formats that there are not, or not together."""
    if order is not None and order not in get_args(Order):
        raise InputError(f"order must be None or {' or '.join(map(repr, get_args(Order)))}, not {in_a_line(order)}")
    if formats is not None and formats not in get_args(Formats):
        names = ", ".join(map(repr, get_args(Formats)))
        raise InputError(f"formats must be None or one of {names}, not {in_a_line(formats)}")
    if formats == "blocks" and order is not None:
        raise InputError("formats='blocks' is for rows in A's order, in which they have blocks: leave order= out")


def _check_no_options(
    partition: Any, order: Any, formats: Any, nullspace: Any, near: Any, block_size: Any, symmetric: Any
) -> None:
    """Refuse options that a matrix with grid= cannot have."""
    if order is not None or not (isinstance(partition, str) and partition == "rows"):
        raise InputError("a grid is cut into boxes and has orders of its own: leave partition= and order= out")
    if formats is not None:
        raise InputError("the rows of a grid have a format of their own: leave formats= out")
    if nullspace is not None:
        raise InputError("nullspace= is for a matrix without grid=; with it constants alone are sought: leave it out")
    if near is not None or block_size is not None or symmetric is not None:
        raise InputError("near_nullspace=, block_size= and symmetric= are for a matrix without grid=: leave them out")


def _check_symmetric(name: str, found: str) -> None:
    if found:
        raise InputError(f"{name} is for symmetric matrices without zeros on the diagonal: {found}; leave it out")


def _with_vectors(whole: MatrixProblem, nullspace: Any, near_nullspace: Any) -> MatrixProblem:
    """The problem with the vectors that A makes zero or small, where some were given."""
    constants = whole.singular is True
    if nullspace is not None:
        _check_symmetric("nullspace=", whole.asymmetry)
        vectors = orthonormal(on_host(whole.matrix), nullspace, constants=constants)
        whole = replace(whole, singular=False, nullspace=vectors, null_vectors=vectors.shape[1])
        constants = False
    if near_nullspace is None and nullspace is None:
        return whole
    asarray = backend_of(whole.matrix.data).asarray if isinstance(whole.matrix, RowsOnGpu) else to_host
    near = near_null(whole.grid[0], near_nullspace, whole.nullspace, constants=constants, asarray=asarray)
    return replace(whole, near=near, near_vectors=near.shape[1])


def _cut(chunks: Any) -> Any:
    """Chunks of a grid."""
    if isinstance(chunks, int):
        raise InputError(f"chunks={chunks}, but with grid= they are numbers along x, y and z: give three")
    return chunks


def _partitioned(problem: MatrixProblem, chunks: Any, partition: Any) -> MatrixProblem:
    """A problem with the chunks and the partition that were asked for. InputError: it cannot be cut so."""
    if not isinstance(partition, str):
        if chunks is not None:
            raise InputError("partition= gives a part to each row, and so the chunks: leave chunks= out")
        return grouped(problem, partition)
    if partition not in get_args(PartitionName):
        raise InputError(f"partition must be 'rows', 'graph' or a part number for each row, not {in_a_line(partition)}")
    if partition == "graph" and chunks is not None and not isinstance(chunks, Integral):
        raise InputError("partition='graph' chooses the rows of each chunk: give chunks= as a number, or leave it out")
    if isinstance(chunks, Integral):  # NumPy's, too
        consecutive = by_entries(problem, int(chunks))
        if partition == "graph":
            return in_parts(problem, int(chunks))
        chunks = consecutive.sizes[0]
    if chunks is None and partition == "rows":
        return problem
    sizes = None if chunks is None else (_extents(chunks, problem.grid[0]), (1,), (1,))
    return replace(problem, chunks=sizes, partition="graph" if partition == "graph" else "rows")


def _extents(chunks: Any, rows: int) -> tuple[int, ...]:
    """Numbers of rows of the chunks, from any kind of integers. InputError: they are none, or not as many as rows."""
    try:
        extents = tuple(index(extent) for extent in chunks)
    except TypeError:
        raise InputError(f"chunks must be an integer, or the number of rows of each, not {in_a_line(chunks)}") from None
    if sum(extents) != rows or min(extents) < 1:
        raise InputError(
            f"chunks of {in_a_line(extents)} rows add up to {sum(extents)}, but A has {rows} rows, and each has one or "
            f"more"
        )
    return extents


def is_matrix(A: Any) -> bool:
    """Whether it is a sparse matrix of SciPy or CuPy, or `EntriesOnGpu`."""
    known = any(base.__module__.partition(".")[0] in ("scipy", "cupyx") for base in type(A).__mro__)  # or kinds of them
    return (known and hasattr(A, "nnz") and len(A.shape) == 2) or isinstance(A, EntriesOnGpu)


def _block_of(A: Any) -> int:
    """Rows of the square blocks of a matrix in BSR format; 1 for any other."""
    rows, columns = getattr(A, "blocksize", (1, 1))
    return int(rows) if rows == columns else 1


def _found_block(whole: MatrixProblem, chunks: Any) -> int:
    """Unknowns of a node of a symmetric matrix that is not elliptic, as that of an elastic body is; else 1.

    Elliptic rows have coarse points of their own, which serve them better than nodes do.
    """
    few = chunks is None or (isinstance(chunks, Integral) and int(chunks) * MOST <= whole.grid[0])
    other = whole.asymmetry or whole.hollow or whole.indefinite or whole.elliptic or whole.dominant
    return unknowns_of_nodes(whole.matrix) if few and not other and whole.grid[0] >= MANY else 1


def _checked_block(size: Any, rows: int) -> int:
    if not isinstance(size, Integral) or size < 1 or rows % int(size):
        raise InputError(f"block_size must be an integer >= 1 that divides the {rows} rows of A, not {size!r}")
    return int(size)
