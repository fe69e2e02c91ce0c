"""Ranks whose GPUs write into each other's memory, as threads beside one emulated GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest

import dsolver
from dsolver import kernels
from dsolver.cost.memory import part_of
from dsolver.distributed.halo import halo_layout
from dsolver.engines.base import Engine
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.transport.connections import Connections
from dsolver.grid.box import BOX_OFFSETS
from dsolver.grid.partition import Partition
from dsolver.kernels.formats.layout import HaloLayout
from dsolver.krylov.blocks import lobpcg, projected
from dsolver.multigrid.geometric.assembly import chunk_layout
from dsolver.preconditioners import Algebraic, Chebyshev, Multigrid
from dsolver.preconditioners.algebraic.memory import OUTBOX
from dsolver.program.eigen import EigenProgram, EigenTerms, Found
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from dsolver.status import Status
from tests.support import programs
from tests.support.waiting import PATIENCE

T = TypeVar("T")
GRID = (9, 8, 10)
WAITS = 30
"""Most waits of a rank in a set-up by couplings that foresees nothing, where what a process keeps is there."""
FRAMES = 22
"""Most frames that it gets meanwhile: messages, halos that are linked, and numbers of all ranks."""
pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _emulated(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--emulated") is None:
        pytest.skip("on real GPUs ranks are processes")


def on_ranks(partition: Partition, owners: Sequence[int], function: Callable[[Any], T]) -> list[T]:
    """Results of a function of a rank's engine, on every rank."""
    from dsolver.engines.eager.resident import ResidentEngine
    from tests.emulated.peers import ranks

    def run(transport: Any, rank: int) -> T:
        owned = [number for number, owner in enumerate(owners) if owner == rank]
        hosts = [owners.index(each) for each in range(max(owners) + 1)]
        engine = ResidentEngine(partition, "cuda", owned=owned, transport=transport, hosts=hosts)
        with engine.scope():
            return function(engine)

    with ranks(owners, PATIENCE) as each:
        return each(run)


def smooth(x: Any, y: Any, z: Any) -> Any:
    return 1.0 + x * y + z * z


def solved(engine: Engine, spec: SolveSpec) -> tuple[list[Any], dict[int, Any]]:
    """Samples of some iterations from b = A 1, and x of the own chunks."""
    return history_of(Solve(engine, spec))


def history_of(program: Solve) -> tuple[list[Any], dict[int, Any]]:
    """Samples of some iterations of a program from b = A 1, and x of the own chunks."""
    program.fill("x", 1.0)
    program.b_from_x()
    program.fill("x", 0.0)
    programs.start(program)
    samples = programs.advance(program, 4)
    return samples, dict(program.solution(host=True))


@pytest.mark.parametrize("m", [Algebraic(coarse_rows=20, gathered_rows=60), Multigrid()], ids=["amg", "mg"])
@pytest.mark.parametrize("owners", [(0, 1), (0, 1, 1, 2)])
def test_ranks_make_the_bits_of_one(m: Any, owners: tuple[int, ...]) -> None:
    problem = dsolver.problems.diffusion(GRID, smooth, chunks=(1, 1, len(owners)))
    spec = SolveSpec.plan(problem, (1, 1, len(owners)), m=m)

    def run(engine: Engine) -> Any:
        return solved(engine, spec)

    expected, x = run(EagerEngine(spec.partition, kernels.load("cuda", 1)))
    for history, blocks in on_ranks(spec.partition, owners, run):
        assert history == expected
        for number, block in blocks.items():
            np.testing.assert_array_equal(block, x[number])


def eigenvalues(engine: Engine, spec: SolveSpec, *, after: Callable[[], None] = lambda: None) -> tuple[Found, Any]:
    """The two lowest ones and the lowest vector's blocks; `after` is called after each iteration."""
    program = EigenProgram(engine, spec)
    found = program.search(EigenTerms(wanted=2, size=4, highest=False, tol=1e-5, maxiter=60))
    while found.status is None:
        after()
        found = program.advance(1)
    return found, dict(program.vector(0, host=True))


