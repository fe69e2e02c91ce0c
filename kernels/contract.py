"""The contract of every kernel: its name, what it reads and what it writes.

A kernel works on the arrays of one chunk. It is described once here and is a method of this name: of its first argument
where that is in `CARRIERS`, since a format brings its kernels with it (`dsolver.kernels.formats`), else of a backend's
`vectors`. It is implemented three times, in modules of the same name in `dsolver.kernels.reference` (NumPy), `.cpu`
(numba) and `.cuda` (CuPy). Arguments come in the order *reads*, *updates*, *writes*:

- ``reads`` are never changed,
- ``updates`` are read and changed in place,
- ``writes`` are filled; they were zero or hold an earlier result of the same kernel. Padding stays zero.

An engine that may not mutate (a task graph) copies the updates and allocates the writes; an engine that owns
memory passes it as it is. Kernels know neither.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

FAN_IN = 8
"""Numbers that one node of a reduction tree adds."""
CARRIERS: Final = frozenset({"A", "H", "R", "P", "S", "inverse", "direct"})
"""Arguments that bring the kernels of which they are the first."""


@dataclass(frozen=True)
class Kernel:
    """The description of one kernel: its name and the roles of its arguments, in calling order.

    `work`: what it works on, for those who watch: rows, boundary rows that are ready, or the coarsest level. `label`:
    its name for them; empty for its own.
    """

    name: str
    reads: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    work: Literal["inner", "boundary", "coarse"] = "inner"
    label: str = ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """All argument names in calling order."""
        return self.reads + self.updates + self.writes

    @property
    def carried(self) -> bool:
        """Whether the first argument brings it."""
        return self.reads[0] in CARRIERS


KERNELS: Final[dict[str, Kernel]] = {}
"""All kernels by name, but for those of a format alone, which are described beside it (`formats.hpcg`,
`general.complex_pair`)."""


def described(name: str, reads: str = "", updates: str = "", writes: str = "", **shown: Any) -> Kernel:
    """The description of a kernel, its arguments with spaces between; shown: `Kernel.work` and `Kernel.label`."""
    return Kernel(name, tuple(reads.split()), tuple(updates.split()), tuple(writes.split()), **shown)


def _kernel(name: str, reads: str = "", updates: str = "", writes: str = "", **shown: Any) -> Kernel:
    return KERNELS.setdefault(name, described(name, reads, updates, writes, **shown))


# Names used below: A matrix, H what multiplies a halo (boundary rows only), S a star between two levels, R, P
# rectangular matrices between two levels, h halo, r right-hand side or residual, x iterate, dot a partial dot product
# (one float64 per chunk). Vectors are of the backend's value type unless told otherwise; scalars and partial dot
# products are float64 always, and so is the arithmetic of dot products.

LOAD = _kernel("load", reads="layout block", writes="x")
"""A block of values, shape (nx, ny, nz) and any strides, to a vector in storage order."""
COPY = _kernel("copy", reads="x", writes="y")
FILL = _kernel("fill", reads="layout value", writes="x")
"""x = value on every row (a float); padding stays zero."""
ASSEMBLE = _kernel("assemble", reads="layout source", updates="x")
"""x, the source of a differential equation, becomes the right-hand side of its cells: `lattice.sources.Source`."""
PACK = _kernel("pack", reads="plan x", writes="buffer")
"""buffer = x at the rows that the neighbors read, neighbor after neighbor; x may be of another type."""

SPMV = _kernel("spmv", reads="A x", writes="y")
"""y = A_local x."""
SPMV_DOT = _kernel("spmv_dot", reads="A x", writes="y dot")
"""y = A_local x, dot = x . y."""
SPMV_HALO = _kernel("spmv_halo", reads="H h", updates="y")
"""y += H h (boundary rows only)."""
TIMES_HALO = _kernel("times_halo", reads="H h", writes="q")
"""q = H h, an item for each boundary row. It needs nothing of the work inside the chunk and may run beside it."""
TIMES_HALO_DOT = _kernel("times_halo_dot", reads="H h x", writes="q dot")
"""q = H h, dot = x . q."""
ADD_HALO_DOT = _kernel("add_halo_dot", reads="H q part", updates="y dot", work="boundary")
"""y += q on the boundary, dot += part: after `SPMV_DOT`, what `TIMES_HALO_DOT` has left."""
SUBTRACT_HALO = _kernel("subtract_halo", reads="H h", updates="r")
"""r -= H h."""

FORWARD = _kernel("forward", reads="A r", writes="x")
"""x = (D + L)⁻¹ r: one forward Gauss-Seidel sweep from x = 0, on the local part alone."""
UPPER_RESIDUAL = _kernel("upper_residual", reads="A x", writes="y")
"""y = -(U x), which after `FORWARD` is r - A_local x."""
LOWER_RESIDUAL = _kernel("lower_residual", reads="A r x", writes="w")
"""w = r - L x: the right-hand side of `BACKWARD` that makes the two one backward Gauss-Seidel sweep from x. What a halo
adds is subtracted from w, so it may travel meanwhile."""
BACKWARD = _kernel("backward", reads="A w", writes="x")
"""x = (D + U)⁻¹ w."""
SWEEP_BACKWARD = _kernel("sweep_backward", reads="A r", updates="x", writes="w")
"""x = x + (D + U)⁻¹ (r - A_local x): one backward Gauss-Seidel sweep from x, for a chunk with no neighbors:
`LOWER_RESIDUAL` and `BACKWARD`, or less. w is work space."""
RESTRICT_FULL = _kernel("restrict_full", reads="R y", writes="rc")
"""rc = R y, with rc in the storage order of the coarser level."""
PROLONG_ADD = _kernel("prolong_add", reads="P xc", updates="x")
"""x += P xc, with xc in lattice order: neighboring rows then read neighboring items."""
PROLONG_SUM = _kernel("prolong_sum", reads="P xc x", writes="y")
"""y = x + P xc, with xc in lattice order."""
MOVE = _kernel("move", reads="route x", updates="y")
"""y[target] = x[source] for each pair of a `Route`; the other items of y stay as they are."""
STAR_DOWN = _kernel("star_down", reads="S r h", writes="rc")
"""rc = R (r - A x) with x = (D + L)⁻¹ r, for a 7-point constant stencil (S is a `StarTransfer`). A, L and R are those
of the whole grid: with neighbors, h is r in the layers around the chunk that this reaches."""
STAR_UP = _kernel("star_up", reads="S r h xc", writes="x")
"""One backward Gauss-Seidel sweep from x = (D + L)⁻¹ r + P xc, as of `STAR_DOWN`; xc in lattice order, with its
values in the layers around the chunk that this reaches. With `STAR_DOWN` a level of a V-cycle that stores nothing but r
and needs no neighbor's x."""
DENSE_SOLVE = _kernel("dense_solve", reads="inverse r", writes="x", work="coarse")
"""x = A⁻¹ r by a stored inverse of the whole matrix (a `DenseInverse`)."""
DIRECT_SOLVE = _kernel("direct_solve", reads="direct r h", writes="y")
"""y = A⁻¹ r of the whole system, in the order of the chunks, where the factors are (a `DirectPart`); h: r of the other
chunks. It does nothing elsewhere."""
DIRECT_SOLVE_COMPLEX = _kernel("direct_solve_complex", reads="direct r h ri hi", writes="y yi")
"""`DIRECT_SOLVE` of a complex system, each vector in two parts."""
DIRECT_PART = _kernel("direct_part", reads="direct y h", writes="z")
"""z = the chunk's part of y; h: that part, where the factors are not."""

