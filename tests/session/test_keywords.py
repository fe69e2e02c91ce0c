"""Users see every argument, although its meaning stands in one place."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any, get_args

import pytest

import dsolver
from dsolver.krylov.methods import METHODS, MethodName
from dsolver.preconditioners.registry import NAMED, PreconditionerName
from dsolver.session.options import Options, Setup, SetupArguments, SolveArguments
from dsolver.session.signatures import GROUPS, spelled_out

OWN = {dsolver.solve: ["problem", "b", "x0"], dsolver.Solver: ["problem"], dsolver.Solver.solve: ["self", "b", "x0"]}
SHARED = {dsolver.solve: (Setup, Options), dsolver.Solver: (Setup,), dsolver.Solver.solve: (Options,)}


@pytest.mark.parametrize("thing", OWN, ids=lambda thing: thing.__qualname__)
def test_help_shows_all_arguments_with_their_defaults_and_meanings(thing: Any) -> None:
    shared = [field for described in SHARED[thing] for field in fields(described)]
    parameters = inspect.signature(thing).parameters
    assert list(parameters) == [*OWN[thing], *(field.name for field in shared)]
    assert all(parameters[field.name].default == field.default for field in shared)
    text = (inspect.getdoc(thing) or "").partition("Args:\n")[2]
    section = re.split(r"\n\n(?:Returns|Raises):", text)[0]
    titles = [line.removesuffix(":") for line in section.splitlines() if line and line[0] != " "]
    described = re.findall(r"^ {4}(\w+): ", section, re.MULTILINE)
    assert sorted(described) == sorted(name for name in parameters if name != "self")
    assert titles == ([title for title in GROUPS if {*GROUPS[title]} & {*parameters}] if len(shared) >= 10 else [])


@pytest.mark.parametrize(("typed", "described"), [(SetupArguments, Setup), (SolveArguments, Options)])
def test_what_a_type_checker_knows_is_what_there_is(typed: type, described: type) -> None:
    assert list(typed.__annotations__) == [field.name for field in fields(described)]


def test_every_option_has_its_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(field.name for described in (Setup, Options) for field in fields(described))


def test_names_that_type_checkers_know_are_those_that_there_are() -> None:
    assert set(get_args(MethodName)) == METHODS.keys()
    assert set(get_args(PreconditionerName)) == NAMED.keys() | {"hpcg"}


def test_an_argument_that_is_none_is_refused() -> None:
    problem: Any = dsolver.problems.poisson7((8, 8, 8))
    given: dict[str, Any] = {"tol": 1e-3}
    named: dict[str, Any] = {"preconditioner": "mg"}
    with pytest.raises(
        TypeError, match=r"^solve\(\) got an unexpected keyword argument 'tol': is rtol or atol meant\?"
    ):
        dsolver.solve(problem, None, **given)
    with pytest.raises(TypeError, match=r"^solve\(\) got .* is M meant\? it takes .*, M, M_from, precond_dtype,"):
        dsolver.solve(problem, None, **named)
    with pytest.raises(TypeError, match=r"^cg\(\) got .* 'tol': is rtol or atol meant\?"):
        dsolver.cg(problem, None, **given)
    for name, told in (
        ("pc_type", "is M meant"),
        ("accel", "is method meant"),
        ("iter_lim", "is maxiter meant"),
        ("nullspace", r"dsolver.matrix\(A, nullspace=...\) has it"),
    ):
        with pytest.raises(TypeError, match=rf"^solve\(\) got .* '{name}': {told}[?;] it takes"):
            dsolver.solve(problem, None, **dict[str, Any]({name: None}))
    with pytest.raises(TypeError, match=r"^lsmr\(\) got .* 'nullspace': it takes A, b, damp"):
        dsolver.lsmr(problem, None, **dict[str, Any]({"nullspace": None}))
    with pytest.raises(
        TypeError,
        match=r"^Solver\(\) got .* 'tol': it takes problem, client, engine, .*precond_dtype, dtype, method, restart$",
    ):
        dsolver.Solver(problem, **given)


def test_a_docstring_may_be_missing() -> None:
    """As it is under `python -OO`."""

    @spelled_out(Options)
    def plain(**arguments: Any) -> dict[str, Any]:
        return arguments

    assert plain.__doc__ is None
    assert list(inspect.signature(plain).parameters) == [field.name for field in fields(Options)]
