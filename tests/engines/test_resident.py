"""The resident engine in this process: the reference's bits, no memory per iteration, a way to stop."""

from __future__ import annotations

import secrets
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from dsolver import problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.engines.base import Engine
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.eager.handles import EagerHalo, EagerPerChunk
from dsolver.engines.eager.resident import ResidentEngine
from dsolver.engines.repetition import Repetition, StepInParts
from dsolver.engines.transport.base import PackedChannel, PeerError
from dsolver.engines.transport.connections import Connections
from dsolver.engines.transport.handshake import TOKEN_BYTES
from dsolver.engines.transport.sockets import SocketTransport
from dsolver.kernels import load
from dsolver.kernels.contract import AXPBY
from dsolver.kernels.cpu.loops.team import Helper
from dsolver.preconditioners import Jacobi
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from tests.support.programs import advance, blocks_of, start
from tests.support.waiting import PATIENCE

SIDE = 64
"""Rows along an edge of the grid where memory is looked at."""


def spec_of(n: int, chunks: tuple[int, int, int]) -> SolveSpec:
    return SolveSpec.plan(problems.hpcg((n, n, n)), chunks, m=Hpcg())


def run(engine: Engine, spec: SolveSpec, steps: int) -> tuple[list[tuple[float, float]], Any]:
    program = Solve(engine, spec)
    program.fill("x", 1.0)
    program.b_from_x()
    program.fill("x", 0.0)
    start(program)
    return advance(program, steps), blocks_of(program, "x")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 1), (2, 2, 2)])
def test_the_bits_are_the_references(chunks: tuple[int, int, int], threads: int) -> None:
    spec = spec_of(32, chunks)
    partition = spec.partition
    samples, x = run(EagerEngine(partition, load("cpu")), spec, 8)
    mine, found = run(ResidentEngine(partition, "cpu", threads=threads), spec, 8)
    assert mine == samples
    assert all(np.array_equal(found[n], x[n]) for n in x)


@pytest.mark.parametrize(("side", "shared"), [(64, False), (512, True)])
def test_threads_share_what_takes_longer_than_to_wake_them(
    side: int, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solve of 64² cells woke them 120 times, for twice its time."""
    woken, give = [0], Helper.give

    def counted(helper: Helper, work: Callable[[], Any]) -> None:
        woken[0] += 1
        give(helper, work)

    monkeypatch.setattr(Helper, "give", counted)
    problem = problems.diffusion((side, side), lambda x, y: 1.0 + x * y)
    spec = SolveSpec.plan(problem, (1, 1, 1), m=Jacobi())
    program = Solve(ResidentEngine(spec.partition, "cpu", threads=2), spec)
    woken[0] = 0
    program.operator.multiply(program.method.x, program.method.b)
    assert bool(woken[0]) == shared


def test_an_iteration_allocates_nothing_of_a_fields_size() -> None:
    """The peak of new memory over some iterations stays below one vector of the next level.

    The grid is so large that such a vector, 256 KiB, is far above the small objects of Python, 33 KiB and more.
    """
    spec = spec_of(SIDE, (2, 1, 1))
    partition = spec.partition
    program = Solve(ResidentEngine(partition, "cpu"), spec)
    assert peak(program) < SIDE**3 * 8 / 8


def test_ranks_that_exchange_allocate_nothing_of_a_fields_size_either() -> None:
    spec = spec_of(SIDE, (2, 1, 1))
    programs = [Solve(engine, spec) for engine in two_ranks(spec)]
    with ThreadPoolExecutor(1) as other:
        beside = other.submit(warm_up_and_iterate, programs[1])
        assert peak(programs[0]) < 2 * SIDE**3 * 8 / 8  # tracemalloc sees both threads
        beside.result()
    for program in programs:
        program.engine.close()


def two_ranks(spec: SolveSpec) -> list[ResidentEngine]:
    connections_of = [Connections(rank, "127.0.0.1", PATIENCE) for rank in range(2)]
    token = secrets.token_bytes(TOKEN_BYTES)
    with ThreadPoolExecutor(2) as threads:
        list(
            threads.map(
                lambda connections: connections.connect([m.address for m in connections_of], token), connections_of
            )
        )
    return [
        ResidentEngine(spec.partition, "cpu", owned=[rank], transport=SocketTransport(connections_of[rank], (0, 1)))
        for rank in range(2)
    ]


def warm_up_and_iterate(program: Solve) -> None:
    start(program)
    advance(program, 2)
    advance(program, 5)


def peak(program: Solve) -> int:
    start(program)
    advance(program, 2)
    tracemalloc.start()
    try:
        advance(program, 5)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_rank_without_peers_stops_between_iterations() -> None:
    """A step of one chunk whose calls are recorded: they are called in its place until the user leaves or they go."""
    spec = spec_of(16, (1, 1, 1))
    engine, ran = ResidentEngine(spec.partition, "cpu"), []
    program = Solve(engine, spec)
    x, y, one, sums = program.method.x, program.method.r, engine.scalar(1.0), engine.scalar(0.0)
    engine.fill(program.layout, 1.0, x)
    engine.fill(program.layout, 0.0, y)

    def step() -> None:
        engine.run(AXPBY, 1.0, one, x, one, y)
        engine.dot(x, y, engine.partial_sums(), sums)
        ran.append(1)

    count, leave = float(16**3), Repetition(between={3: lambda: engine.transport.abort("the user left")})
    assert engine.repeat(step, 2, (sums,)) == [(count,), (2.0 * count,)]
    assert len(ran) == 1
    with pytest.raises(PeerError, match="the user left"):
        engine.repeat(step, 1000, (sums,), leave)
    assert engine.read(sums) == (5.0 * count,)
    assert len(ran) == 1
    engine.forget()
    engine.replay(step)
    assert engine.read(sums) == (6.0 * count,)
    assert len(ran) == 2


def test_a_step_that_fails_is_not_recorded_and_one_within_another_is_a_part_of_it() -> None:
    spec = spec_of(16, (1, 1, 1))
    engine = ResidentEngine(spec.partition, "cpu")
    a, b, fails = engine.scalar(2.0), engine.scalar(0.0), [True, False]

    def inner() -> None:
        engine.assign(b, a)

    def outer() -> None:
        engine.replay(inner)
        engine.set(a, 3.0)
        if fails and fails.pop(0):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        engine.repeat(outer, 1, (b,))
    engine.replay(inner)
    assert engine.read(b) == (3.0,)
    engine.set(a, 2.0)
    assert engine.repeat(outer, 3, (b,)) == [(2.0,), (3.0,), (3.0,)]
    assert not fails


def test_what_steps_in_parts_share_is_recorded_once() -> None:
    engine, ran = ResidentEngine(spec_of(16, (1, 1, 1)).partition, "cpu"), Counter[str]()
    shared, one, other = (partial(ran.update, [name]) for name in ("shared", "one", "other"))
    for step in (StepInParts((shared, one)), StepInParts((shared, other)), StepInParts((shared, one))):
        engine.replay(step)
    assert ran == {"shared": 1, "one": 1, "other": 1}


def test_steps_are_measured_where_that_is_asked_for() -> None:
    engine = ResidentEngine(spec_of(16, (1, 1, 1)).partition, "cpu")
    parts, out = engine.partial_sums(), engine.scalar(0.0)
    engine.repeat(lambda: engine.total(parts, out), 2, (out,))
    assert not engine.spans()
    engine.repeat(lambda: engine.total(parts, out), 2, (out,), Repetition(measured=True))
    assert [span.name for span in engine.spans()] == ["total"]


def test_a_halo_that_is_exchanged_again_unread_holds_the_last_values() -> None:
    spec = spec_of(16, (2, 1, 1))
    engines = two_ranks(spec)

    def twice(engine: ResidentEngine) -> dict[int, Any]:
        program = Solve(engine, spec)
        plan = program.operator.ghost.halo
        assert isinstance(plan, EagerHalo)
        assert isinstance(plan.channel, PackedChannel)
        again = engine.halo(EagerPerChunk(dict(plan.channel.plans)))
        for value in (1.0, 2.0, 3.0):
            engine.fill(program.layout, value, program.method.x)
            engine.exchange(program.method.x, again)
        engine.fill(program.layout, 4.0, program.method.x)
        engine.exchange(program.method.x, plan)
        return {**filled(again.items), "later": filled(plan.items)}

    with ThreadPoolExecutor(2) as threads:
        for rank, seen in enumerate(threads.map(twice, engines)):
            assert seen == {rank: {3.0}, "later": {rank: {4.0}}}
    for engine in engines:
        engine.close()


def test_ranks_agree_on_what_the_first_says() -> None:
    engines = two_ranks(spec_of(16, (2, 1, 1)))
    with ThreadPoolExecutor(2) as threads:
        for said in ((0.1, 7.0), (1e-3, 0.0)):
            assert [*threads.map(lambda engine, own: engine.broadcast(own), engines, said)] == [said[0]] * 2
    for engine in engines:
        engine.close()


def filled(vectors: dict[int, Any]) -> dict[Any, Any]:
    return {number: set(values_inside(vector)) for number, vector in vectors.items()}


def values_inside(vector: Any) -> Sequence[float]:
    return [float(value) for value in vector if value != 0.0]


@pytest.mark.gpu
def test_what_is_fetched_is_complete_on_other_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, waits = ResidentEngine(spec_of(16, (1, 1, 1)).partition, "cuda"), list[bool]()
    monkeypatch.setattr(engine, "_synchronize", lambda: waits.append(True))
    with engine.scope():
        made = engine.per_chunk(lambda backend, _: backend.xp.zeros(4))
        waits.clear()
        assert engine.fetch(made)[0].shape == (4,)
    assert waits
    engine.close()
