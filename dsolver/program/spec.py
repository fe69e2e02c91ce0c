"""Specification of a solve: what a program needs to know, small enough to send anywhere."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Self

from dsolver.discretize.system import System
from dsolver.engines.base import Engine
from dsolver.errors import InputError
from dsolver.grid.box import STAR_OFFSETS
from dsolver.grid.coloring import Order
from dsolver.grid.partition import Cut, Partition
from dsolver.krylov import methods
from dsolver.krylov.gmres import RESTART, most_vectors
from dsolver.multigrid.reuse import Reuse
from dsolver.preconditioners import Multigrid, Preconditioner
from dsolver.preconditioners.builder import Blocks, Builder, Early, unused
from dsolver.preconditioners.registry import check_matrix
from dsolver.problems import Problem


@dataclass(frozen=True, kw_only=True)
class SolveSpec:
    """A linear system, how it is cut, and how it is preconditioned."""

    problem: Problem
    partition: Partition
    order: Order  # in which smoothers visit the rows of matrices that are stored
    preconditioner: Preconditioner = field(default_factory=Multigrid)  # M
    dtype: str = "float64"
    # the value type of M where it is narrower, "float32" beside a float64 `dtype`; else "float64".
    precond_dtype: str = "float64"
    method: str = methods.FOR_SYMMETRIC  # the Krylov method, one of `dsolver.krylov.methods.METHODS`
    restart: int = RESTART  # vectors of its first basis, where it has one
    most: int = RESTART  # vectors to which a basis may grow
    diagonal: Blocks | None = None  # makes what a chunk's diagonal of A is multiplied by; None for ones

    @classmethod
    def plan(
        cls,
        problem: Problem,
        chunks: Cut,
        order: Order | str = "color8",
        m: Preconditioner | None = None,
        method: str | None = None,
        restart: int | None = None,
        **more: Any,
    ) -> Self:
        """Specification of a problem cut so, with `more` attributes. InputError: order, M or method are not for it."""
        partition = Partition(problem.grid, chunks, problem.periodic)
        order = Order.parse(order) if isinstance(order, str) else order
        if order.red_black and not set(problem.offsets) <= set(STAR_OFFSETS):
            raise InputError("order='color2' is for 7-point stencils, where red reads black alone: use color8")
        m = m or Multigrid()
        check_matrix(m, problem)
        m.check(problem, partition)
        taken = method_for(problem, method, m)
        sizes = bases(problem, taken, restart or m.basis)
        more |= {"preconditioner": m.informed(problem), "method": taken, **sizes}
        sent = problem.without_arrays
        if problem.operator is not None:  # one of its own, which is told the kind of its b
            sent = replace(sent, operator=replace(problem.operator, numbers=problem.numbers))
        return cls(problem=sent, partition=partition, order=order, **more)

    def builder(self, engine: Engine, system: System, reuse: Reuse | None = None, early: Early = unused) -> Builder:
        """Builds the matrices, on an engine with the problem on it; reuse, early: as of `Builder`."""
        return Builder(
            engine=engine,
            system=system,
            problem=self.problem,
            partition=self.partition,
            order=self.order,
            dtype=self.precond_dtype if self.lowered else "float64",
            diagonal=self.diagonal,
            reuse=reuse,
            early=early,
        )

    @property
    def traits(self) -> methods.Traits:
        """Traits of the method."""
        return methods.METHODS[self.method]

    @property
    def vectors(self) -> int:
        """Vectors that the method keeps."""
        return self.traits.vectors + self.traits.basis * self.most

    @property
    def lowered(self) -> bool:
        """Whether the preconditioner has levels of its own, in another value type than A."""
        return self.preconditioner.can.lowered and self.precond_dtype != "float64"


def bases(problem: Problem, method: str, restart: int | None) -> dict[str, int]:
    """Sizes of a method's first basis and of its largest one, as of `SolveSpec`; restart: one that was asked for."""
    if not methods.METHODS[method].basis:
        return {}
    rows = math.prod(problem.grid)
    return {"restart": min(restart or RESTART, rows), "most": min(restart or most_vectors(rows), rows)}


def method_for(problem: Problem, name: str | None, m: Preconditioner | None = None) -> str:
    """The method for a system: that asked for, or the usual one for A and M. InputError: it needs a symmetric A."""
    if name is None:
        if m is not None and (own := m.usual_method(problem)):
            return own
        if m is not None and m.can.any_sign:
            return methods.FOR_FACTORS
        if problem.unsymmetric:
            return methods.FOR_ANY
        if problem.complex and not problem.hermitian:
            return methods.FOR_COMPLEX_SYMMETRIC
        return methods.FOR_INDEFINITE if problem.indefinite else methods.FOR_SYMMETRIC
    methods.check_method(name)
    if m is not None and m.can.method not in (None, name):
        raise InputError(f"M={m.asked} serves method={m.can.method!r} alone, not {name!r}: leave method= out")
    traits = methods.METHODS[name]
    others = methods.serving_any()
    if traits.symmetric and problem.unsymmetric:
        raise InputError(
            f"A is not symmetric: {problem.unsymmetric}; method={name!r} needs A = Aᵀ: use method={others}"
        )
    mixed = problem.complex and not problem.real_valued and traits.orthogonal is problem.hermitian
    if traits.symmetric and mixed:
        has, needs, other = ("Aᴴ", "Aᵀ", "'cg', 'minres'") if problem.hermitian else ("Aᵀ", "Aᴴ", "'cocg'")
        raise InputError(
            f"A is complex with A = {has}, and method={name!r} needs A = {needs}: use method={other}, {others}"
        )
    return name