DOT = _kernel("dot", reads="x y", writes="dot")
NARROW = _kernel("narrow", reads="x xx", writes="y")
"""y = s x from float64 to the backend's value type, with s = `dsolver.kernels.host_scalars.scale_of` (xx = x . x)."""
WIDEN = _kernel("widen", reads="x xx", writes="y")
"""y = x / s from the backend's value type to float64: undoes the scale of `NARROW`."""
DOT_NARROWED = _kernel("dot_narrowed", reads="x y", writes="dot")
"""dot = x . y of x in float64 and y in the backend's value type."""
UNSCALE = _kernel("unscale", reads="xx", updates="xy")
"""xy = xy / s: the scale of `NARROW` is taken from one of the two vectors of a dot product. A scalar."""
UPDATE_P_NARROWED = _kernel("update_p_narrowed", reads="z rz rz_old pAp", updates="p")
"""`UPDATE_P` of z in the backend's value type and p in float64."""
TOTAL = _kernel("total", reads="parts", writes="total")
"""total[0] = the sum of the parts (one per chunk) by a fixed tree: groups of `FAN_IN` consecutive parts are added first
to last, then the groups' sums in groups, until one is left. The same bits on every holder of the parts."""
WAXPBY = _kernel("waxpby", reads="a x b y", writes="w")
"""w = a x + b y with floats a and b."""
COMBINE = _kernel("combine", reads="keep s c", updates="t")
"""t = keep t + s C with a float keep, for vectors side by side, the columns of s and t: arrays (columns, items).

C is float64 (columns of s, columns of t), on the host. Where keep is 0, t is not read, and may be some columns of s.
Columns of s whose coefficients are all zero count as zero, whatever they are."""
RESIDUALS = _kernel("residuals", reads="values x b sizes", updates="r", writes="squares")
"""r -= values b for each column, as of `COMBINE`; squares (4, columns): r . r, those of sizes times x, of x, and of b.

values: float64 (columns,) on the host. b: weights (items,), for b = weights x; None, for b = x; or a block like x."""
TIMES = _kernel("times", reads="d s", writes="t")
"""t = d s, item by item, for each column of s, with columns side by side as of `COMBINE`."""
LESS_MEANS = _kernel("less_means", reads="members totals sizes", updates="x")
"""x -= total / size of each place's group, times its weight; members: `GroupedPlaces`, and the others in float64."""
LESS_MEANS_GOING_ON = _kernel("less_means_going_on", reads="members totals sizes rz pAp rr limit ceiling", updates="x")
"""`LESS_MEANS` while limit < rr <= ceiling and unless broken down, as of `UPDATE_X_R`: what has ended stays."""
UPDATE_P = _kernel("update_p", reads="z rz rz_old pAp", updates="p")
"""Unless broken down: p = z + (rz/rz_old) p. pAp is that of the p before."""
UPDATE_X_R = _kernel("update_x_r", reads="p Ap rz pAp rr limit ceiling", updates="x r", writes="dot")
"""While limit < rr <= ceiling and unless broken down: alpha = rz/pAp, x += alpha p, r -= alpha Ap; always dot = r . r.

The guards freeze a solve that has ended on the device, so that iterations launched past its end change nothing:
neither past convergence nor past divergence, nor past a breakdown, where rz or pAp is not positive or not finite. For
then r, so z and rz, and p, so pAp, are in the next iteration what they were, and break down again.
"""

