"""`dsolver` commands, run in this process."""

from __future__ import annotations

import math
import threading

import pytest
from click.testing import CliRunner, Result

from dsolver.cli import main, progress


def call(*arguments: str, silence: float = math.inf) -> Result:
    """Output and exit status of a command; what it raised beside its exit is raised here.

    Args:
        arguments: of the command.
        silence: seconds after which it says what it waits for, which it does at any place on a busy machine.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SILENCE", "STARTED"):
            patch.setattr(progress, name, min(silence, threading.TIMEOUT_MAX))
        result = CliRunner().invoke(main, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def good(*arguments: str) -> str:
    """The output of a command that must succeed."""
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str, status: int = 2) -> str:
    """The one line on stderr of a command that must be refused."""
    result = call(*arguments)
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr
