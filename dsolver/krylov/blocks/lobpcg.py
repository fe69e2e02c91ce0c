"""LOBPCG, for some eigenvalues at an end of the spectrum of A x = λ B x. Sees neither arrays nor Dask."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, final

import numpy as np

from dsolver.engines.base import Engine, PerChunk
from dsolver.errors import InputError
from dsolver.krylov.blocks.block import F64, Block, agreed

ROUNDING: Final = 1e-14
"""Square of a vector's length beyond others, as a part of the largest, up to which it is rounding and is dropped."""
NEGATIVE: Final = -1e-8
"""Such a square that is no rounding."""
SOUND: Final = 1e-2
"""Least such square with which vectors are orthonormal to rounding after one pass."""
PASSES: Final = 4
"""Passes at most."""
EPS: Final = 2.0**-53
ATTAINABLE: Final = 64.0
"""Residual over EPS ‖A‖ ‖x‖ that rounding may leave."""
RENEWED: Final = 50
"""Iterations after which vectors are made orthonormal anew: each leaves some rounding."""


class BlockOperator(Protocol):
    """A linear operator on blocks."""

    def apply(self, x: Block, y: Block, wanted: Collection[int]) -> None:
        """y = the operator times x, of the wanted columns at least."""


@final
@dataclass(frozen=True, kw_only=True)
class Pencil:
    """The matrices of an eigenvalue problem, and what is known of them.

    Attributes:
        a: A = Aᵀ.
        b: B, symmetric positive definite; None for the identity.
        m: a preconditioner, near A⁻¹ or the identity; any linear operator will do.
        norm: about ‖A‖.
        sign: 1 for the lowest eigenvalues, -1 for the highest.
    """

    a: BlockOperator
    b: BlockOperator | None
    m: BlockOperator
    norm: float
    sign: float = 1.0


class NotFiniteError(ArithmeticError):
    """A number is NaN or infinite."""


