"""`dsolver.torch.solve`: derivatives against finite differences."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver import problems
from dsolver.errors import InputError
from dsolver.problems import Dirichlet, Neumann, Robin, diffusion
from dsolver.solver import Solver

torch: Any = pytest.importorskip("torch")

GRID = (2, 3, 2)
EXACT: dict[str, Any] = {"rtol": 1e-13, "device": "cpu"}


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    yield
    dsolver.torch.release()


def tensor(*shape: int, low: float = -1.0, high: float = 1.0, wanted: bool = True) -> Any:
    values = np.random.default_rng(sum(shape)).uniform(low, high, shape)
    return torch.tensor(values, requires_grad=wanted)


def check(function: Any, *inputs: Any, fast: bool = True, twice: bool = True) -> None:
    """Compare derivatives of first and second order with finite differences."""
    assert torch.autograd.gradcheck(function, inputs, eps=1e-6, atol=1e-6, fast_mode=fast)
    assert not twice or torch.autograd.gradgradcheck(function, inputs, eps=1e-6, atol=1e-5, fast_mode=True)


# -- diffusion ---------------------------------------------------------------------------------------------------------

CONDITIONS = {
    "dirichlet": {"x-": Dirichlet(1.5), "x+": "dirichlet", "z": Dirichlet(lambda x, y, z: x + y + z)},
    "mixed": {"x-": Robin(2.0, 0.7), "x+": Robin(np.full((3, 2), 0.3)), "y-": Neumann(0.4), "z": "dirichlet"},
    "periodic": {"x": "periodic", "y": "periodic", "z": "dirichlet"},
}


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_diffusion_in_source_kappa_and_sigma(conditions: str) -> None:
    problem = diffusion(GRID, spacing=[0.5, np.array([0.4, 0.7, 0.5]), 1.3], bc=CONDITIONS[conditions])

    def solve(f: Any, kappa: Any, sigma: Any) -> Any:
        return dsolver.torch.solve(problem, f, kappa=kappa, sigma=sigma, **EXACT)

    kappa, sigma = tensor(*GRID, low=0.5, high=3.0), tensor(*GRID, low=0.1)
    check(solve, tensor(*GRID), kappa, sigma, fast=conditions != "mixed")


def test_a_plane_and_a_line() -> None:
    plane, line = diffusion((3, 2), bc={"x-": Dirichlet(lambda x, y: x + y), "y": Neumann(0.3)}), diffusion((4,))
    kappa = tensor(3, 2, low=0.5, high=2.0)
    solve = dsolver.torch.solve
    check(lambda f, k: solve(plane, f, kappa=k, **EXACT), tensor(3, 2, 2), kappa, twice=False)
    check(lambda f, k: solve(plane, f, kappa=[k, 0.5], sigma=k, **EXACT), tensor(3, 2), kappa, twice=False)
    check(lambda f, k: solve(line, f, kappa=k, **EXACT), tensor(4), tensor(4, low=0.5), twice=False)
    expected = dsolver.solve(diffusion((3, 2), kappa.detach().numpy()), np.ones((3, 2)), rtol=1e-13).x
    found = solve(diffusion((3, 2)), torch.ones((3, 2), dtype=torch.float64), kappa=kappa, **EXACT)
    assert np.allclose(found.detach().numpy(), expected, rtol=1e-12)
    with pytest.raises(InputError, match=r"b has shape \(2, 3\), but the grid is \(3, 2\)"):
        solve(plane, tensor(2, 3))


def test_kappa_of_each_axis_as_a_number_and_as_arrays_beside_masked_cells_and_for_several_sources() -> None:
    mask = np.zeros(GRID, dtype=bool)
    mask[0, 1] = True
    problem = diffusion(
        GRID, bc={"x-": Dirichlet(2.0), "x+": "dirichlet", "y": "dirichlet", "z": "dirichlet"}, mask=mask
    )

    def solve(f: Any, *kappa: Any) -> Any:
        return dsolver.torch.solve(problem, f, kappa=kappa, **EXACT)

    f = tensor(*GRID, 2)
    kappa = tensor(low=0.5), tensor(*GRID, low=0.5), tensor(*GRID, low=0.5)
    check(solve, f, *kappa)
    x = solve(f, *kappa)
    (x * tensor(*GRID, 2, wanted=False)).sum().backward()
    hole = torch.tensor(mask)
    assert not x[hole].any()
    assert not f.grad[hole].any()
    assert not kappa[1].grad[hole].any()
    assert kappa[1].grad[~hole].all()


def test_where_a_constant_is_open_the_gradient_of_means_is_zero() -> None:
    problem = diffusion(GRID, bc="neumann", spacing=(1.0, np.array([0.5, 1.0, 2.0]), 1.0))

    def solve(f: Any, kappa: Any) -> Any:
        return dsolver.torch.solve(problem, f - f.mean(), kappa=kappa, **EXACT)

    f, kappa = tensor(*GRID), tensor(*GRID, low=0.5)
    with pytest.warns(dsolver.InconsistentWarning):  # of f, whose mean by volume is not zero
        check(solve, f, kappa)
    volumes = torch.tensor(np.broadcast_to([[0.5], [1.0], [2.0]], GRID).copy())
    with pytest.warns(dsolver.InconsistentWarning):
        x = solve(f, kappa)
    (volumes * x).sum().backward()
    assert abs(f.grad).max() < 1e-12
    assert abs(kappa.grad).max() < 1e-12


def test_without_kappa_the_problem_s_own_counts_at_faces() -> None:
    kappa = np.random.default_rng(0).uniform(0.5, 2.0, GRID)
    problem = diffusion(GRID, kappa, bc=Dirichlet(3.0))
    f = tensor(*GRID)
    x = dsolver.torch.solve(problem, f, **EXACT)
    np.testing.assert_allclose(x.detach().numpy(), dsolver.solve(problem, f.detach().numpy(), **EXACT).x, rtol=1e-10)
    check(lambda f: dsolver.torch.solve(problem, f, **EXACT), f)


def test_a_stencil_in_its_right_hand_side() -> None:
    problem = problems.poisson7((4, 4, 2))
    check(lambda b: dsolver.torch.solve(problem, b, **EXACT), tensor(4, 4, 2))


# -- matrices ----------------------------------------------------------------------------------------------------------


def some_matrix(n: int, *, symmetric: bool) -> Any:
    rng = np.random.default_rng(n)
    a = sp.random_array((n, n), density=0.4, rng=rng) + 3.0 * sp.eye_array(n)
    return ((a + a.T) if symmetric else a).tocsr()


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
@pytest.mark.parametrize("layout", ["csr", "coo"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_a_sparse_tensor_in_its_entries_for_several_right_hand_sides(layout: str, symmetric: bool) -> None:
    a = some_matrix(6, symmetric=symmetric)
    ends, columns = torch.tensor(a.indptr), torch.tensor(a.indices)
    rows = torch.tensor(a.tocoo().row)

    def solve(values: Any, b: Any) -> Any:
        if layout == "csr":
            made = torch.sparse_csr_tensor(ends, columns, values, a.shape, check_invariants=True)
        else:
            made = torch.sparse_coo_tensor(torch.stack([rows, columns]), values, a.shape, check_invariants=True)
        return dsolver.torch.solve(made, b, **EXACT)

    values = torch.tensor(a.data, requires_grad=True)
    for b in (tensor(6), tensor(6, 3)):
        check(solve, values, b, twice=False)  # sparse tensors of PyTorch pass on first derivatives alone
        check(lambda b: solve(values.detach(), b), b)
    b = tensor(6)
    np.testing.assert_allclose(a @ solve(values, b).detach().numpy(), b.detach().numpy(), rtol=1e-10)


@pytest.mark.parametrize("case", ["identity rows", "rounding"])
def test_gradients_are_of_the_transpose_where_a_symmetric_matrix_is_solved_in_place_of_a(case: str) -> None:
    rng = np.random.default_rng(0)
    a = 2.5 * np.eye(12) - np.eye(12, k=1) - np.eye(12, k=-1)
    if case == "rounding":
        a *= 1.0 + 1e-7 * rng.standard_normal((12, 12))
    else:
        a[[0, -1]] = np.eye(12)[[0, -1]]
    b, g = rng.standard_normal((2, 12))
    adjoint, x = np.linalg.solve(a.T, g), np.linalg.solve(a, b)
    right, matrix = torch.tensor(b, requires_grad=True), torch.tensor(a).to_sparse().requires_grad_()
    dsolver.torch.solve(matrix, right, **EXACT).backward(torch.tensor(g))
    np.testing.assert_allclose(right.grad.numpy(), adjoint, rtol=1e-10)
    places, values = matrix.grad.coalesce().indices().numpy(), matrix.grad.coalesce().values().numpy()
    np.testing.assert_allclose(values, -adjoint[places[0]] * x[places[1]], rtol=1e-10)
    with pytest.raises(InputError, match=r"A is not symmetric \(a few of its entries are not mirrored\)"):
        dsolver.torch.solve(dsolver.matrix(sp.csr_array(a)), right)


def test_second_derivatives_in_entries_are_refused_as_zeros_would_come_of_them() -> None:
    places, b = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 1]]), tensor(2, wanted=False)
    values = torch.tensor([4.0, -1.0, -1.0, 4.0], dtype=torch.float64)

    def total(values: Any) -> Any:
        a = torch.sparse_coo_tensor(places, values, (2, 2), check_invariants=False)
        return dsolver.torch.solve(a, b, **EXACT).sum()

    once = torch.func.grad(total)(values)
    torch.testing.assert_close(once, torch.autograd.functional.jacobian(total, values))
    for twice in (torch.func.jacrev(torch.func.grad(total)), partial(torch.autograd.functional.hessian, total)):
        with pytest.raises(InputError, match="second derivatives in the entries of A are not to be had"):
            twice(values)


def test_second_derivatives_in_b_alone_and_then_in_entries_are_those_of_dense_solves() -> None:
    """Derivatives that were refused, too, where A needs a gradient of its own."""
    dense, b = torch.tensor([[4.0, -1.0], [-0.5, 3.0]], dtype=torch.float64), tensor(2)

    def slopes(solve: Any, a: Any) -> Any:
        (g,) = torch.autograd.grad((solve(a, b) ** 3).sum(), b, create_graph=True)
        return torch.autograd.grad((g**2).sum(), [a, b])

    entries, sides = slopes(partial(dsolver.torch.solve, **EXACT), dense.to_sparse().requires_grad_())
    expected = slopes(torch.linalg.solve, dense.clone().requires_grad_())
    torch.testing.assert_close((entries.to_dense(), sides), expected)


def test_matrices_and_coefficients_of_bfloat16() -> None:
    """NumPy has no such numbers, and right-hand sides of them were taken alone."""
    a = torch.tensor([[4.0, -1.0], [-0.5, 3.0]], dtype=torch.bfloat16).to_sparse().requires_grad_()
    x = dsolver.torch.solve(a, tensor(2), **EXACT)
    x.sum().backward()
    assert a.grad.dtype == torch.bfloat16
    kappa = torch.ones(GRID, dtype=torch.bfloat16)
    assert torch.equal(*(dsolver.torch.solve(diffusion(GRID), torch.ones(GRID), kappa=k) for k in (kappa, 1.0)))


def test_a_matrix_of_scipy_in_its_right_hand_side() -> None:
    a = some_matrix(6, symmetric=False)
    check(lambda b: dsolver.torch.solve(a, b, **EXACT), tensor(6))


# -- what is set up, and what is refused -------------------------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Systems that were set up, in their order."""
    found: list[str] = []
    opening, updating = Solver.__init__, Solver.update

    def watched_opening(self: Any, *args: Any, **arguments: Any) -> None:
        found.append("open")
        opening(self, *args, **arguments)

    def watched_updating(self: Any, *args: Any, **arguments: Any) -> None:
        found.append("update")
        updating(self, *args, **arguments)

    monkeypatch.setattr(Solver, "__init__", watched_opening)
    monkeypatch.setattr(Solver, "update", watched_updating)
    return found