def modes_of(bc: Any) -> SolveSpec:
    problem = dsolver.problems.diffusion(GRID, smooth, bc=bc, chunks=(1, 1, 2))
    return SolveSpec.plan(problem, (1, 1, 2), m=Chebyshev())


def test_eigenvalues_take_one_round_an_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    from dsolver.engines.transport.peer import PeerTransport

    spec, known, here = modes_of("neumann"), PeerTransport.known, threading.local()

    def counted(transport: Any, own: Any) -> Any:
        here.rounds = getattr(here, "rounds", 0) + 1
        return known(transport, own)

    monkeypatch.setattr(PeerTransport, "known", counted)

    def run(engine: Engine) -> Any:
        rounds: list[int] = []
        return *eigenvalues(engine, spec, after=lambda: rounds.append(here.rounds)), np.diff(rounds)

    expected, vector = eigenvalues(EagerEngine(spec.partition, kernels.load("cuda", 1)), spec)
    for found, blocks, rounds in on_ranks(spec.partition, (0, 1), run):
        assert found == expected
        assert found.status is Status.CONVERGED
        assert len(rounds) == found.iterations > 5
        assert (rounds == 1).all()
        for number, block in blocks.items():
            np.testing.assert_array_equal(block, vector[number])


def test_ranks_that_round_otherwise_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of vectors are as good the other way round, but not on one of two ranks."""
    ritz, here, spec = projected.ritz, threading.local(), modes_of(None)

    def turned(whole: Any, size: int) -> Any:
        values, best, *rest = ritz(whole, size)
        return values, best if here.first else -best, *rest

    monkeypatch.setattr(lobpcg, "ritz", turned)

    def run(engine: Any) -> Found:
        here.first = 0 in engine.owned
        return eigenvalues(engine, spec)[0]

    alone = run(EagerEngine(spec.partition, kernels.load("cuda", 1)))
    for found in on_ranks(spec.partition, (0, 1), run):
        assert found.status is Status.CONVERGED
        np.testing.assert_allclose(found.values[:2], alone.values[:2], rtol=1e-8)


def jumping(x: Any, y: Any, z: Any) -> Any:
    return np.where(np.sin(19 * x) * np.sin(18 * y) * np.sin(17 * z) > 0, 1.0, 1e3)


def flat(x: Any, y: Any, z: Any) -> Any:
    return 1.0 + 0.0 * (x + y + z)


@pytest.mark.parametrize(("m", "other", "most"), [(Multigrid(), jumping, 5), (Algebraic(coarse_rows=20), flat, 16)])
def test_ranks_foresee_together_and_begin_again_together(
    m: Any, other: Any, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bits are those of one rank that foresees nothing, whatever was foreseen. Of "mg" one wait is for all levels."""
    from cupy import cuda

    from dsolver.kernels.cuda.launch import foresight

    grid, fields, here = (8, 8, 12), (smooth, other), threading.local()
    specs = [
        SolveSpec.plan(dsolver.problems.diffusion(grid, kappa, chunks=(1, 1, 2)), (1, 1, 2), m=m) for kappa in fields
    ]
    expected = []
    for spec in specs:
        foresight._tapes.clear()
        expected.append(solved(EagerEngine(spec.partition, kernels.load("cuda", 1)), spec))
    foresight._tapes.clear()
    waits, mistakes = cuda.Stream.synchronize, []

    def counted(stream: Any) -> None:
        here.waits = getattr(here, "waits", 0) + 1
        waits(stream)

    def mistaken(self: Any, found: Any = foresight.CudaForesight._mistaken) -> Any:
        mistakes.append(self)
        return found(self)

    monkeypatch.setattr(cuda.Stream, "synchronize", counted)
    monkeypatch.setattr(foresight.CudaForesight, "_mistaken", mistaken)
    order = (0, 0, 1, 1)

    def run(engine: Engine) -> list[Any]:
        found = []
        for number in order:
            here.waits = 0
            program = Solve(engine, specs[number])
            found.append((here.waits, history_of(program)))
        return found

    for found in on_ranks(specs[0].partition, (0, 1), run):
        for number, (_, (history, x)) in zip(order, found, strict=True):
            assert history == expected[number][0]
            for chunk, block in x.items():
                np.testing.assert_array_equal(block, expected[number][1][chunk])
        first, again, *_ = (count for count, _ in found)
        assert again <= most < first
    assert len(mistakes) == 2  # one of each rank


