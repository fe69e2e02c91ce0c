"""Diffusion with coefficients, conditions and active cells from options and files, or from a case file (TOML)."""

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import numpy.typing as npt

from dsolver import problems
from dsolver.cli import files, labeled
from dsolver.cli.options import Several, with_options
from dsolver.errors import InputError, float_of
from dsolver.problems import Condition, Dirichlet, Neumann, Periodic, Problem, Robin

SUFFIX: Final = ".toml"


Value = float | Path  # a number, or the file of an array

KINDS: Final[Mapping[str, Callable[..., Condition]]] = {
    "dirichlet": Dirichlet,
    "neumann": Neumann,
    "robin": Robin,
    "periodic": Periodic,
}
MOST: Final = {"dirichlet": 1, "neumann": 1, "robin": 2, "periodic": 0}  # most values of a condition
HOW: Final = "use dirichlet:VALUE, neumann:FLUX, robin:ALPHA:VALUE or periodic, each VALUE a number or a file"


def value_of(text: Any, folder: Path) -> Value:
    """A number, or the name of a file in a folder."""
    try:
        return float_of(text)
    except (TypeError, ValueError):
        return folder / str(text)


def values_of(given: Any, folder: Path) -> tuple[Value, ...]:
    """One value, or a list of one for each axis."""
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    return tuple(value_of(text, folder) for text in several)


def opened(value: Value, *, small: bool = False) -> Any:
    """A number, or a file's array: NumPy's, xarray's, or Dask's of .zarr, whose blocks workers read; or InputError."""
    if isinstance(value, float):
        return value
    if not (value.suffix or labeled.is_labeled(value) or value.exists()):
        raise InputError(f"{value} is neither a number nor a file")
    if labeled.is_labeled(value) and not small:
        return labeled.read(value)
    array = files.opened(value)
    if isinstance(array, np.ndarray) or small:
        return np.asarray(array[...]) if small else array
    from dask import array as dask_array

    return dask_array.from_array(array, chunks=array.chunks)


def condition_of(face: str, text: Any, folder: Path) -> Condition:
    """The condition that a text such as "robin:2:0.5" names. InputError: it names none, or an unreadable file."""
    kind, *given = str(text).split(":")
    if kind.lower() not in KINDS or len(given) > MOST[kind.lower()] or (kind.lower() == "robin" and not given):
        raise InputError(f"bc {face}={text}: {HOW}")
    return KINDS[kind.lower()](*(opened(value_of(number, folder), small=True) for number in given))


case_options = with_options(
    click.option(
        "--kappa",
        cls=Several,
        metavar="VALUE ...",
        help="Diffusion −∇·(κ∇u) + σu = f in place of a stencil: κ, a number or a file (.npy, .zarr, .nc or .h5) "
        "of the grid's shape; one for all axes or one for each.  Example: --kappa k.npy",
    ),
    click.option("--sigma", metavar="VALUE", help="Its σ, a number or a file. Default: 0."),
    click.option(
        "--spacing",
        cls=Several,
        metavar="VALUE ...",
        help="Sizes of its cells: a number, or one (or a file) for each axis. Default: what coordinates of .nc and .h5 "
        "files tell, else 1.",
    ),
    click.option(
        "--bc",
        cls=Several,
        metavar="FACE=CONDITION ...",
        help="Its boundary conditions: x-, x+, x (both) and so on = dirichlet:VALUE, neumann:FLUX, robin:ALPHA:VALUE "
        "or periodic, each a number or a file; nothing flows through faces that are not named. Default: u = 0 at "
        "all faces.  "
        "Example: --bc x-=dirichlet:1 x+=robin:10:200",
    ),
    click.option("--active", metavar="FILE", help="Its cells, true in an array of the grid's shape. Default: all."),
    click.option("--mask", metavar="FILE", help="The same in the other sense: true at the cells that are left out."),
    click.option("--source", metavar="VALUE", help="Its source f in a unit of volume: a number or a file. Default: 0."),
)
"""Options that describe diffusion."""


