"""Signatures that spell out the options of users, with their docstrings."""

import functools
import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast, get_type_hints

from dsolver.errors import InputError, in_a_line, meant

T = TypeVar("T")
DESCRIBED: Final = "Attributes:\n"
ARGUMENTS: Final = "Args:\n"
RAISED: Final = "Raises:\n"

GROUPS: Final = {
    "Where it runs": ("client", "engine", "device", "kernels"),
    "How it is solved": ("method", "restart", "M", "M_from", "order", "precond_dtype", "dtype"),
    "When it ends": ("rtol", "atol", "maxiter"),
    "Watched and saved": ("callback", "progress", "spans", "checkpoint", "resume"),
}
"""Sections of a docstring, by which a reader finds one of many options."""
GROUPED: Final = 10  # options that are grouped, at least

ELSEWHERE: Final = {
    "M": "preconditioner precond pc_type pl pr",
    "b": "rhs",
    "x0": "guess",
    "method": "accel ksp_type solver",
    "rtol": "tolerance",
    "maxiter": "iter_lim",
    "callback": "monitor",
    "progress": "verbose show disp",
}
"""Names that arguments have in other packages and in the command."""
OF_MATRIX: Final = ("nullspace", "near_nullspace", "block_size", "symmetric", "grid", "partition", "formats", "chunks")
"""Arguments of `dsolver.matrix`, which tell of A."""


def spelled_out(*by: type) -> Callable[[T], T]:
    """Show the fields of dataclasses as keyword arguments of a function, or of a class, that takes `**arguments`.

    Its signature gets their names, types and defaults, the section Args of its docstring their Attributes. Where it
    has no section Raises, it gets theirs. An argument that is none of them is refused with a `TypeError` in its name,
    which says which may have been meant.

    `by`: the dataclasses, which say what the arguments mean.
    """

    def spell(thing: T) -> T:
        if thing.__doc__ is not None:  # as it is under `python -OO`
            thing.__doc__ = _docstring(thing.__doc__, by)
        spelled: Any = thing
        if isinstance(thing, type):
            spelled.__init__ = _checked(vars(thing)["__init__"], thing.__name__, by)
            return thing
        return _checked(spelled, spelled.__name__, by)

    return spell


def refusing(**arguments: str) -> Callable[[T], T]:
    """Refuse keyword arguments that other functions take, by an `InputError` that says what to do in their place."""

    def decorate(called: T) -> T:
        function: Any = called

        @functools.wraps(function)
        def checked(*args: Any, **given: Any) -> Any:
            for name, instead in arguments.items():
                if name in given:
                    raise InputError(f"{function.__name__}() takes no {name}=: {instead}")
            return function(*args, **given)

        made: Any = checked
        return cast(T, made)

    return decorate


def _checked(called: Any, name: str, by: tuple[type, ...]) -> Any:
    """A function with its whole signature, that refuses keyword arguments which are not in it."""
    signature = _signature(called, by)

    @functools.wraps(called)
    def checked(*args: Any, **arguments: Any) -> Any:
        for given in arguments:
            if given not in signature.parameters:
                meant = _meant(given, signature)
                raise TypeError(f"{name}() got an unexpected keyword argument {in_a_line(given)}: {meant}")
        return called(*args, **arguments)

    checked.__dict__["__signature__"] = signature
    return checked


def _meant(given: str, signature: inspect.Signature) -> str:
    """Guess which argument a wrong name stands for."""
    names = [name for name in signature.parameters if name != "self"]
    of_matrix = given in OF_MATRIX and "M" in names  # least squares take none of its problems
    question = f"dsolver.matrix(A, {given}=...) has it; " if of_matrix else meant(given, names, ELSEWHERE)
    return f"{question}it takes {', '.join(names)}"


def _signature(called: Callable[..., Any], by: tuple[type, ...]) -> inspect.Signature:
    plain = inspect.signature(called)
    own = [parameter for parameter in plain.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    shared = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=_type(field.type, described)
        )
        for described in by
        for field in fields(described)
    ]
    return plain.replace(parameters=[*own, *shared])


def _type(annotation: Any, described: type) -> Any:
    """The type that an annotation names, for those who read it elsewhere; as it is where that is for checkers alone."""
    named = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return get_type_hints(named, vars(sys.modules[described.__module__]))["it"]
    except NameError:
        return annotation


def _docstring(text: str, by: tuple[type, ...]) -> str:
    """A docstring with the attributes of classes after its own arguments, and their errors if it names none."""
    before, _, rest = inspect.cleandoc(text).partition(ARGUMENTS)
    own, _, after = rest.partition("\n\n")
    shared = _grouped("\n".join(_section(described, DESCRIBED) for described in by))
    errors = [] if RAISED in after else [RAISED + section for each in by if (section := _section(each, RAISED))]
    return f"{before}{ARGUMENTS}" + "\n".join([own, *shared]) + "\n\n" + "\n\n".join([after, *errors])


def _grouped(section: str) -> list[str]:
    """Lines on many options by `GROUPS`; those on few as they are."""
    by_name = {entry.partition(":")[0].strip(): entry for entry in re.split(r"\n(?= {4}\S)", section)}
    if len(by_name) < GROUPED:
        return [section]
    groups = {title: [by_name.pop(name) for name in names if name in by_name] for title, names in GROUPS.items()}
    return [*by_name.values(), *(f"\n{title}:\n" + "\n".join(lines) for title, lines in groups.items() if lines)]


def _section(described: type, title: str) -> str:
    """Lines of a section of a class's docstring; empty where it has none."""
    text = inspect.getdoc(described) or ""
    return text.partition(title)[2].partition("\n\n")[0]