def test_waits_of_a_set_up_by_couplings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two levels in two chunks, then one whole on every rank. Sorts, masks and numbers that the host asks for wait."""
    import cupy
    from cupy import arrays, cuda

    from dsolver.kernels.cuda.launch import foresight

    here = threading.local()
    problem = dsolver.problems.diffusion((16, 16, 32), smooth, chunks=(1, 1, 2))
    spec = SolveSpec.plan(problem, (1, 1, 2), m=Algebraic(coarse_rows=50, gathered_rows=300))

    def count(place: Any, name: str) -> None:
        call = getattr(place, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            here.waits = getattr(here, "waits", 0) + 1
            return call(*arguments, **options)

        monkeypatch.setattr(place, name, counted, raising=False)

    count(cuda.Stream, "synchronize")
    for name in ("get", "__int__", "__bool__"):
        count(arrays.Array, name)
    for name in ("sort", "argsort", "flatnonzero", "unique"):
        count(cupy, name)
    receive = Connections.receive

    def received(connections: Connections, peer: int, parts: Any) -> None:
        here.frames = getattr(here, "frames", 0) + 1
        receive(connections, peer, parts)

    monkeypatch.setattr(Connections, "receive", received)

    def run(engine: Engine) -> tuple[int, int]:
        Solve(engine, spec)  # which brings what a process keeps, one rank for both
        foresight._tapes.clear()
        here.waits = here.frames = 0
        Solve(engine, spec)
        return int(here.waits), int(here.frames)

    for waits, frames in on_ranks(spec.partition, (0, 1), run):
        assert waits <= WAITS
        assert frames <= FRAMES


def test_outboxes_of_rows_that_leave_their_boxes_are_counted() -> None:
    """The largest one, of half of a chunk's rows for the range beside its own."""
    problem = dsolver.problems.diffusion((16, 32, 32), smooth, chunks=(1, 2, 2))
    spec = SolveSpec.plan(problem, (1, 2, 2), m=Algebraic(coarse_rows=30, gathered_rows=3000))
    cut = part_of(spec, 0, cuda=True)
    counted = cut.stored().rows + cut.stored().entries

    def run(engine: Any) -> int:
        Solve(engine, spec)
        return max(
            box.size for turns in engine.transport._mailbox._own.values() for box in (turns._last, turns._next) if box
        )

    for size in on_ranks(spec.partition, (0, 1, 2, 3), run):
        assert size == pytest.approx(OUTBOX * counted / 2, rel=0.15)


def test_another_program_has_the_link_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    from cupy import cuda

    from dsolver.engines.eager.resident import ResidentEngine
    from tests.emulated.peers import ranks

    problem, blocks = dsolver.problems.diffusion(GRID, smooth, chunks=(1, 1, 2)), []
    spec = SolveSpec.plan(problem, (1, 1, 2), m=Algebraic(coarse_rows=20, gathered_rows=60))
    malloc = cuda.runtime.malloc

    def counted(size: int) -> Any:
        blocks.append(size)
        return malloc(size)

    monkeypatch.setattr(cuda.runtime, "malloc", counted)

    def programs_in_turn(transport: Any, rank: int) -> list[Any]:
        found = []
        for _ in range(3):
            engine = ResidentEngine(spec.partition, "cuda", owned=[rank], transport=transport, hosts=[0, 1])
            with engine.scope():
                found.append(solved(engine, spec))
            engine.leave()
            link = transport.detached()
            assert link is not None
            transport = link.transport()
        return found

    with ranks((0, 1), PATIENCE) as each:
        for (history, x), *later in each(programs_in_turn):
            for again, same in later:
                assert again == history
                for number, block in same.items():
                    np.testing.assert_array_equal(block, x[number])
    assert len(blocks) == 2  # one of each rank


