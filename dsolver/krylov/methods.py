"""Krylov methods by name, and what is known of each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from dsolver.engines.base import Engine, PerChunk
from dsolver.errors import InputError, in_a_line, meant
from dsolver.krylov.bicgstab import BiConjugateGradientStabilized
from dsolver.krylov.cg import ConjugateGradient
from dsolver.krylov.cocg import ConjugateOrthogonal
from dsolver.krylov.gmres import GeneralizedMinimalResidual
from dsolver.krylov.method import KrylovMethod
from dsolver.krylov.minres import MinimalResidual
from dsolver.status import Status


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Traits of a method."""

    title: str  # its name in sentences
    # makes it on an engine, for vectors of a layout, with so many vectors of the first basis, and at most.
    make: Callable[[Engine, PerChunk, int, int], KrylovMethod]
    symmetric: bool = False  # it needs A = Aᴴ, or A = Aᵀ where it is `orthogonal`, and M = Mᵀ
    orthogonal: bool = False  # it is for complex matrices with A = Aᵀ
    vectors: int  # that it keeps
    basis: int = 0  # vectors that it keeps beside them for each one of a basis
    moved: int  # vectors that an iteration reads or writes, those within M aside
    # vectors that it does so with beside them for each one of a basis, on the mean of all its lengths.
    moved_each: float = 0.0
    products: int = 1  # with A and with M in an iteration
    worth: float = 1.0  # iterations of conjugate gradients that one is worth, for forecasts
    batched: bool = False  # it runs on a batched engine
    replaces: bool = True  # its recursion can take the true residual between two iterations
    checked: bool = False  # the true residual can be looked at between two, though iterates do not follow from it
    sums: bool = False  # it applies M once more to a sum of what it has applied M to, so that what M rounds shows in x
    breakdown: Status = Status.BREAKDOWN  # the status where it breaks down


MethodName = Literal["cg", "fcg", "cocg", "minres", "gmres", "fgmres", "bicgstab"]

METHODS: Final = {
    # The diagonal, p and A p of the product; r and z; z, p and p; p, A p, x twice and r twice.
    "cg": Traits(
        title="conjugate gradients",
        make=lambda engine, layout, *_: ConjugateGradient(engine, layout),
        symmetric=True,
        vectors=6,
        moved=14,
        batched=True,
        breakdown=Status.INDEFINITE,
    ),
    "fcg": Traits(  # z and A p
        title="flexible conjugate gradients",
        make=lambda engine, layout, *_: ConjugateGradient(engine, layout, flexible=True),
        symmetric=True,
        vectors=7,
        moved=16,
        breakdown=Status.INDEFINITE,
    ),
    "cocg": Traits(  # two parts of each vector: r and z, z and p, p and A p, p, A p, x and r
        title="COCG (conjugate orthogonal conjugate gradients)",
        make=lambda engine, layout, *_: ConjugateOrthogonal(engine, layout),
        symmetric=True,
        orthogonal=True,
        vectors=6,
        moved=20,
        batched=True,
    ),
    "minres": Traits(  # ten of Lanczos' vectors with the product, nine of the column, ten of x, r and M, 15 passed on
        title="MINRES",
        make=lambda engine, layout, *_: MinimalResidual(engine, layout),
        symmetric=True,
        vectors=11,
        moved=44,
        replaces=False,
        checked=True,
        breakdown=Status.INCOMPATIBLE_RHS,
    ),
    "gmres": Traits(  # for each vector of the basis a dot product and an update
        title="GMRES",
        make=GeneralizedMinimalResidual,
        vectors=8,
        basis=1,
        moved=11,
        moved_each=2.5,
        replaces=False,
        sums=True,
    ),
    "fgmres": Traits(
        title="flexible GMRES",
        make=lambda engine, layout, *sizes: GeneralizedMinimalResidual(engine, layout, *sizes, flexible=True),
        vectors=8,
        basis=2,
        moved=13,
        moved_each=2.5,
        replaces=False,
    ),
    "bicgstab": Traits(  # three of each product, five dot products with two (one of a vector with itself), six updates
        title="BiCGStab",
        make=lambda engine, layout, *_: BiConjugateGradientStabilized(engine, layout),
        vectors=8,
        moved=32,
        products=2,
        worth=1.8,  # 1.3 to 2.8 were seen
    ),
}
"""Methods by name."""

FOR_SYMMETRIC: Final = "cg"
FOR_INDEFINITE: Final = "minres"
FOR_ANY: Final = "gmres"
FOR_FACTORS: Final = "fgmres"
FOR_COMPLEX_SYMMETRIC: Final = "cocg"
FOR_FLOWS: Final = "bicgstab"  # methods where none is asked for


ELSEWHERE: Final = {"cg": "pcg", "bicgstab": "bcgs bicg cgs qmr tfqmr", "gmres": "lgmres", "fgmres": "gcr gcrotmk"}
"""Names in other packages of these methods, or of others in their places."""


def serving_any() -> str:
    """Names of the methods for any matrix, for messages."""
    *names, last = [repr(name) for name, traits in METHODS.items() if not traits.symmetric]
    return f"{', '.join(names)} or {last}" if names else last


def check_method(name: Any) -> None:
    """Refuse a name of no method; raises InputError."""
    if name not in METHODS:
        question = meant(name, METHODS, ELSEWHERE, repr)
        raise InputError(f"unknown method {in_a_line(name)}: {question}use {', '.join(map(repr, METHODS))}")
