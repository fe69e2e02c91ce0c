"""Weak and strong scaling on paper: seconds of an iteration on more and more GPUs, and what stops them.

An iteration is the work of the largest chunk, from the bytes that it moves; exchanges and sums by `dsolver.cost.links`;
and its part of the client's calls. The product with A hides its exchange behind the rows that need none, as it does on
GPUs; every other exchange counts in full.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final

from dsolver.cost import traffic
from dsolver.cost.links import Fabric
from dsolver.cost.memory import part_of
from dsolver.cost.seconds import Seconds, call_seconds
from dsolver.cost.setup import of_setup
from dsolver.distributed.forecast import F64
from dsolver.errors import InputError
from dsolver.grid.box import Triple, three
from dsolver.grid.cut import chunks_for
from dsolver.program.spec import SolveSpec

LEVEL: Final = 36e-6
"""Seconds that each level of a cycle takes beside its bytes: launches, and kernels too short to fill a GPU."""
SUMS: Final = 3  # sums of an iteration of conjugate gradients
STRIDE: Final = 0.5  # seconds of iterations that are worth a call
KINDS: Final = ("weak", "strong")


@dataclass(frozen=True, kw_only=True)
class Point:
    """An iteration on a number of GPUs, and the set-up before.

    Attributes:
        seconds: of an iteration.
        setup: of set-up: `sums` are numbers asked of all GPUs, `control` calls and lists of ranks.
        efficiency: the work of one GPU alone over that of this many, each counted by its seconds; 1 at best.
    """

    gpus: int
    grid: Triple
    seconds: Seconds
    setup: Seconds
    efficiency: float

    @cached_property
    def stopped_by(self) -> str:
        """The part that takes most of the time beside a chunk's own work; empty for one GPU."""
        return self.seconds.most if self.gpus > 1 else ""


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Curves of an iteration's time: weak, with as many points on each GPU as at the end of the strong one."""

    weak: tuple[Point, ...]
    strong: tuple[Point, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: lists of objects, seconds by what takes them."""
        return {kind: [_as_dict(point) for point in getattr(self, kind)] for kind in KINDS}

    def __str__(self) -> str:
        return "\n".join(line for kind in KINDS for line in _table(kind, getattr(self, kind)))


def of_spec(spec: SolveSpec, workers: int, fabric: Fabric, bandwidth: float) -> Scaling:
    """The curves up to a number of GPUs with this bandwidth each. InputError: a matrix has no larger likeness."""
    if not spec.problem.lattice:
        raise InputError("curves of scaling are for grids: a matrix cannot be made larger or smaller")
    local = three("chunk", map(max, spec.partition.sizes))
    return Scaling(
        weak=_curve(_weak(spec, local, workers, fabric.per_host), fabric, bandwidth, grows=True),
        strong=_curve(_strong(spec, workers, fabric.per_host), fabric, bandwidth, grows=False),
    )


def iteration(spec: SolveSpec, gpus: int, fabric: Fabric, bandwidth: float) -> Seconds:
    """Seconds of an iteration with a chunk of the partition on each of so many GPUs."""
    number = spec.partition.number(three("place", (count // 2 for count in spec.partition.counts)))
    part = part_of(spec, number, cuda=True)
    made = spec.preconditioner.forecast(part)
    pace = bandwidth * made.reached
    whole = [level.rows for level in made.levels if gpus > 1 and not level.slots]
    work = traffic.of_chunk(spec, number) / pace + LEVEL * (len(made.levels) - len(whole))
    halo = sum(fabric.exchange(part.value * size, gpus) for size in made.slots if size)
    a = made.levels[0]
    if a.slots:
        hidden = spec.traits.products * a.stored(F64) / pace * (1.0 - a.boundary / max(1, a.rows))
        halo += max(0.0, spec.traits.products * fabric.exchange(F64 * a.slots, gpus) - hidden)
    small = LEVEL * len(whole) + (fabric.gather(part.value * whole[0], gpus) if whole else 0.0)
    sums = SUMS * fabric.sum(gpus) if gpus > 1 else 0.0
    running = work + halo + small + sums
    return Seconds(work=work, halo=halo, sums=sums, small=small, control=running * call_seconds(gpus) / STRIDE)


def _counts(workers: int, per_host: int) -> list[int]:
    """Numbers of GPUs: one, the powers of four and of eight, a host's, and all."""
    powers = {base**power for base in (4, 8) for power in range(math.ceil(math.log(workers, base)) + 1)}
    return sorted(count for count in {*powers, 2, per_host, workers} if count <= workers)


def _weak(spec: SolveSpec, local: Triple, workers: int, per_host: int) -> Iterator[tuple[int, SolveSpec]]:
    for count in _counts(workers, per_host):
        cut = chunks_for(three("grid", (1 << 12 if n > 1 else 1 for n in local)), count)
        grid = tuple(n * p for n, p in zip(local, cut, strict=True))
        yield math.prod(cut), _like(spec, grid, cut)


def _strong(spec: SolveSpec, workers: int, per_host: int) -> Iterator[tuple[int, SolveSpec]]:
    for count in _counts(workers, per_host):
        m = spec.preconditioner
        cut = chunks_for(spec.partition.grid, count, m.divisor, slabs=m.slabs)
        yield math.prod(cut), _like(spec, spec.partition.grid, cut)


def _like(spec: SolveSpec, grid: Any, cut: Any) -> SolveSpec:
    """The system on another grid, or in other chunks."""
    problem = replace(spec.problem, grid=grid, chunks=None)
    types = {"dtype": spec.dtype, "precond_dtype": spec.precond_dtype}
    return SolveSpec.plan(problem, cut, spec.order, spec.preconditioner, spec.method, spec.restart, **types)


def _curve(
    points: Iterable[tuple[int, SolveSpec]], fabric: Fabric, bandwidth: float, *, grows: bool
) -> tuple[Point, ...]:
    curve: list[Point] = []
    for gpus, spec in dict(points).items():
        seconds = iteration(spec, gpus, fabric, bandwidth)
        ideal = seconds.total if not curve else curve[0].seconds.total / (1 if grows else gpus)
        setup, efficiency = of_setup(spec, gpus, fabric, bandwidth), ideal / seconds.total
        curve.append(Point(gpus=gpus, grid=spec.partition.grid, seconds=seconds, setup=setup, efficiency=efficiency))
    return tuple(curve)


def _as_dict(point: Point) -> dict[str, Any]:
    return {
        "gpus": point.gpus,
        "grid": point.grid,
        "seconds": point.seconds.to_dict(),
        "setup": point.setup.to_dict(),
        "efficiency": point.efficiency,
        "stopped_by": point.stopped_by,
    }


def _table(kind: str, points: Iterable[Point]) -> Iterator[str]:
    yield (
        f"{kind + ' scaling':<16} {'grid':>17} {'ms':>9} efficiency {'of it: work':>11}"
        + "".join(f" {field.name:>8}" for field in fields(Seconds)[1:])
        + f" {'most':>8} {'set-up, s':>10}  most"
    )
    for point in points:
        parts = [1e3 * part for part in point.seconds.parts.values()]
        yield (
            f"{point.gpus:>7} GPU{'s' if point.gpus > 1 else ' '}     {'x'.join(map(str, point.grid)):>17} "
            f"{sum(parts):9.3f} {100.0 * point.efficiency:8.1f} % {parts[0]:11.3f}"
            + "".join(f" {ms:8.3f}" for ms in parts[1:])
            + f" {point.stopped_by:>8} {point.setup.total:10.3f}  {point.setup.most if point.gpus > 1 else ''}".rstrip()
        )
