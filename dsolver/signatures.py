"""Keyword arguments that several functions share, spelled out where `help`, editors and the reference look for them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, Final, TypeVar, get_type_hints

T = TypeVar("T")
DESCRIBED: Final = "Attributes:\n"
ARGUMENTS: Final = "Args:\n"


def spelled_out(*by: type) -> Callable[[T], T]:
    """Show the fields of dataclasses as keyword arguments of a function, or of a class, that takes `**arguments`.

    Its signature gets their names, types and defaults, and the section Args of its docstring their Attributes.

    Args:
        by: the dataclasses, which say what the arguments mean.
    """

    def spell(thing: T) -> T:
        called: Any = vars(thing)["__init__"] if isinstance(thing, type) else thing
        called.__signature__ = _signature(called, by)
        if thing.__doc__ is not None:  # as it is under `python -OO`
            thing.__doc__ = _docstring(thing.__doc__, by)
        return thing

    return spell


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