def test_a_gradient_has_the_set_up_of_its_solve_and_a_descent_changes_it_in_place(opened: list[str]) -> None:
    problem = diffusion(GRID)
    kappa = tensor(*GRID, low=0.5)
    for expected in ("open", "update"):
        x = dsolver.torch.solve(problem, torch.ones(GRID, dtype=torch.float64), kappa=kappa, **EXACT)
        x.sum().backward()
        assert opened.pop() == expected
        assert not opened
        with torch.no_grad():
            kappa -= 0.01 * kappa.grad  # in place: what was set up must not follow
    again = dsolver.torch.solve(problem, torch.ones(GRID, dtype=torch.float64), kappa=kappa, **EXACT)
    own = dsolver.solve(diffusion(GRID, kappa.detach().numpy()), np.ones(GRID), **EXACT)
    np.testing.assert_allclose(again.detach().numpy(), own.x, rtol=1e-10)


def test_an_older_gradient_is_that_of_its_own_matrix(opened: list[str]) -> None:
    problem, f = diffusion(GRID), torch.ones(GRID, dtype=torch.float64)
    first, second = (torch.full(GRID, value, dtype=torch.float64, requires_grad=True) for value in (1.0, 2.0))
    x = dsolver.torch.solve(problem, f, kappa=first, **EXACT)
    dsolver.torch.solve(problem, f, kappa=second, **EXACT)
    x.sum().backward()  # x is proportional to 1/κ
    assert float((first.grad * first).detach().sum()) == pytest.approx(-float(x.detach().sum()), rel=1e-10)
    assert opened == ["open", "update", "update"]


