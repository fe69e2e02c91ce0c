"""Memory that a change of a system lacks."""

from __future__ import annotations

from typing import Any

from dsolver.cost.room import check_memory
from dsolver.errors import DeviceMemoryError
from dsolver.session.session import Session


def shortage(session: Session, **changes: Any) -> str:
    """Numbers of the memory that `Session.precondition` with these changes lacks; "" if it has room."""
    try:
        plan = session.system.plan.changed(cuda=session.system.cuda, **changes)
        check_memory(plan.spec, session.runtime, session.spec)
    except DeviceMemoryError as error:
        return str(error)
    return ""