AXPBY = _kernel("axpby", reads="sign a x b", updates="y")
"""y = sign a x + b y with scalars a, b and a float sign, unless a or b is not finite: then y stays what it was."""
QUOTIENT = _kernel("quotient", reads="a b c d rr limit ceiling", writes="q")
"""q = (a/b) (c/d) of scalars while limit < rr <= ceiling, else NaN, for which `AXPBY` leaves everything as it is.

What follows from a NaN by further quotients is NaN, too: so an iteration that has ended, or broken down, stays so."""

DOT_PLUS = _kernel("dot_plus", reads="x y sign u v", writes="dot")
"""dot = x . y + sign u . v with a float sign: of complex vectors, kept as two real ones, a part of a product."""
COMPLEX_DOT = _kernel("complex_dot", reads="x xi sign y yi", writes="dot doti")
"""The `DOT_PLUS` x . y + sign xi . yi and x . yi - sign xi . y: both parts of xᴴy, or with the sign -1 of xᵀy.

x may be in float64."""
COMPLEX_AXPBY = _kernel("complex_axpby", reads="sign a ai x xi b bi", updates="y yi")
"""`AXPBY` of complex numbers, each in two parts: y + i yi = sign (a + i ai) (x + i xi) + (b + i bi) (y + i yi).

y may be in float64."""
COMPLEX_UPDATE_X_R = _kernel("complex_update_x_r", reads="a ai p pi Ap Api", updates="x xi r ri", writes="dot")
"""x += a p and r -= a Ap of complex numbers, unless a is not finite; always the `DOT_PLUS` dot = r . r + ri . ri."""
COMPLEX_STEP = _kernel("complex_step", reads="keep w wi r ri", updates="x xi")
"""x + i xi = keep (x + i xi) + (w + i wi) (r + i ri) item by item, with a float keep, 0 or 1: of 0 x is not read."""
COMPLEX_QUOTIENT = _kernel("complex_quotient", reads="a ai b bi c ci d di rr limit ceiling", writes="q qi")
"""`QUOTIENT` of complex numbers, each in two parts."""

ROTATION = _kernel(
    "rotation",
    reads="delta square rr limit ceiling flat",
    updates="beta phi c s c_old s_old size",
    writes="scale w1 w2 w3 tau keep move on normal",
)
"""A column of Lanczos' tridiagonal matrix and its QR factors, by Givens rotations (Paige & Saunders 1975).

delta is on the diagonal, beta beside it and √square, the new beta, below. With d1 = c delta - c_old s beta,
d2 = s delta + c_old c beta, d3 = s_old beta and rho = √(d1² + square), c and s of the new rotation are d1/rho and
√square/rho; scale = 1/√square, w1 = 1/rho, w2 = -d2/rho, w3 = -d3/rho, tau = c phi, keep = s², move = -tau/rho, on = 1;
phi becomes -s phi. size becomes √(delta² + square) where that is larger, and normal = √(d1² + c² square) / size, with
the c before: ‖A r‖ over ‖A‖ ‖r‖ of the r before, in the norms of M (Choi, Paige & Saunders 2011, section 5).

Unless limit < rr <= ceiling and square >= 0: then it writes NaNs and updates nothing. Where normal <= flat, r is least
already, and a step by 1/rho would be one of rounding: then it writes NaNs but for normal, and updates nothing but size.
"""