def test_a_problem_s_arrays_that_are_overwritten_are_seen() -> None:
    kappa = np.ones(GRID)
    problem, f = diffusion(GRID, kappa), torch.ones(GRID, dtype=torch.float64)
    x = dsolver.torch.solve(problem, f, **EXACT)
    kappa *= 2.0
    np.testing.assert_allclose(dsolver.torch.solve(problem, f, **EXACT).numpy(), x.numpy() / 2.0, rtol=1e-10)


def test_single_precision_goes_in_and_out() -> None:
    kappa = torch.full(GRID, 2.0, requires_grad=True)
    x = dsolver.torch.solve(diffusion(GRID), torch.ones(GRID), kappa=kappa, **EXACT)
    x.sum().backward()
    assert (x.dtype, kappa.grad.dtype) == (torch.float32, torch.float32)
    assert float((kappa.grad * kappa).detach().sum()) == pytest.approx(-float(x.detach().sum()), rel=1e-5)


def test_an_integer_b_is_refused_in_whose_dtype_x_would_be_lost() -> None:
    for dtype in (torch.int64, torch.bool):
        with pytest.raises(dsolver.InputError, match=rf"b has dtype {dtype}.* use b.to\(torch.float64\)"):
            dsolver.torch.solve(diffusion(GRID), torch.ones(GRID, dtype=dtype), **EXACT)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # PyTorch looks at it itself