@final
class Lobpcg:
    """Locally optimal block preconditioned conjugate gradients (Knyazev, SIAM J. Sci. Comput. 23, 2001).

    An iteration finds the best vectors in the span of S = [X P W]: iterates X, directions P in which they moved last,
    and W = M (A X - B X Λ), by the projected problem SᵀAS c = λ c (Rayleigh and Ritz) with SᵀBS = 1. Vectors in the
    kernel of A, as far as they are known, stand before them as Y, to which all is orthogonal. As Duersch, Shao, Yang
    and Gu (SIAM J. Sci. Comput. 40, 2018) have it, W is made orthonormal to the rest (Stathopoulos and Wu's SVQB, SIAM
    J. Sci. Comput. 23, 2002, in as many passes as rounding asks for), and P is the part of span(S) that is orthogonal
    to the new X and nearest to the old one, by coefficients that are orthonormal themselves. So nothing is inverted
    that may be singular. Columns whose residuals are small enough stay in X and have no W.

    Residuals are computed anew from X in each iteration: A is multiplied twice by a column, in place of keeping A S.
    The projected problem is solved with numbers, the same on all ranks.

    Args:
        engine: runs the kernels of one vector.
        layout: the finest level's `Layout` of every chunk.
        pencil: A, B and M.
        size: columns of X at most.
        known: number of vectors in Y.
        tol: residuals wanted, as parts of |λ + offset| ‖B x‖; not below what rounding leaves.
        offset: what values are for users that have it added.

    Attributes:
        pencil: as given.
        known: Y, to be filled before `start`; None where there is none.
        x: the iterates, to be filled before `start`; of vectors that depend on each other fewer are left.
        values: the Ritz values that belong to them, ascending; the highest first where those are wanted.
        residuals: ‖A x - λ B x‖₂ of each column, with xᵀBx = 1.
        limits: what each should become.
        rounding: what rounding may add to each value.
        iterations: that were made.
    """

    def __init__(
        self, engine: Engine, layout: PerChunk, pencil: Pencil, size: int, known: int, tol: float, offset: float = 0.0
    ) -> None:
        self._engine, self.pencil, self._tol, self._offset, self._size = engine, pencil, tol, offset, size
        self._y, ends = range(known), [known + size * part for part in range(4)]
        self._x, self._p, self._w = (range(*ends[i : i + 2]) for i in range(3))
        self._s = Block(engine, layout, ends[-1])
        self._t = Block(engine, layout, size)
        self._bt = None if pencil.b is None else Block(engine, layout, max(size, known, 2))
        self.known = self._of(self._y) if known else None
        self.x = self._of(self._x)
        self.values = self.residuals = self.limits = self.rounding = np.zeros(0)
        self._inverse: F64 | None = None  # of the products of Y
        self._iterates: list[int] = []
        self._directions: list[int] = []
        self._projected, self._largest = np.zeros((0, 0)), np.zeros(1)
        self.iterations = 0

    def start(self) -> None:
        """Begin from the X that is set: the best vectors in its span."""
        self._orthonormal([], self._y, self._y)
        self._inverse = None
        self._renew()

    def balance(self, r: Block) -> None:
        """Take from vectors their parts along Y, which rounding leaves in residuals and no x can reach."""
        if self.known is None:
            return
        if self._inverse is None:
            inverse = np.linalg.inv(self.known.products(self.known)).astype(np.float64)
            (self._inverse,) = agreed(self._engine, inverse)
        (parts,) = agreed(self._engine, self._inverse @ self.known.products(r))
        self.known.combine(-parts, r, keep=1.0)

    @property
    def unfinished(self) -> list[int]:
        """Columns whose residuals are too large."""
        return [i for i, _ in enumerate(self._iterates) if not self.residuals[i] <= self.limits[i]]

    def step(self) -> None:
        """One iteration."""
        if self.iterations and self.iterations % RENEWED == 0:
            self._renew()
        going = self.unfinished
        w = self._of(self._w)
        self.balance(self._t)  # where residuals are
        self.pencil.m.apply(self._t, w, going)
        found = self._orthonormal([*self._y, *self._iterates, *self._directions], self._w, [self._w[i] for i in going])
        self.pencil.a.apply(w, self._t, range(len(found)))
        self._improve(found)
        self._take_residuals()
        self.iterations += 1

    # -- the two halves of an iteration ------------------------------------------------------------------------------

    def _orthonormal(self, old: Sequence[int], new: range, used: Sequence[int]) -> list[int]:
        """Make the used columns of `new` orthonormal, in B's inner product, and orthogonal to old ones.

        Returns the columns that now have the span of the used ones; fewer where they depended on others.
        """
        if not used:
            return []
        block, before = self._of(new), self._s.part(0, new.stop)
        for _ in range(PASSES):
            products = before.products(self._times_b(block, [i - new.start for i in used]))
            columns = [i - new.start for i in used]
            square, along = products[np.ix_(used, columns)], products[np.ix_(old, columns)]
            self._check(products[np.ix_([*old, *used], columns)])
            turned, least = _orthonormal(square, along)
            coefficients = np.zeros((new.stop, len(new)))
            coefficients[used, : turned.shape[1]] = turned
            coefficients[old, : turned.shape[1]] = -along @ turned
            coefficients, (least, count) = agreed(self._engine, coefficients, np.array([least, turned.shape[1]]))
            before.combine(coefficients, block)
            used = list(new[: int(count)])
            if not used or least > SOUND:
                break
        return list(used)

    def _improve(self, new: Sequence[int]) -> None:
        """Take the best X of the span of X, P and the columns of W, whose product with A is there, and P for the next.

        The coefficients C = [C_X C_R] of all Ritz vectors are orthonormal. P has those of C_R Q, where Q spans what the
        rows of C_R have for the old X.
        """
        live, size, first = len(self._iterates), self._size, self._x.start
        basis = [i - first for i in (*self._iterates, *self._directions, *new)]
        whole = self._projected
        if new:
            rows = self._s.part(first, self._w.stop).products(self._t)[basis, : len(new)]
            self._check(rows)
            old, own = np.split(self.pencil.sign * rows, [len(whole)])
            whole = np.block([[whole, old], [old.T, (own + own.T) / 2.0]])
        values, best, moved, projected, largest = _ritz(whole, live)
        coefficients = np.zeros((3 * size, 2 * size))
        coefficients[basis, :live] = best
        coefficients[basis, size : size + moved.shape[1]] = moved
        found = agreed(self._engine, coefficients, values, projected, largest)
        coefficients, values, self._projected, self._largest = found
        self._s.part(first, self._w.stop).combine(coefficients, self._s.part(first, self._p.stop))
        self._directions = list(self._p[: moved.shape[1]])
        self.values = self.pencil.sign * values

    def _take_residuals(self) -> None:
        """Leave A X - B X Λ in the work space, and look at it."""
        pencil, x, live = self.pencil, self.x.part(0, len(self._iterates)), len(self._iterates)
        t = self._t.part(0, live)
        pencil.a.apply(x, t, range(live))
        bx = self._times_b(x, range(live))
        bx.combine(-np.diag(self.values), t, keep=1.0)
        squares, *others = t.squares(*(() if pencil.b is None else (x, bx)))
        self._check(squares)
        self.residuals = np.sqrt(squares)
        x_square, bx_square = others or (np.ones(live),) * 2
        rounding = ATTAINABLE * EPS * pencil.norm
        self.rounding = np.maximum(rounding * x_square, ATTAINABLE * EPS * self._largest)
        self.limits = np.maximum(
            self._tol * abs(self.values + self._offset) * np.sqrt(bx_square), rounding * np.sqrt(x_square)
        )

    def _renew(self) -> None:
        """Make X orthonormal, and take the best vectors in its span."""
        self._iterates = self._orthonormal(self._y, self._x, self._iterates or self._x)
        live = len(self._iterates)
        self.pencil.a.apply(self.x, self._t, range(live))
        projected = self.pencil.sign * self.x.products(self._t)[:live, :live]
        self._check(projected)
        self._projected, self._directions = (projected + projected.T) / 2.0, []
        self._improve([])
        self._take_residuals()

    # -- columns -------------------------------------------------------------------------------------------------------

    def _of(self, columns: range) -> Block:
        return self._s.part(columns.start, columns.stop)

    def _times_b(self, x: Block, wanted: Collection[int]) -> Block:
        """B times x: x itself where B is the identity."""
        if self.pencil.b is None or self._bt is None:
            return x
        made = self._bt.part(0, len(x))
        self.pencil.b.apply(x, made, wanted)
        return made

    def _check(self, numbers: F64) -> None:
        if not np.isfinite(numbers).all():
            raise NotFiniteError("NaN or infinity appeared")


