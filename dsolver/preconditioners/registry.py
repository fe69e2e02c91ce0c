"""Preconditioners by name, and what an argument ``M=`` stands for."""

from collections.abc import Callable
from typing import Any, Final, Literal, Protocol

from dsolver.errors import InputError, in_a_line, meant
from dsolver.kernels import DTYPES
from dsolver.krylov.methods import METHODS
from dsolver.preconditioners.algebraic.preconditioner import Algebraic
from dsolver.preconditioners.auto import Auto, usual_preconditioner
from dsolver.preconditioners.base import Preconditioner
from dsolver.preconditioners.blocks.base import BlockPreconditioner
from dsolver.preconditioners.blocks.methods import BlockDiagonal, BlockTriangular, LeastSquaresCommutator, Schur
from dsolver.preconditioners.direct.preconditioner import Direct
from dsolver.preconditioners.function import Function, FunctionByChunk
from dsolver.preconditioners.multigrid import Multigrid
from dsolver.preconditioners.relaxation.block_jacobi import BlockJacobi
from dsolver.preconditioners.relaxation.chebyshev import Chebyshev
from dsolver.preconditioners.relaxation.jacobi import Identity, Jacobi
from dsolver.preconditioners.relaxation.l1_jacobi import L1Jacobi
from dsolver.preconditioners.relaxation.sweeps import IC0, ILU0, SymGS
from dsolver.preconditioners.square_block import PreconditionedSquareBlock
from dsolver.problems import Problem
from dsolver.problems.functions import ByChunk, as_function, is_operator

AUTO: Final = "auto"

PreconditionerName = Literal[
    "auto",
    "mg",
    "amg",
    "hpcg",
    "jacobi",
    "chebyshev",
    "direct",
    "none",
    "l1-jacobi",
    "block-jacobi",
    "symgs",
    "ic0",
    "ilu0",
    "block-diagonal",
    "block-triangular",
    "schur",
    "lsc",
    "presb",
]


class Shaped(Protocol):
    """A matrix, or an object of SciPy's kind."""

    @property
    def shape(self) -> Any:
        """(n, n)."""


PreconditionerLike = PreconditionerName | Preconditioner | ByChunk | Callable[[Any], Any] | Shaped | str | None
"""The types of ``M=``. A string beside the names of this package is one that `register` was given."""

NAMED: Final[dict[str, Callable[[], Preconditioner]]] = {
    AUTO: Auto,
    "mg": Multigrid,
    "amg": Algebraic,
    "jacobi": Jacobi,
    "chebyshev": Chebyshev,
    "l1-jacobi": L1Jacobi,
    "block-jacobi": BlockJacobi,
    "block-diagonal": BlockDiagonal,
    "block-triangular": BlockTriangular,
    "schur": Schur,
    "lsc": LeastSquaresCommutator,
    "presb": PreconditionedSquareBlock,
    "symgs": SymGS,
    "ic0": IC0,
    "ilu0": ILU0,
    "direct": Direct,
    "none": Identity,
}
"""Makers of preconditioners by name; `register` adds to them."""


ELSEWHERE: Final = {
    "amg": "gamg hypre boomeramg ml ruge_stuben smoothed_aggregation",
    "jacobi": "diagonal",
    "block-jacobi": "pbjacobi",
    "block-triangular": "fieldsplit",
    "symgs": "sor ssor gauss_seidel",
    "ic0": "ic icc ichol",
    "ilu0": "ilu asm bjacobi",
    "direct": "lu cholesky splu mumps umfpack",
}
"""Names in other packages of these preconditioners, or of others in their places."""


def register(name: str, make: Callable[[], Preconditioner]) -> None:
    """Give a preconditioner, made by `make` with its usual options, a name for ``M=``. InputError: that is taken."""
    if NAMED.setdefault(name, make) is not make:
        raise InputError(f"there is a preconditioner {name!r} already: choose another name")


