"""Measurements of a device, kept on disk between processes.

One JSON file for each model of device, driver and CUDA version, in the user's folder for caches: `XDG_CACHE_HOME`, or
what the system has in its place, or the folder that `DSOLVER_CACHE` names; `DSOLVER_CACHE=off` keeps nothing. A file
that cannot be read is a warning and no more: everything in it can be measured again. A folder that cannot be written to
is none.
"""

import hashlib
import json
import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

VARIABLE = "DSOLVER_CACHE"
OFF = "off"
FORMAT = 1

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model of device, by name, driver and compiler (toolkit), for which measurements hold: all cards of it."""

    name: str
    driver: str
    toolkit: str


def folder(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path | None:
    """The folder of measurements; None where they are not kept: switched off, or a user without a home."""
    given = os.environ if environment is None else environment
    chosen = given.get(VARIABLE, "")
    if chosen:
        return None if chosen.lower() == OFF else Path(chosen)
    try:
        return _of_user(given, platform) / "dsolver" / "devices"
    except RuntimeError:  # no home
        return None


def read(model: Model) -> dict[str, Any]:
    """All findings about a model, by name; empty where there are none."""
    path = _file(model)
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        return _ignored(path, str(error))
    try:
        kept = json.loads(text)
        if kept["format"] != FORMAT or kept["model"] != asdict(model):
            return _ignored(path, "it was written for something else")
        findings: dict[str, Any] = dict(kept["findings"])
    except (ValueError, KeyError, TypeError) as error:
        return _ignored(path, f"it is damaged ({type(error).__name__}: {error})")
    return findings


def keep(model: Model, name: str, finding: Any) -> Path | None:
    """Add a finding, which JSON can hold, or replace one; the file, or None where nothing can be kept.

    The file is replaced as a whole, so a process that reads it meanwhile sees all of the old or all of the new one. Of
    two that write at once, one wins; what the other measured will be measured again.
    """
    path = _file(model)
    if path is None:
        return None
    kept = {"format": FORMAT, "model": asdict(model), "findings": {**read(model), name: finding}}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(kept, file, indent=1)
            Path(temporary).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink()
            raise
    except OSError as error:  # a home that is read-only, or full
        logger.info("findings about %s are not kept: %s", model.name, error)
        return None
    return path


def _of_user(given: Mapping[str, str], platform: str) -> Path:
    if given.get("XDG_CACHE_HOME"):
        return Path(given["XDG_CACHE_HOME"])
    if platform == "win32" and given.get("LOCALAPPDATA"):
        return Path(given["LOCALAPPDATA"])
    return Path.home() / ("Library/Caches" if platform == "darwin" else ".cache")


def _file(model: Model) -> Path | None:
    where = folder()
    if where is None:
        return None
    name = "-".join("".join(c if c.isalnum() else " " for c in model.name).split())
    digest = hashlib.sha256(json.dumps(asdict(model), sort_keys=True).encode()).hexdigest()
    return where / f"{name}-{digest[:12]}.json"


def _ignored(path: Path, why: str) -> dict[str, Any]:
    logger.warning("%s is not used: %s; remove it, or set %s to another folder or to %s", path, why, VARIABLE, OFF)
    return {}
