"""Random sequences of calls on one `Solver`: each answer is that of a new one for the same system."""

from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse

import dsolver
from dsolver import InputError, Solver, problems

STEPS = 14
REUSES = (None, None, "auto", "preconditioner", "interpolation")
GRID = (6, 5, 4)
WALL = problems.Dirichlet(1.0)


class LeftError(Exception):
    """Error of a callback."""


class Machine:
    """A Solver with the system that it should have.

    Attributes:
        made: the arguments of a new problem.
        anew: whether M was made for this very matrix, so that bits are those of a new Solver.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.options: Any = {"device": "cpu", "client": False, "M": str(self.rng.choice(["auto", "amg", "jacobi"]))}
        self.anew, self.solved = True, list[dsolver.Solution]()
        self.made = self.change()
        self.solver = Solver(self.problem, **self.options)

    @property
    def problem(self) -> Any:
        """The system."""
        raise NotImplementedError

    def change(self) -> Any:
        """Arguments for another system."""
        raise NotImplementedError

    def solve(self) -> None:
        b = self.rng.standard_normal(self.solver.problem.shape)
        x0 = self.rng.standard_normal(b.shape) if self.rng.random() < 0.4 else None
        options: Any = {} if self.rng.random() < 0.7 else {"maxiter": int(self.rng.integers(4))}
        found = self.solver.solve(b, x0=x0, **options)
        fresh = dsolver.solve(self.problem, b, x0=x0, **options, **self.options)
        if self.anew:
            assert found.x.tobytes() == fresh.x.tobytes()
            assert (found.status, found.residuals, found.notes) == (fresh.status, fresh.residuals, fresh.notes)
        elif fresh.converged and found.converged:
            np.testing.assert_allclose(found.x, fresh.x, atol=1e-4 * np.abs(fresh.x).max())
        self.solved.append(found)

    def update(self) -> None:
        made, reuse = self.change(), REUSES[self.rng.integers(len(REUSES))]
        before, self.made = self.made, made
        try:
            self.take(made, reuse)
        except InputError:
            with pytest.raises(InputError):
                Solver(self.problem, **self.options)
            self.made = before
        else:
            self.anew = reuse is None

    def take(self, made: Any, reuse: Any) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        def fail(_: dsolver.State) -> None:
            raise LeftError

        with suppress(LeftError):  # of a solve that ends without an iteration there is none
            self.solver.solve(1e3 * self.rng.standard_normal(self.solver.problem.shape), callback=fail)

    def refuse(self) -> None:
        with pytest.raises(InputError):
            self.solver.solve(np.full(self.solver.problem.shape, np.nan))

    def look_back(self) -> None:
        for each in self.solved[-2:]:
            size = max(each.true_residual, 1e-9 * each.b_norm)
            assert np.linalg.norm(each.residual) == pytest.approx(each.true_residual, rel=1e-3, abs=1e-3 * size)


class MatrixMachine(Machine):
    """Matrices of 60 rows of all kinds."""

    @property
    def problem(self) -> Any:
        return self.made

    def change(self) -> Any:
        rough: Any = scipy.sparse.random_array((60, 60), density=0.05, rng=self.rng)
        one = scipy.sparse.eye_array(60)
        both = abs(rough) + abs(rough).T
        kinds = [
            rough @ rough.T + 0.3 * one,
            rough + 3.0 * one,
            rough + rough.T + scipy.sparse.diags_array(self.rng.choice([-3.0, 3.0], 60)),
            rough + rough.T + 4.0 * scipy.sparse.eye_array(60, k=1) + 4.0 * scipy.sparse.eye_array(60, k=-1),
            scipy.sparse.csgraph.laplacian(both.tocsr()) + 0.05 * one,
        ]
        return kinds[self.rng.integers(len(kinds))].tocsr()

    def take(self, made: Any, reuse: Any) -> None:
        self.solver.update(made, reuse=reuse)


class GridMachine(Machine):
    """Diffusion, with cells that are left out."""

    mask: npt.NDArray[np.bool_] = np.random.default_rng(0).random(GRID) < 0.15

    @property
    def problem(self) -> Any:
        return problems.diffusion(GRID, self.made["kappa"], self.made["sigma"], bc={"x-": WALL}, mask=self.mask)

    def change(self) -> Any:
        kappa = [2.0, 0.1 + self.rng.random(GRID), 10.0 ** (4.0 * self.rng.random(GRID))][self.rng.integers(3)]
        return {"kappa": kappa, "sigma": [0.0, 1.0, 99.0 * self.rng.random(GRID)][self.rng.integers(3)]}

    def take(self, made: Any, reuse: Any) -> None:
        self.solver.update(**made, reuse=reuse)


@pytest.mark.filterwarnings("ignore::dsolver.InconsistentWarning")
@pytest.mark.parametrize("kind", [MatrixMachine, GridMachine])
@pytest.mark.parametrize("seed", range(4))
def test_each_answer_is_that_of_a_new_solver(kind: type[Machine], seed: int) -> None:
    machine = kind(seed)
    steps = [machine.solve, machine.solve, machine.update, machine.leave, machine.refuse, machine.look_back]
    with machine.solver:
        for _ in range(STEPS):
            steps[machine.rng.integers(len(steps))]()