def check_matrix(preconditioner: Preconditioner, problem: Problem) -> None:
    """Refuse an unsymmetric matrix, or zeros on its diagonal, where a preconditioner cannot have that (InputError)."""
    can = preconditioner.can
    alone = problem.operator is not None and problem.operator.alone
    if alone and not isinstance(preconditioner, Identity | Function | FunctionByChunk):
        raise InputError(
            f"M={preconditioner.asked} is made from a matrix, and A is a function: give M_from=, a matrix near A, or "
            f"use M=None or a function"
        )
    if can.diagonal and problem.hollow:
        raise InputError(f"M={preconditioner.asked} divides by the diagonal: {problem.hollow}; use M=None")
    if can.symmetric and problem.asymmetry:
        raise InputError(
            f"M={preconditioner.asked} is for symmetric matrices, and A is not: {problem.asymmetry}; use M='ilu0', "
            f"'jacobi' or None"
        )


def check_dtype(preconditioner: Preconditioner | None, dtype: str) -> None:
    """Refuse a value type that preconditioners, or this one, cannot have; raises InputError."""
    if dtype not in (AUTO, *DTYPES):
        raise InputError(f"precond_dtype must be {', '.join(map(repr, (AUTO, *DTYPES)))}, not {in_a_line(dtype)}")
    if dtype != "float32" or preconditioner is None or isinstance(preconditioner, Identity):
        return
    of_fields = isinstance(preconditioner, BlockPreconditioner) and any(m.precision for m in preconditioner.parts)
    if not (preconditioner.can.lowered or of_fields):
        raise InputError(f"precond_dtype={dtype!r} is not for {preconditioner.asked}, which works in float64 alone")


def value_type(asked: str, preconditioner: Preconditioner, method: str, *, cuda: bool) -> str:
    """The value type in which a preconditioner is made: the same whatever the matrix, its chunks and the memory.

    Of "auto" it is "float32" for multigrid on GPUs, if a solve can notice there that it does not serve, and the method
    does not (docs/decisions/float32-by-default.md).
    """
    if asked != AUTO:
        return asked
    can = preconditioner.can
    lowered = cuda and can.lowered and can.fallback is not None and not METHODS[method].sums
    return "float32" if lowered else "float64"


def chosen_for(m: Any, problem: Problem, method: str | None, device: str, dtype: str = AUTO) -> Preconditioner:
    """The preconditioner that M, as of `preconditioner_of`, stands for with a system, "auto" for the usual one.

    dtype: value type for levels of its fields, if it has some.
    """
    auto = isinstance(m, str) and m == AUTO
    made = preconditioner_of(usual_preconditioner(problem, method, device) if auto else m)
    if isinstance(made, BlockPreconditioner):
        return made.with_parts(problem, lambda each, inner: chosen_for(each, inner, None, device), dtype)
    return made


def preconditioner_of(m: Any) -> Preconditioner:
    """The preconditioner of an M: a name, an object, None, a function or `by_chunk`. InputError: it is none."""
    if m is None:
        return Identity()
    if isinstance(m, Preconditioner):
        return m
    if isinstance(m, str) and m in NAMED:
        return NAMED[m]()
    if isinstance(m, ByChunk):
        return FunctionByChunk(function=m)
    if is_operator(m) or (callable(m) and not isinstance(m, type)):
        return Function(function=as_function(m))
    for attribute, call in (("aspreconditioner", "()"), ("solve", "")):  # of PyAMG, and of factors
        if hasattr(m, attribute) and not isinstance(m, type):
            raise InputError(f"M is a {type(m).__name__}, and no function: pass its {attribute}{call}")
    names, question = ", ".join(map(repr, NAMED)), meant(m, NAMED, ELSEWHERE, repr)
    raise InputError(
        f"unknown preconditioner M={in_a_line(m)}: {question}use {names}, None, an object of dsolver.preconditioners, "
        f"or a function z = M(r)"
    )