# -- small dense problems, with numbers ------------------------------------------------------------------------------


def _orthonormal(square: F64, along: F64) -> tuple[F64, float]:
    """Combinations of vectors that are orthonormal once their parts along others are taken out.

    Args:
        square: products of the vectors with each other.
        along: of orthonormal ones with the vectors.

    Returns:
        Coefficients (vectors, as many as do not depend on others), and the least square of a length that is left of
        1: what rounding is relative to.

    Raises:
        InputError: a square is negative.
    """
    squares = np.diag(square)
    lengths = np.sqrt(squares.clip(min=0.0))
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)
    beyond = scale[:, None] * ((square + square.T) / 2.0 - along.T @ along) * scale
    parts, turned = np.linalg.eigh(beyond)
    if (squares < 0.0).any() or parts[0] < NEGATIVE:
        raise InputError("B is not positive definite: there is an x with xᵀBx < 0")
    kept = parts > max(ROUNDING, ROUNDING * parts[-1])
    least = float(parts[kept][0]) if kept.any() else 1.0
    return scale[:, None] * turned[:, kept] / np.sqrt(parts[kept]), least


def _ritz(whole: F64, size: int) -> tuple[F64, F64, F64, F64, F64]:
    """Rayleigh and Ritz on an orthonormal basis whose first vectors are the X before.

    Returns:
        The lowest values, ascending, the coefficients of their vectors, those of the directions P, A projected on both,
        and the largest magnitude of all values.
    """
    values, c = np.linalg.eigh(whole)
    rest = c[:, size:]
    q = np.linalg.qr(rest[:size].T)[0] if rest.shape[1] else np.zeros((0, 0))
    projected = np.zeros((size + q.shape[1],) * 2)
    projected[:size, :size] = np.diag(values[:size])
    projected[size:, size:] = q.T @ (values[size:, None] * q)
    return values[:size], c[:, :size], rest @ q, projected, abs(values).max(keepdims=True)
