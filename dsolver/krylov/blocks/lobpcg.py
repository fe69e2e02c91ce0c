"""LOBPCG, for some eigenvalues at an end of the spectrum of A x = λ B x. Sees neither arrays nor Dask."""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from dsolver.engines.base import Engine, PerChunk
from dsolver.krylov.blocks.block import Block, Pencil
from dsolver.krylov.blocks.projected import orthonormal, ritz
from dsolver.krylov.blocks.rounds import F64, Numbers, RoundedOtherwiseError, Rounds

SOUND: Final = 1e-2  # least such square with which vectors are orthonormal to rounding after one pass
FAIR: Final = 1e-3
"""Such a square for residuals that may stay `FAR` times what rounding leaves; errors of products are larger then."""
FAR: Final = 10.0
PASSES: Final = 4  # passes at most
EPS: Final = 2.0**-53
ATTAINABLE: Final = 64.0
"""Residual over EPS ‖D x‖, or EPS d ‖x‖, that rounding may leave; D: sizes of the rows of A, d: the usual one.

‖A‖ in their place would call anything exact where one row is huge, as penalties make it.
"""
UNREACHABLE: Final = 0.1  # part of a residual along Y from which on it is taken out
RENEWED: Final = 50  # iterations after which vectors are made orthonormal anew: each leaves some rounding


class NotFiniteError(ArithmeticError):
    """A number is NaN or infinite."""