def test_halos_made_before_the_first_exchange_are_linked_in_one_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    from dsolver.engines.transport import peer_halos
    from dsolver.engines.transport.connections import exchanged

    links: list[int] = []

    def counted(connections: Any, *frames: Any) -> Any:
        links.append(connections.rank)
        return exchanged(connections, *frames)

    monkeypatch.setattr(peer_halos, "exchanged", counted)
    partition = Partition(GRID, (1, 1, 2))

    def run(engine: EagerEngine) -> list[float]:
        layout = engine.per_chunk(partial(chunk_layout, partition=partition, offsets=BOX_OFFSETS))
        plan = engine.per_chunk(partial(_plan, partition=partition), layout)
        halos = [engine.halo(plan) for _ in range(3)]
        x, found = engine.field(layout), []
        for turn in range(3):
            for number, halo in enumerate(halos):
                engine.fill(layout, float(1 + 10 * turn + number), x)
                engine.exchange(x, halo)
                (vector,) = halo.items.values()
                found.append(float(vector.max()))
        return found

    values = [1.0 + 10 * turn + number for turn in range(3) for number in range(3)]
    assert on_ranks(partition, (0, 1), run) == [values, values]
    assert sorted(links) == [0, 1]


def sent_both_ways(engine: EagerEngine, lengths: tuple[int, int], turn: int) -> Any:
    """Messages to each of two chunks: so many numbers, each the sender's number and the turn."""

    def sent(backend: Any, number: int) -> Any:
        return {1 - number: (backend.xp.full(lengths[1 - number], float(number + turn)),)}

    return engine.deliver(engine.per_chunk(sent), [(1,), (0,)], ("float64",), lambda n: {1 - n: lengths[n]})


def test_messages_of_known_lengths_take_a_frame_where_an_outbox_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has two of them in turns. Chunk 0 sends ever more, the other one as many numbers each time."""
    from dsolver.engines.transport import mailbox
    from dsolver.engines.transport.connections import received, sent

    monkeypatch.setattr(mailbox, "SMALLEST", 256)
    told = threading.local()

    def counted(connections: Any, sizes: Any) -> Any:
        told.frames.append(len(sizes))
        return received(connections, sizes)

    def both(sending: Any) -> None:
        told.frames[-1] = len(sending), told.frames[-1]
        sent(sending)

    monkeypatch.setattr(mailbox, "received", counted)
    monkeypatch.setattr(mailbox, "sent", both)
    turns = (20, 20, 30, 100, 100, 200)

    def run(engine: EagerEngine) -> Any:
        found: list[Any] = []
        told.frames = []
        for count in turns:
            came = sent_both_ways(engine, (20, count), len(found))
            ((values,),) = engine.fetch(came)[engine.owned[0]].values()
            found.append(values.tolist())
        return found, told.frames

    (of_0, frames_0), (of_1, frames_1) = on_ranks(Partition((4, 4, 4), (1, 1, 2)), (0, 1), run)
    assert of_0 == [[1.0 + turn] * 20 for turn in range(6)]
    assert of_1 == [[float(turn)] * count for turn, count in enumerate(turns)]
    assert frames_0 == [(1, 1), (1, 1), (0, 0), (1, 0), (1, 0), (0, 0)]
    assert frames_1 == [(sent, got) for got, sent in frames_0]


def _plan(backend: kernels.Backend, number: int, layout: Any, *, partition: Partition) -> HaloLayout:
    return halo_layout(backend, layout, partition, number, BOX_OFFSETS)
