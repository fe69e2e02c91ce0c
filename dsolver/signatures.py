"""Keyword arguments that several functions share, spelled out where `help`, editors and the reference look for them."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import fields
from difflib import get_close_matches
from types import SimpleNamespace
from typing import Any, Final, TypeVar, get_type_hints

T = TypeVar("T")
DESCRIBED: Final = "Attributes:\n"
ARGUMENTS: Final = "Args:\n"


def spelled_out(*by: type) -> Callable[[T], T]:
    """Show the fields of dataclasses as keyword arguments of a function, or of a class, that takes `**arguments`.

    Its signature gets their names, types and defaults, and the section Args of its docstring their Attributes. An
    argument that is none of them is refused with a `TypeError` in its name, which says which may have been meant.

    Args:
        by: the dataclasses, which say what the arguments mean.
    """

    def spell(thing: T) -> T:
        if thing.__doc__ is not None:  # as it is under `python -OO`
            thing.__doc__ = _docstring(thing.__doc__, by)
        spelled: Any = thing
        if isinstance(thing, type):
            spelled.__init__ = _checked(vars(thing)["__init__"], thing.__name__, by)
            return thing
        whole: T = _checked(spelled, spelled.__name__, by)
        return whole

    return spell


def _checked(called: Any, name: str, by: tuple[type, ...]) -> Any:
    """A function with its whole signature, that refuses keyword arguments which are not in it."""
    signature = _signature(called, by)

    @functools.wraps(called)
    def checked(*args: Any, **arguments: Any) -> Any:
        for given in arguments:
            if given not in signature.parameters:
                raise TypeError(f"{name}() got an unexpected keyword argument {given!r}: {_meant(given, signature)}")
        return called(*args, **arguments)

    checked.__dict__["__signature__"] = signature
    return checked


def _meant(given: str, signature: inspect.Signature) -> str:
    """What a wrong name may stand for."""
    names = [name for name in signature.parameters if name != "self"]
    near = get_close_matches(given, names)
    question = f"is {' or '.join(near)} meant? " if near else ""
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
    """A docstring with the attributes of classes after the arguments that it describes."""
    before, _, rest = inspect.cleandoc(text).partition(ARGUMENTS)
    own, _, after = rest.partition("\n\n")
    shared = [_attributes(described) for described in by]
    return f"{before}{ARGUMENTS}" + "\n".join([own, *shared]) + f"\n\n{after}"


def _attributes(described: type) -> str:
    text = inspect.getdoc(described) or ""
    return text.partition(DESCRIBED)[2].partition("\n\n")[0]