def test_a_compiled_function_solves_and_differentiates_as_it_is() -> None:
    problem, f = diffusion(GRID, bc={"x-": Dirichlet(1.0)}), tensor(*GRID, wanted=False)

    def energy(kappa: Any) -> Any:
        return dsolver.torch.solve(problem, f, kappa=kappa.exp(), **EXACT).square().sum()

    compiled, kappa = torch.compile(energy, backend="eager"), tensor(*GRID)
    (wanted,) = torch.autograd.grad(energy(kappa), kappa)
    (found,) = torch.autograd.grad(compiled(kappa), kappa)
    assert torch.allclose(found, wanted, rtol=1e-12)
    a, b = torch.tensor([[4.0, -1.0], [-0.5, 3.0]], dtype=torch.float64).to_sparse(), tensor(2)
    (found,) = torch.autograd.grad(torch.compile(dsolver.torch.solve, backend="eager")(a, b).sum(), b)
    torch.testing.assert_close(found, torch.linalg.solve(a.to_dense().T, torch.ones(2, dtype=torch.float64)))
    wrong: dict[str, Any] = {"tol": 1e-3}
    with pytest.raises(TypeError, match="is rtol meant"):
        torch.compile(lambda b: dsolver.torch.solve(problem, b, **wrong), backend="eager")(f)


def test_functional_derivatives_are_those_of_backward() -> None:
    problem = diffusion(GRID, bc={"x-": Dirichlet(1.0), "x+": "dirichlet"})
    f, kappa = tensor(*GRID), tensor(*GRID, low=0.5, high=2.0)

    def energy(f: Any, kappa: Any) -> Any:
        return (dsolver.torch.solve(problem, f, kappa=kappa, **EXACT) ** 2).sum()

    energy(f, kappa).backward()
    found = torch.func.grad(energy, argnums=(0, 1))(f.detach(), kappa.detach())
    for mine, expected in zip(found, (f.grad, kappa.grad), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-9, atol=1e-12)
    several = torch.stack([f.detach(), 2.0 * f.detach()])
    each = torch.stack([torch.func.grad(energy)(values, kappa.detach()) for values in several])
    mapped = torch.func.vmap(torch.func.grad(energy), in_dims=(0, None))(several, kappa.detach())
    torch.testing.assert_close(mapped, each, rtol=1e-9, atol=1e-12)