HALF_STEP = _kernel("half_step", reads="square other", writes="norm inverse back")
"""norm = √square, inverse = 1/norm, back = -norm/other: of a vector of Golub and Kahan's bidiagonalization that is kept
without being divided by its norm, what the next one on the other side takes (Golub & Kahan 1965)."""
BIDIAGONAL_ROTATIONS = _kernel(
    "bidiagonal_rotations",
    reads="alpha beta damp stop",
    updates="alpha_bar rho rho_bar c_bar s_bar zeta zeta_bar beta_dd beta_d rho_d tau theta d aa_next most least",
    writes="keep move turn rr ss aa cond",
)
"""A column of the bidiagonal matrix, its QR factors and those of their transpose, and the norms that follow: LSMR (Fong
& Saunders, SIAM J. Sci. Comput. 33, 2011, sections 2.3 to 3.4; with the names there, dots and tildes spelled out).

alpha and beta are the new ones. keep = -theta_bar rho / (rho_old rho_bar_old), move = zeta / (rho rho_bar) and
turn = -theta_new / rho are what h_bar, x and h take; rr estimates ‖r‖² with the damped part, ss is ‖Aᵀr - damp² x‖²,
aa and cond estimate ‖A‖² and the condition number. aa_next: of the next aa what is known; most, least: the largest and
the smallest rho_bar. Where stop is not zero, it writes NaNs and updates nothing.
"""
NORMAL_STEP = _kernel("normal_step", reads="ss qq pp damp stop", updates="aa", writes="alpha")
"""alpha = ss / (qq + damp² pp), the length of a step of conjugate gradients on AᵀA + damp² with q = A p. aa becomes
qq / pp where that is larger: ‖A‖² from below. Where stop is not zero, alpha is NaN and nothing is updated."""
SETTLE = _kernel("settle", reads="rr ss aa cond xx bb atol btol ctol", updates="stop")
"""stop becomes the reason why iterations for least squares end, in SciPy's numbers (`lsmr`), unless it is not zero:
1 ‖r‖ <= btol ‖b‖ + atol ‖A‖ ‖x‖, 2 ‖Aᵀr‖ <= atol ‖A‖ ‖r‖, 3 cond >= 1/ctol, 4 to 6 the same at what rounding leaves,
and 8 where a number is not finite (Fong & Saunders 2011, section 5; Paige & Saunders, ACM Trans. Math. Softw. 8, 1982).
rr, ss, aa, xx, bb are the squares of norms."""

JACOBI = _kernel("jacobi", reads="A r scale", writes="z")
"""z = scale D^-1 r with D the diagonal of A and a float scale."""
CHEBYSHEV = _kernel("chebyshev", reads="A r w keep gain", updates="d z")
"""d = keep d + gain D^-1 (r - w), z += d with floats keep and gain: a step of the Chebyshev iteration, w = A z."""
RESIDUAL = _kernel("residual", reads="A r x", writes="y")
"""y = r - A_local x."""
JACOBI_FIRST = _kernel("jacobi_first", reads="A scaled r", writes="x y")
"""x = D^-1 r, y = r - A_local x with D the diagonal of `scaled`: a sweep of Jacobi from zero, and what it leaves."""
JACOBI_SWEEP = _kernel("jacobi_sweep", reads="A scaled r x", writes="z")
"""z = x + D^-1 (r - A_local x), a sweep from x. What a halo adds to either is added behind it, with D in it."""
JACOBI_SWEEP_DOT = _kernel("jacobi_sweep_dot", reads="A scaled r x", writes="z dot")
"""`JACOBI_SWEEP`, and dot = r . z."""
JACOBI_STEP = _kernel("jacobi_step", reads="A r x", updates="z")
"""z = x + D^-1 (r - z) with D the diagonal of A: after z = A x a sweep of Jacobi, in formats that only multiply."""

OF_VECTORS: Final = frozenset(name for name, kernel in KERNELS.items() if not kernel.carried)
"""Names of the kernels that no argument brings."""
