"""Solves that PyTorch differentiates: `dsolver.torch.solve`."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Unpack, cast

import torch

from dsolver.autodiff.cells import cells_of
from dsolver.autodiff.solves import SETUPS, DifferentiatedSolve
from dsolver.autodiff.systems import MatrixEntries, ParametricSystem, check_shape, check_unused, entries_of, in_space
from dsolver.errors import InputError
from dsolver.foreign_arrays import opened
from dsolver.matrices.matrix import is_matrix
from dsolver.problems import Problem
from dsolver.session.options import Setup, SetupArguments, SolveArguments
from dsolver.session.signatures import spelled_out

__all__ = ["release", "solve"]


@spelled_out(Setup)
def solve(
    problem: Problem | Any,
    b: torch.Tensor,
    *,
    kappa: Any = None,
    sigma: Any = None,
    rtol: float = 1e-8,
    maxiter: int | None = None,
    **arguments: Unpack[SetupArguments],
) -> torch.Tensor:
    """x of A x = b, which PyTorch differentiates in b, κ, σ and the entries of A.

    A gradient takes one more solve, with the transpose of A. Where A is symmetric the set-up is the same. The newest
    set-up is kept (`release` frees it): the next solve with the same structure changes its matrix in place, and one
    with the same values uses it as it is. On a cluster (``client=``) every solve sets up anew. Derivatives may be
    differentiated again, but for those in entries, which are refused: PyTorch's sparse tensors pass on no second ones.
    `torch.func.grad`, `vjp`, `jacrev` and `vmap` apply; right-hand sides that are mapped over for one A are solved
    together. `torch.compile` leaves the solve as it is and compiles what stands around it; with ``fullgraph=True`` it
    refuses.

    Where A is singular (see `dsolver.problems.diffusion`), x has mean zero, and so has its gradient with respect to b.
    The gradient with respect to entries holds for changes that leave A's null space as it is.

    Args:
        problem: the system: a problem of `dsolver.problems`; a sparse tensor, COO or CSR, of shape (n, n); or a matrix
            of SciPy, whose entries are constants.
        b: right-hand side, of the grid's shape or (n,), or several as for `dsolver.Solver.solve`: (nx, ny, nz, k) or
            (n, k). For diffusion it is the source f.
        kappa: κ of a diffusion problem in place of its own: a tensor of the grid's shape, or with one number; or a
            sequence of three such, along x, y and z. In a plane all of them have two axes.
        sigma: σ in place of its own: a tensor of the grid's shape, or with one number.
        rtol: finished when ‖b - A x‖₂ <= rtol ‖b‖₂; gradients, too. Their error is about that of x.
        maxiter: iterations at most; 1000 by default.

    Returns:
        The solution, a tensor like b on b's device; complex where A or b is. Whatever b's dtype is, it was computed in
        float64 or complex128, unless ``dtype`` is "float32".

    Raises:
        InputError: an argument cannot be right.
        NotConvergedError: the tolerance was not reached, by the solve or by that of a gradient.
    """
    options: SolveArguments = {"rtol": rtol, "maxiter": maxiter}
    if torch.compiler.is_compiling() or "torch._dynamo" in sys.modules:  # beside a sparse tensor it says that it is not
        from dsolver.autodiff.uncompiled import called

        return cast(torch.Tensor, called(_differentiable, problem, b, kappa, sigma, options, arguments))
    return _differentiable(problem, b, kappa, sigma, options, arguments)


def _differentiable(
    problem: Problem | Any, b: torch.Tensor, kappa: Any, sigma: Any, options: SolveArguments, arguments: SetupArguments
) -> torch.Tensor:
    """The tensor that `solve` returns."""
    if not isinstance(b, torch.Tensor):
        raise InputError(f"b must be a tensor, not a {type(b).__name__}: torch.as_tensor(b) makes one")
    if not (b.dtype.is_floating_point or b.dtype.is_complex):
        raise InputError(f"b has dtype {b.dtype}, which x would be rounded to: use b.to(torch.float64)")
    _check_dense("b", b)
    if isinstance(problem, torch.Tensor) and problem.device != b.device:
        raise InputError(f"A is on {problem.device}, and b on {b.device}: move one of them with .to(device)")
    asarray, shape = partial(_dense, b.device), b.shape
    problem, b, kappa, sigma = in_space(problem, b, kappa, sigma)
    system, parameters = _system_of(problem, kappa, sigma, asarray)
    check_shape(b, system)
    right = system.right_hand_side(parameters, b.to(torch.promote_types(b.dtype, torch.float64)))
    if system.complex or any(values.dtype.is_complex for values in parameters):
        right = right.to(torch.complex128)
    how = DifferentiatedSolve(system=system, arguments=arguments, options=options)
    x: torch.Tensor = _TorchSolve.apply(how, False, False, right, *parameters)
    complex_x = x.dtype.is_complex and not b.dtype.is_complex
    return x.reshape(shape).to(torch.promote_types(b.dtype, torch.complex64) if complex_x else b.dtype)


def release() -> None:
    """Give back what the newest set-up holds. To release twice does nothing."""
    SETUPS.release()


def _system_of(problem: Any, kappa: Any, sigma: Any, asarray: Any) -> tuple[ParametricSystem, list[torch.Tensor]]:
    if isinstance(problem, torch.Tensor):
        check_unused("a sparse tensor", kappa, sigma)
        return MatrixEntries(_square(problem)), _entries(problem)
    if is_matrix(problem):
        check_unused("a sparse matrix", kappa, sigma)
        system, values = entries_of(problem)
        return system, [asarray(value) for value in values]
    return cells_of(problem, kappa, sigma, torch, asarray)


def _dense(device: torch.device, values: Any) -> torch.Tensor:
    """A coefficient as a tensor on a device; a constant, of NumPy or Python, as one that outlives `torch.func`."""
    if isinstance(values, torch.Tensor):
        made = values.to(device)
    else:
        with torch._C._DisableFuncTorch():  # else it is wrapped for the transform around it, and dies with that
            made = torch.as_tensor(values, device=device)
    _check_dense("a coefficient", made)
    return made


def _check_dense(name: str, values: torch.Tensor) -> None:
    if values.layout is not torch.strided:
        raise InputError(f"{name} is a tensor with layout {values.layout}: values.to_dense() makes a dense one")
    if values.is_meta:
        raise InputError(f"{name} is a tensor on device meta, which holds no values: move it to a CPU or an NVIDIA GPU")


def _square(A: torch.Tensor) -> int:
    known = A.layout in (torch.sparse_coo, torch.sparse_csr) and A.sparse_dim() == A.ndim == 2
    if not known or A.shape[0] != A.shape[1]:
        raise InputError(
            f"A must be a sparse tensor of shape (n, n), COO or CSR, not one of shape {tuple(A.shape)} with layout "
            f"{A.layout}: A.to_sparse_csr() makes one"
        )
    return int(A.shape[0])


def _entries(A: torch.Tensor) -> list[torch.Tensor]:
    """Values, rows and columns of a sparse tensor's entries."""
    if A.layout is torch.sparse_coo:
        A = A.coalesce()
        return [A.values(), *A.indices()]
    ends = A.crow_indices()
    rows = torch.repeat_interleave(torch.arange(A.shape[0], device=A.device), ends.diff())
    return [A.values(), rows, A.col_indices()]


