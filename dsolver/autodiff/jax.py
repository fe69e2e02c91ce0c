"""Solves that JAX differentiates: `dsolver.jax.solve`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse

from dsolver.autodiff import systems
from dsolver.autodiff.cells import cells_of
from dsolver.autodiff.solves import SETUPS, DifferentiatedSolve
from dsolver.errors import InputError
from dsolver.matrices.matrix import is_matrix
from dsolver.problems import Problem
from dsolver.session.options import Setup, SetupArguments
from dsolver.session.signatures import spelled_out

__all__ = ["release", "solve"]


@spelled_out(Setup)
def solve(
    problem: Problem | Any,
    b: jax.Array,
    *,
    kappa: Any = None,
    sigma: Any = None,
    rtol: float = 1e-8,
    maxiter: int | None = None,
    **arguments: Unpack[SetupArguments],
) -> jax.Array:
    """x of A x = b, which JAX differentiates in b, κ, σ and the entries of A.

    `jax.grad`, `jax.jvp`, `jax.jit` and `jax.vmap` apply, in any order. JAX calls this process for each solve with
    arrays on the host. Without `jax.jit` it compiles each call anew, for a tenth of a second, and keeps a few MB of it.
    A derivative takes one more solve; set-ups are kept as by `dsolver.torch.solve`, which tells about singular systems,
    too.

    Args:
        problem: the system: a problem of `dsolver.problems`; a sparse matrix (n, n) of `jax.experimental.sparse`, BCOO
            or BCSR; or a matrix of SciPy, whose entries are constants.
        b: right-hand side, of the grid's shape or (n,), or several as for `dsolver.Solver.solve`: (nx, ny, nz, k) or
            (n, k). For diffusion it is the source f.
        kappa: κ of a diffusion problem in place of its own: an array of the grid's shape, or a number; or a sequence of
            three such, along x, y and z. In a plane all of them have two axes.
        sigma: σ in place of its own: an array of the grid's shape, or a number.
        rtol: finished when ‖b - A x‖₂ <= rtol ‖b‖₂; derivatives, too. Their error is about that of x.
        maxiter: iterations at most; 1000 by default.

    Returns:
        The solution, of b's dtype, or complex where A is: float64 where JAX was told so, by
        ``jax.config.update("jax_enable_x64", True)``.

    Raises:
        InputError: an argument cannot be right.
        NotConvergedError: the tolerance was not reached. JAX raises these as errors of its own, with the same message,
            where a value made the solve fail.
    """
    b = systems.array_of("b", b, jnp.asarray)
    if not jnp.issubdtype(b.dtype, jnp.inexact):
        raise InputError(f"b has dtype {b.dtype}: use b.astype(float)")
    shape = b.shape
    problem, b, kappa, sigma = systems.in_space(problem, b, kappa, sigma)
    system, parameters = _system_of(problem, kappa, sigma)
    systems.check_shape(b, system)
    how = DifferentiatedSolve(system=system, arguments=arguments, options={"rtol": rtol, "maxiter": maxiter})
    complex_too = system.complex or any(jnp.iscomplexobj(values) for values in parameters)
    dtype = jnp.promote_types(b.dtype, jnp.complex64) if complex_too else b.dtype
    right = system.right_hand_side(parameters, b).astype(dtype)

    def product(x: jax.Array) -> jax.Array:
        # Only its derivative in the parameters is used: terms without any may be missing, see `ParametricSystem.form`.
        gradient: Callable[..., jax.Array] = jax.grad(
            lambda left: system.form(parameters, left, x), holomorphic=jnp.iscomplexobj(x)
        )
        return gradient(jnp.zeros_like(x))

    x: jax.Array = jax.lax.custom_linear_solve(
        product, right, _called(how, parameters, transposed=False), _called(how, parameters, transposed=True)
    )
    return x.reshape(shape)


def release() -> None:
    """Give back what the newest set-up holds. To release twice does nothing."""
    SETUPS.release()


def _system_of(problem: Any, kappa: Any, sigma: Any) -> tuple[systems.ParametricSystem, list[Any]]:
    if isinstance(problem, sparse.BCOO | sparse.BCSR):
        systems.check_unused("a sparse matrix", kappa, sigma)
        places = problem.to_bcoo() if isinstance(problem, sparse.BCSR) else problem
        if places.ndim != 2 or places.n_dense or places.n_batch or places.shape[0] != places.shape[1]:
            raise InputError(f"A must be a sparse matrix of shape (n, n) without dense or batch axes, not {problem}")
        n, (rows, columns) = places.shape[0], places.indices.T
        inside = (rows < n) & (columns < n)  # JAX pads entries with places beyond; nothing depends on those
        return systems.MatrixEntries(n), [jnp.where(inside, places.data, 0.0), rows, columns]
    if is_matrix(problem):
        systems.check_unused("a sparse matrix", kappa, sigma)
        system, values = systems.entries_of(problem)
        return system, [jnp.asarray(value) for value in values]
    return cells_of(problem, kappa, sigma, jnp, jnp.asarray)


def _called(how: DifferentiatedSolve, parameters: list[Any], *, transposed: bool) -> Callable[..., jax.Array]:
    """A solve as `jax.lax.custom_linear_solve` calls it, which runs in this process outside of what JAX compiles."""

    def found(r: Any, *values: Any) -> Any:
        arrays = [np.asarray(value) for value in values]
        return how(arrays, np.asarray(r), transposed=transposed, gradient=transposed).astype(r.dtype)

    def solved(_: Any, r: jax.Array) -> jax.Array:
        shape = jax.ShapeDtypeStruct(r.shape, r.dtype)
        values = map(jax.lax.stop_gradient, parameters)
        return jax.pure_callback(found, shape, r, *values, vmap_method="sequential")

    return solved
