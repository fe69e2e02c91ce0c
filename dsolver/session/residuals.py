"""Residuals of solutions as arrays, computed when they are asked for."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any, final

from dsolver.errors import InputError
from dsolver.session.session import Session


@final
class Residual:
    """b - A x of a solve, by its session while that is open, else by one that is set up for it without M.

    Args:
        session: of the solve; it is not kept alive.
        b: the right-hand side as it was given.
    """

    def __init__(self, session: Session, b: Any) -> None:
        self._session, self._b = weakref.ref(session), b
        self._problem, self._setup = session.given, session.setup

    def __call__(self, x: Any) -> Any:
        """The residual of x, of b's kind of array."""
        session = self._session()
        if session is not None and session.given is self._problem and not session.closed:
            return session.residual(self._b, x)
        with Session(self._problem, replace(self._setup, M=None, method=None, precond_dtype="auto")) as anew:
            return anew.residual(self._b, x)

    def __reduce__(self) -> Any:
        raise InputError("the residual of a solution is neither copied nor pickled: devices hold its matrix")