class _TorchSolve(torch.autograd.Function):
    """x = A⁻¹ r, or A⁻ᵀ r, as a function of r and of A's parameters."""

    @staticmethod
    def forward(
        how: DifferentiatedSolve, transposed: bool, gradient: bool, r: torch.Tensor, *parameters: torch.Tensor
    ) -> torch.Tensor:
        array, back = opened("b", r.detach().resolve_conj())
        found = (values.detach().resolve_conj() for values in parameters)
        known = (values.float() if values.dtype is torch.bfloat16 else values for values in found)  # NumPy has no such
        values = [opened("a parameter", each)[0] for each in known]
        return back(how(values, array, transposed=transposed, gradient=gradient))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.how, ctx.transposed = inputs[:2]
        ctx.save_for_backward(output, *inputs[4:])

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        how: DifferentiatedSolve,
        transposed: bool,
        gradient: bool,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, int]:
        """Right-hand sides of one system together, all else one after the other."""
        first, *others = dims = in_dims[3:]
        r, *parameters = tensors
        if first is not None and not any(dim is not None for dim in others) and r.ndim == len(how.system.shape) + 1:
            return _TorchSolve.apply(how, transposed, gradient, r.movedim(first, -1), *parameters), -1
        each = [
            [values if dim is None else values.select(dim, number) for values, dim in zip(tensors, dims, strict=True)]
            for number in range(info.batch_size)
        ]
        return torch.stack([_TorchSolve.apply(how, transposed, gradient, *values) for values in each]), 0

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:  # noqa: ARG004
        raise InputError("dsolver.torch.solve has no forward derivatives: take torch.func.vjp, or dsolver.jax.solve")

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[Any, ...]:
        x, *parameters = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[4:])
        if isinstance(ctx.how.system, MatrixEntries) and wanted[0] and _differentiated_again(ctx, parameters[0]):
            raise InputError(
                "second derivatives in the entries of A are not to be had: PyTorch's sparse tensors make them zero; "
                "take dsolver.jax.solve, or κ and σ of dsolver.problems.diffusion"
            )
        adjoint = _TorchSolve.apply(ctx.how, not ctx.transposed, True, g.conj(), *parameters)  # of reals g itself
        left, right = (x, adjoint) if ctx.transposed else (adjoint, x)
        slopes = _slopes(ctx.how.system, parameters, wanted, left, right) if any(wanted) else [None] * len(wanted)
        return None, None, None, adjoint.conj() if ctx.needs_input_grad[3] else None, *slopes


def _differentiated_again(ctx: Any, values: torch.Tensor) -> bool:
    """Whether derivatives with respect to values are asked for, with a graph of PyTorch, or two of `torch.func`."""
    functorch = torch._C._functorch
    if not functorch.is_gradtrackingtensor(values):
        _, (node, _), *_ = ctx.next_functions  # behind that of b: what the derivatives go to
        return torch.is_grad_enabled() and values.requires_grad and bool(torch._C._will_engine_execute_node(node))
    return bool(functorch.is_gradtrackingtensor(functorch.get_unwrapped(values)))


def _slopes(
    system: ParametricSystem, given: list[torch.Tensor], wanted: list[bool], left: torch.Tensor, right: torch.Tensor
) -> list[torch.Tensor | None]:
    """−∂(leftᵀ A right) with respect to each parameter that is wanted."""
    places = tuple(place for place, needed in enumerate(wanted) if needed)

    def form(*values: torch.Tensor) -> torch.Tensor:
        energy: torch.Tensor = system.form(values, left, right)
        return -energy.real

    found = iter(torch.func.grad(form, argnums=places)(*given))
    return [next(found) if needed else None for needed in wanted]