@dataclass(frozen=True, kw_only=True)
class DiffusionCase:
    """Diffusion as its options describe it. A case file has the same names, with `bc` as a table.

    `sigma`, `source`: numbers or files. `active`, `mask`: files.
    """

    grid: tuple[int, ...] = ()  # cells along each axis; empty where arrays tell
    kappa: tuple[Value, ...] = ()  # for all axes, or for each
    sigma: Value | None = None
    spacing: tuple[Value, ...] = ()  # of all axes, or of each
    bc: Mapping[str, Condition] = field(default_factory=dict)  # conditions by face or axis
    active: Path | None = None
    mask: Path | None = None
    source: Value | None = None

    @property
    def asked(self) -> bool:
        """Whether anything but the grid is given, so that diffusion is meant."""
        return replace(self, grid=()) != DiffusionCase()

    def over(self, other: "DiffusionCase") -> "DiffusionCase":
        """This case, with what it leaves open from another one. Conditions are taken face by face."""
        names = [each.name for each in fields(self) if each.name != "bc"]
        mine = {name: getattr(self, name) for name in names if getattr(self, name) not in (None, ())}
        if {"active", "mask"} & {*mine}:  # one of them takes the place of the other
            other = replace(other, active=None, mask=None)
        # A face here takes the place of its axis there, and an axis that of its faces.
        kept = {face: condition for face, condition in other.bc.items() if not any(face[0] == at[0] for at in self.bc)}
        return replace(other, **mine, bc={**kept, **self.bc})

    def problem(self, chunks: tuple[int, ...] | None, name: str) -> Problem:
        """The problem. InputError: a file cannot be read, nothing tells the grid, or what is given does not fit it."""
        kappa, sigma = [opened(value) for value in self.kappa], 0.0 if self.sigma is None else opened(self.sigma)
        active, mask = (None if file is None else opened(file) for file in (self.active, self.mask))
        source = opened(self.source) if isinstance(self.source, Path) else None
        if isinstance(self.source, float) and not math.isfinite(self.source):
            raise InputError(f"source must be a finite number, not {self.source}")
        given = zip(
            (*self.kappa, self.sigma, self.active, self.mask, self.source),
            (*kappa, sigma, active, mask, source),
            strict=True,
        )
        shapes = {name: tuple(values.shape) for name, values in given if hasattr(values, "shape")}
        if not (self.grid or shapes):
            raise InputError("give --grid NX NY NZ, or a file with an array of the grid's shape")
        first, shape = next(iter(shapes.items()), (None, ()))
        if not (self.grid or 1 <= len(shape) <= 3):
            raise InputError(f"{first} has shape {shape}: give --grid, or an array with 1 to 3 axes, of the grid's")
        spacing = [opened(value, small=True) for value in self.spacing]
        if not spacing and source is not None and hasattr(source, "coords") and len(source.coords):
            spacing = [source]
        return problems.diffusion(
            self.grid or shape,
            1.0 if not kappa else kappa[0] if len(kappa) == 1 else kappa,
            sigma,
            spacing=None if not spacing else spacing[0] if len(spacing) == 1 else spacing,
            bc=dict(self.bc) or None,
            mask=mask,
            active=active,
            chunks=chunks,
            name=name,
        )

    def right(self, problem: Problem) -> npt.NDArray[np.float64]:
        """f where it is a number, shape ``problem.shape``. InputError: it is zero, and so are values at faces."""
        assert not isinstance(self.source, Path)
        if not self.source and not any(condition.feeds for condition in self.bc.values()):
            raise InputError("nothing drives the solution, which is zero: give --source, or a --bc with a value")
        return np.full(problem.shape, self.source or 0.0)


def case_text(path: Path) -> dict[str, Any]:
    """Names and values of a case file, as TOML has them. InputError: it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"cannot read {path}: it is no TOML ({error})") from error


def read_case(path: Path) -> DiffusionCase:
    """A case file. InputError: it cannot be read, has an unknown name, or a grid or bc of another kind."""
    given = case_text(path)
    known = [each.name for each in fields(DiffusionCase)]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InputError(f"{path} has {unknown[0]!r}: a case has {', '.join(known)}")
    if not isinstance(given.get("bc", {}), Mapping):
        raise InputError(f"{path}: bc is a table of faces and conditions, such as [bc] with the line x = 'neumann'")
    if not isinstance(given.get("grid", []), list):
        raise InputError(f"{path}: grid is a list, such as grid = [64, 64, 64], not {given['grid']}")
    return case_from(given, path.parent)


def case_from(given: Mapping[str, Any], folder: Path) -> DiffusionCase:
    """A case from texts and numbers by name; names of files are those in the folder."""
    conditions = {face: condition_of(face, text, folder) for face, text in given.get("bc", {}).items()}
    return DiffusionCase(
        grid=tuple(given.get("grid", ())),
        kappa=values_of(given["kappa"], folder) if "kappa" in given else (),
        sigma=value_of(given["sigma"], folder) if "sigma" in given else None,
        spacing=values_of(given["spacing"], folder) if "spacing" in given else (),
        bc=conditions,
        active=folder / str(given["active"]) if "active" in given else None,
        mask=folder / str(given["mask"]) if "mask" in given else None,
        source=value_of(given["source"], folder) if "source" in given else None,
    )