def test_functional_second_derivatives_are_those_of_two_backwards() -> None:
    problem, f = diffusion(GRID, spacing=[0.5, np.array([0.4, 0.7, 0.5]), 1.3]), tensor(*GRID, wanted=False)
    kappa = tensor(*GRID, low=0.5, wanted=False).abs()

    def energy(kappa: Any) -> Any:
        return (dsolver.torch.solve(problem, f, kappa=kappa, **EXACT) ** 2).sum()

    expected = torch.autograd.functional.hessian(energy, kappa)
    torch.testing.assert_close(torch.func.jacrev(torch.func.grad(energy))(kappa), expected, rtol=1e-8, atol=1e-10)


def test_a_gradient_has_the_same_bits_however_many_solves_came_before() -> None:
    problem, f = diffusion((8, 8, 8)), tensor(8, 8, 8)
    first = torch.autograd.grad((dsolver.torch.solve(problem, f) ** 2).sum(), f)[0]
    for _ in range(40):
        last = torch.autograd.grad((dsolver.torch.solve(problem, f) ** 2).sum(), f)[0]
    assert torch.equal(first, last)


def test_right_hand_sides_that_are_mapped_over_are_solved_together(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[Any] = []
    called = Solver.solve

    def solve(self: Solver, b: Any, **more: Any) -> Any:
        shapes.append(b.shape)
        return called(self, b, **more)

    monkeypatch.setattr(Solver, "solve", solve)
    cells, f = diffusion(GRID), tensor(3, *GRID, wanted=False)
    matrix, b = torch.eye(4, dtype=torch.float64).to_sparse() * 2.0, tensor(3, 4, wanted=False)
    x = torch.func.vmap(lambda f: dsolver.torch.solve(cells, f, **EXACT))(f)
    y = torch.func.vmap(lambda b: dsolver.torch.solve(matrix, b, **EXACT))(b)
    assert shapes == [(*GRID, 3), (4, 3)]
    torch.testing.assert_close(x, torch.stack([dsolver.torch.solve(cells, each, **EXACT) for each in f]))
    torch.testing.assert_close(y, 0.5 * b)
    kappa = tensor(3, *GRID, low=0.5, wanted=False)
    z = torch.func.vmap(lambda k: dsolver.torch.solve(cells, f[0], kappa=k, **EXACT))(kappa)
    torch.testing.assert_close(z, torch.stack([dsolver.torch.solve(cells, f[0], kappa=k, **EXACT) for k in kappa]))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # by PyTorch's own jvp
def test_forward_derivatives_are_refused() -> None:
    f = tensor(*GRID, wanted=False)
    with pytest.raises(InputError, match=r"no forward derivatives: take torch.func.vjp"):
        torch.func.jvp(lambda f: dsolver.torch.solve(diffusion(GRID), f, **EXACT), (f,), (f,))


def test_tensors_are_coefficients_and_values_at_faces() -> None:
    kappa, f = tensor(*GRID, low=0.5, wanted=False), np.ones(GRID)
    arguments: dict[str, Any] = {"bc": {"x-": Dirichlet(kappa[0])}, "mask": kappa > 1.9, "spacing": kappa[0, 0, 0]}
    numpy = {"bc": {"x-": Dirichlet(kappa[0].numpy())}, "mask": kappa.numpy() > 1.9, "spacing": float(kappa[0, 0, 0])}
    made = (diffusion(GRID, kappa, kappa[0, 0, 0], **arguments), diffusion(GRID, kappa.numpy(), **numpy))
    with dsolver.Solver(made[1], device="cpu") as solver:
        solver.update(sigma=kappa[0, 0, 0])
        assert np.array_equal(solver.solve(f).x, dsolver.solve(made[0], f, device="cpu").x)


@pytest.mark.parametrize("name", ["kappa", "value at face x-", "spacing along x", "b", "b of a function"])
def test_tensors_that_need_gradients_are_refused_where_there_are_none(name: str) -> None:
    wanted = tensor(*GRID, low=0.5)
    make: dict[str, Any] = {
        "kappa": lambda: diffusion(GRID, wanted),
        "value at face x-": lambda: diffusion(GRID, bc={"x-": Dirichlet(wanted[0])}),
        "spacing along x": lambda: diffusion(GRID, spacing=wanted[0, 0, 0]),
        "b": lambda: dsolver.solve(diffusion(GRID), wanted),
        "b of a function": lambda: dsolver.solve(lambda u: u, wanted),
    }
    said = name.partition(" of a ")[0]
    with pytest.raises(
        InputError, match=rf"{said} is a Tensor that needs gradients: dsolver.torch.solve .* .detach\(\)"
    ):
        make[name]()


def test_what_does_not_converge_is_no_gradient() -> None:
    problem = diffusion((8, 8, 8))
    f = tensor(8, 8, 8)
    with pytest.raises(dsolver.NotConvergedError, match=r"the solve ended as max_iterations after 1 .* Raise maxiter"):
        dsolver.torch.solve(problem, f, maxiter=1, device="cpu")
    one = torch.zeros((8, 8, 8), dtype=torch.float64, requires_grad=True)
    x = dsolver.torch.solve(problem, one, maxiter=1, device="cpu")  # of zeros
    with pytest.raises(dsolver.NotConvergedError, match="the gradient of the solve ended as max_iterations"):
        (x * f.detach()).sum().backward()


def refused() -> dict[str, tuple[Any, str]]:
    eye = torch.eye(4, dtype=torch.float64)
    b, f = torch.ones(4, dtype=torch.float64), torch.ones(GRID, dtype=torch.float64)
    unsymmetric = dsolver.matrix(some_matrix(6, symmetric=False))
    cells, points = diffusion(GRID), problems.poisson7(GRID)
    return {
        "a dense matrix": ((eye, b, {}), r"one of shape \(4, 4\) with layout torch.strided: A.to_sparse_csr"),
        "no tensor": ((cells, np.ones(GRID), {}), "b must be a tensor, not a ndarray: torch.as_tensor"),
        "kappa of a stencil": ((points, f, {"kappa": f}), "poisson7.* has no kappa"),
        "sigma of a matrix": ((eye.to_sparse(), b, {"sigma": b}), "a sparse tensor has no sigma"),
        "two kappa": ((cells, f, {"kappa": (f, f)}), "kappa has 2 entries"),
        "a negative kappa": ((cells, f, {"kappa": -f}), "kappa must be positive"),
        "an unsymmetric problem": ((unsymmetric, torch.ones(6), {}), "its gradient needs the transpose: pass"),
        "kappa that is no number": ((cells, f, {"kappa": "x"}), "kappa must be a number or an array .*, not 'x'"),
        "kappa of another shape": ((cells, f, {"kappa": f[:1]}), r"kappa has shape \(1, 3, 2\), but the grid is"),
        "sparse kappa": (
            (cells, f, {"kappa": f.to_sparse()}),
            r"a tensor with layout torch.sparse_coo: .*to_dense\(\)",
        ),
        "a sparse b": ((cells, f.to_sparse(), {}), r"b is a tensor with layout torch.sparse_coo: .*to_dense\(\)"),
        "b of another shape": ((cells, f[0], {}), r"b has shape \(3, 2\), but A takes one of shape \(2, 3, 2\)"),
        "b of other rows": ((eye.to_sparse(), b[:3], {}), r"b has shape \(3,\), but A takes one of shape \(4,\)"),
        "b without memory": ((cells, f.to("meta"), {}), r"b is a tensor on device meta, .*: move it to a CPU"),
        "kappa without memory": ((cells, f, {"kappa": f.to("meta")}), "kappa must be a number or an array"),
        "entries elsewhere": ((eye.to_sparse().to("meta"), b, {}), r"A is on meta, and b on cpu: move one"),
        "rows that are dense": ((eye.to_sparse(1), b, {}), r"A must be a sparse tensor of shape \(n, n\)"),
        "no problem": (("A.mtx", b, {}), "dsolver.read_matrix"),
    }


@pytest.mark.parametrize("case", refused())
def test_what_cannot_be_right_is_refused(case: str) -> None:
    (problem, b, arguments), message = refused()[case]
    with pytest.raises(dsolver.InputError, match=message):
        dsolver.torch.solve(problem, b, device="cpu", **arguments)


def test_an_unknown_argument_is_refused_with_those_that_there_are() -> None:
    arguments: dict[str, Any] = {"atol": 1e-3}
    with pytest.raises(TypeError, match=r"^solve\(\) got .* 'atol': is rtol meant\? it takes .*, kappa, sigma, rtol"):
        dsolver.torch.solve(diffusion(GRID), torch.ones(GRID), **arguments)