class Lobpcg:
    """Locally optimal block preconditioned conjugate gradients (Knyazev, SIAM J. Sci. Comput. 23, 2001).

    An iteration finds the best vectors in the span of S = [X P W]: iterates X, directions P in which they moved last,
    and W = M R with residuals R = A X - B X Λ, by the projected problem SᵀAS c = λ c (Rayleigh and Ritz) with SᵀBS = 1.
    Vectors in the kernel of A, as far as they are known, stand before them as Y, to which all is orthogonal. As in
    Duersch, Shao, Yang and Gu (SIAM J. Sci. Comput. 40, 2018), W is made orthonormal to the rest (Stathopoulos and Wu's
    SVQB, SIAM J. Sci. Comput. 23, 2002), and P is the part of span(S) that is orthogonal to the new X and nearest to
    the old one, by coefficients that are orthonormal themselves. So nothing is inverted that may be singular. Columns
    whose residuals were small enough stay in X and have no W.

    Ranks wait for each other once in an iteration: for [Y X P W]ᵀ [B W, A W] and the squares of R, which tells of X
    before it is improved. What makes W orthonormal is a combination of columns as the Ritz vectors are, so both are
    made at once. Where columns of W nearly depend on each other, W is made orthonormal by itself first, in as many
    passes as rounding asks for, a round each.

    Residuals are computed anew from X in each iteration: A is multiplied twice by a column, in place of keeping A S.
    The projected problem is solved with numbers, the same on all ranks.

    Args:
        size: columns of X at most.
        known: number of vectors in Y.
        tol: residuals wanted, as parts of |λ + offset| ‖B x‖; not below what rounding leaves.
        offset: what values are for users that have it added.

    Attributes:
        known: Y, to be filled before `start`; None where there is none.
        x: the iterates, to be filled before `start`; of vectors that depend on each other fewer are left.
        values: the Ritz values that belong to them, ascending; the highest first where those are wanted.
        residuals: ‖A x - λ B x‖₂ of each column, with xᵀBx = 1, when it was last measured.
        limits: what each should become.
        rounding: what rounding may add to each value, beside what earlier and larger ones have left in it.
        iterations: that were made.
    """

    def __init__(
        self, engine: Engine, layout: PerChunk, pencil: Pencil, size: int, known: int, tol: float, offset: float = 0.0
    ) -> None:
        self.pencil, self._tol, self._offset, self._size = pencil, tol, offset, size
        self._rounds = Rounds(engine)
        mass = 0 if pencil.b is None else max(size, known)
        widths = np.cumsum([0, known, size, size, size, mass, size]).tolist()
        self._y, self._x, self._p, self._w, self._bw, self._aw = (range(*pair) for pair in pairwise(widths))
        self._s, self._r = Block(engine, layout, widths[-1]), Block(engine, layout, size)
        self.known = self._of(self._y) if known else None
        self.x = self._of(self._x)
        self.values = self.residuals = self.limits = self.rounding = np.zeros(0)
        self._inverse = np.zeros((0, 0))  # of the products of Y
        self._unbalanced, self._sound = False, SOUND
        self._iterates: list[int] = []
        self._directions: list[int] = []
        self._going: list[int] = []
        self._basis, self._projected, self._largest = np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(1)
        self._squares: Numbers
        self.iterations = 0

    @property
    def negative(self) -> bool:
        """Whether a value is below zero by more than rounding."""
        return bool((self.values < -self.rounding).any())

    def start(self) -> None:
        """Begin from the X that is set: the best vectors in its span."""
        self._orthonormal([], self._y, self._y)
        self._inverse, self._iterates = np.zeros((0, 0)), []
        self._inverse_of_known()
        self._renew()

    def smooth(self) -> None:
        """Have M make X of the X that is set, as it makes W of R: engines record that once."""
        self.balance(self.x)
        self.x.copy(self._r)
        self.pencil.m.apply(self._r, self._of(self._w), range(self._size))
        self._of(self._w).copy(self.x)

    def balance(self, r: Block) -> None:
        """Take from vectors their parts along Y, which rounding leaves in residuals and no x can reach."""
        if self.known is None:
            return
        (products,) = self._rounds.sums(self.known.products(r))
        (parts,) = self._rounds.agreed(self._inverse_of_known() @ products)
        self.known.combine(-parts, r, keep=1.0)

    def measure(self, *, anew: bool = False) -> None:
        """The first half of an iteration: W, and how large the residuals of X are; anew: by products with A alone."""
        if anew or (self.iterations and self.iterations % RENEWED == 0):
            self._renew()
        try:
            self._widen()
        except RoundedOtherwiseError:
            self._iterates = []
            self._renew()
            self._widen()

    def improve(self) -> None:
        """The second half: X becomes the best vectors in the span of S."""
        self._take_best()
        self.iterations += 1

    # -- parts of an iteration -----------------------------------------------------------------------------------------

    def _take_best(self) -> None:
        """Take X of the span of the basis, P for the next iteration, and what follows from them.

        The coefficients C = [C_X C_R] of all Ritz vectors are orthonormal. P has those of C_R Q, where Q spans what the
        rows of C_R have for the old X.
        """
        live, size, before = len(self._iterates), self._size, self._w.stop
        values, best, moved, projected, largest = ritz(self._projected, live)
        coefficients = np.zeros((before, 2 * size))
        coefficients[:, :live] = self._basis @ best
        coefficients[:, size : size + moved.shape[1]] = self._basis @ moved
        found = self._rounds.agreed(coefficients, values, projected, largest)
        coefficients, values, self._projected, self._largest = found
        self._s.part(0, before).combine(coefficients, self._s.part(self._x.start, self._p.stop))
        self._directions = list(self._p[: moved.shape[1]])
        self.values = self.pencil.sign * values
        self._take_residuals()

    def _widen(self) -> None:
        """Have a W, a basis of the span of X, P and W, and A projected on that; look at the residuals meanwhile."""
        if self._unbalanced:
            self.balance(self._r)
        w, basis, passes = self._of(self._w), [*self._iterates, *self._directions], 0
        self.pencil.m.apply(self._r, w, self._going)
        used = [self._w[i] for i in self._going]
        while True:
            by_b, by_a = self._products_of_w(used)
            made, count, least = self._combinations([*self._y, *basis], self._w, used, by_b)
            passes += 1
            if least > self._sound or not count or passes == PASSES:
                break
            self._s.part(0, self._w.stop).combine(made, w)
            used = list(self._w[:count])
        every, columns = [*basis, *used], [i - self._w.start for i in used]
        rows = self.pencil.sign * by_a[np.ix_(every, columns)]
        self._check(rows)
        self._basis = np.concatenate([np.eye(self._w.stop)[:, basis], made[:, :count]], axis=1)
        old, own = np.split(rows, [len(basis)])
        whole = np.block([[self._projected, old], [old.T, (own + own.T) / 2.0]])
        self._projected = self._basis[every].T @ whole @ self._basis[every]

    def _products_of_w(self, used: Sequence[int]) -> tuple[F64, F64]:
        """Products of all columns with those of B W and of A W. The round tells of the residuals, too."""
        w, columns = self._of(self._w), [i - self._w.start for i in used]
        self.pencil.a.apply(w, self._of(self._aw), columns)
        self._times_b(w, columns)
        both = self._s.part((self._bw or self._w).start, self._aw.stop)
        wanted = [self._s.part(0, self._w.stop).products(both, self.pencil.weights, self._size), self._squares]
        products, *rest = self._rounds.sums(*wanted, *([] if self.known is None else [self.known.products(self._r)]))
        self._judge(*rest)
        return products[:, : self._size], products[:, -self._size :]

    def _judge(self, every: F64, *of_known: F64) -> None:
        """Take notice of residuals, what they should become, and whether rounding leaves parts of them along Y."""
        live = len(self._iterates)
        (along,) = of_known or (np.zeros((0, self._size)),)
        squares, sizes, x_squares, bx_squares = every
        self._check(squares)
        self.residuals = np.sqrt(squares)
        rounding = ATTAINABLE * EPS * np.maximum(np.sqrt(sizes), self.pencil.size * np.sqrt(x_squares))
        self.rounding = np.maximum(rounding * np.sqrt(x_squares), ATTAINABLE * EPS * self._largest)
        wanted = self._tol * abs(self.values + self._offset) * np.sqrt(bx_squares)
        self.limits = np.maximum(wanted, rounding)
        self._sound = FAIR if (wanted > FAR * rounding).all() else SOUND
        self._going = [i for i in range(live) if not self.residuals[i] <= self.limits[i]]
        parts = np.diag(self._inverse) @ along[:, :live] ** 2
        self._unbalanced = bool((parts > UNREACHABLE**2 * squares)[self._going].any())

    def _take_residuals(self) -> None:
        """R = A X - B X Λ, and its squares, for which nothing waits yet."""
        live = len(self._iterates)
        x, r = self.x.part(0, live), self._r.part(0, live)
        self.pencil.a.apply(x, r, range(live))
        b = self.pencil.weights if self.pencil.b is None else self._times_b(x, range(live))
        self._squares = x.residuals(self.values, b, self.pencil.sizes, r)

    def _renew(self) -> None:
        """Begin from the X that is there; a guess, where what it has become on some ranks does not fit the others."""
        try:
            self._begin()
        except RoundedOtherwiseError:
            self._iterates = []
            self._begin()

    def _begin(self) -> None:
        """Make X orthonormal, and take the best vectors in its span."""
        self._iterates = self._orthonormal(self._y, self._x, self._iterates or self._x)
        live = len(self._iterates)
        if not live:  # Y has the span of all vectors
            return
        self.pencil.a.apply(self.x, self._r, range(live))
        (products,) = self._rounds.sums(self.x.products(self._r))
        projected = self.pencil.sign * products[:live, :live]
        self._check(projected)
        self._projected, self._basis = (projected + projected.T) / 2.0, np.eye(self._w.stop)[:, self._iterates]
        self._take_best()
        self._going = list(range(live))

    def _orthonormal(self, old: Sequence[int], new: range, used: Sequence[int]) -> list[int]:
        """Make the used columns of `new` orthonormal, in B's inner product, and orthogonal to old ones.

        Returns the columns that now have the span of the used ones; fewer where they depended on others.
        """
        block, before = self._of(new), self._s.part(0, new.stop)
        for _ in range(PASSES if used else 0):
            of_b = self._times_b(block, [i - new.start for i in used])
            products = before.products(of_b, self.pencil.weights, len(block))
            made, count, least = self._combinations(old, new, used, *self._rounds.sums(products))
            before.combine(made, block)
            used = new[:count]
            if not used or least > SOUND:
                break
        return list(used)

    def _combinations(self, old: Sequence[int], new: range, used: Sequence[int], dots: F64) -> tuple[F64, int, float]:
        """Coefficients of orthonormal vectors with the span of the used columns of `new`, beyond that of old ones.

        Args:
            dots: of all columns up to the last of `new` with B times its columns.

        Returns:
            Coefficients for all these columns, how many vectors they make, and how far vectors depended on each other.
        """
        columns = [i - new.start for i in used]
        square, along = dots[np.ix_(used, columns)], dots[np.ix_(old, columns)]
        self._check(dots[np.ix_([*old, *used], columns)])
        turned, least = orthonormal(square, along)
        made = np.zeros((new.stop, len(new)))
        made[used, : turned.shape[1]] = turned
        made[old, : turned.shape[1]] = -along @ turned
        made, (least, count) = self._rounds.agreed(made, np.array([least, turned.shape[1]]))
        return made, int(count), float(least)

    # -- columns -------------------------------------------------------------------------------------------------------

    def _of(self, columns: range) -> Block:
        return self._s.part(columns.start, columns.stop)

    def _times_b(self, x: Block, wanted: Collection[int]) -> Block:
        """B times x; x itself where B is a diagonal, by which products are weighted."""
        if self.pencil.b is None:
            return x
        made = self._of(self._bw).part(0, len(x))
        self.pencil.b.apply(x, made, wanted)
        return made

    def _inverse_of_known(self) -> F64:
        """Inverse of YᵀY."""
        if self.known is not None and not self._inverse.size:
            (products,) = self._rounds.sums(self.known.products(self.known))
            (self._inverse,) = self._rounds.agreed(np.linalg.inv(products).astype(np.float64))
        return self._inverse

    def _check(self, numbers: F64) -> None:
        if not np.isfinite(numbers).all():
            raise NotFiniteError("NaN or infinity appeared")
