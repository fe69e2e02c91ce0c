"""The `graph` engine: the eager engine's bits, by tasks that stay at home, change nothing and leave nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest
from dask.utils import key_split
from distributed import Client, Worker, get_client
from distributed.utils import color_of

import dsolver
from dsolver import kernels, problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.engines.base import Engine
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.graph import labels, task_graph
from dsolver.engines.graph.engine import GraphEngine
from dsolver.engines.graph.handles import GraphField, GraphScalar
from dsolver.engines.graph.results import Results
from dsolver.errors import ClusterError, InputError, RankError, WorkerLostError
from dsolver.grid.box import Triple
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend, contract
from dsolver.kernels.contract import FILL, LOAD, SPMV, WAXPBY, Kernel
from dsolver.kernels.formats import hpcg
from dsolver.preconditioners import Identity
from dsolver.preconditioners.builder import MakeStored
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from tests.support.clusters import cluster
from tests.support.programs import advance, blocks_of, norms, start, true_residual
from tests.support.waiting import PATIENCE, gone

STEPS = 3


def plan(chunks: Triple = (2, 2, 2), grid: Triple = (16, 16, 16)) -> SolveSpec:
    """Two levels; the bits of four are compared in test_same_bits.py, those of worker processes in test_cli.py."""
    return SolveSpec.plan(problems.hpcg(grid), chunks, m=Hpcg(levels=2))


def stored(spec: SolveSpec) -> MakeStored:
    return MakeStored(problem=spec.problem, partition=spec.partition, order=spec.order)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with cluster(2, threads=2) as client:
        yield client


def owners(client: Client, partition: Partition, workers: int = 2) -> list[str]:
    addresses = sorted(client.nthreads())[:workers]
    return [addresses[chunk * len(addresses) // len(partition)] for chunk in range(len(partition))]


@contextmanager
def graph_engine(client: Client, spec: SolveSpec, *, workers: int = 2, **options: Any) -> Iterator[GraphEngine]:
    partition = spec.partition
    options.setdefault("kernels", "cpu")
    engine = GraphEngine(partition, client, owners(client, partition, workers), **options)
    try:
        yield engine
    finally:
        engine.close()


class Rounds:
    """Messages of each chunk to those behind it in a circle, and to itself; and the chunks that send them.

    The first chunk has none for itself.
    """

    kinds = ("int32", "float64")

    def __init__(self, chunks: int) -> None:
        self.senders = [
            tuple(sorted({number, (number - 1) % chunks, (number - 3) % chunks})) for number in range(chunks)
        ]
        self.circle = [tuple(sorted({(number - 1) % chunks, (number + 1) % chunks})) for number in range(chunks)]

    def near(self, _: Any, number: int) -> tuple[int, ...]:
        """The chunks beside a chunk."""
        return self.circle[number]

    def made(self, _: Any, number: int) -> dict[int, Any]:
        receivers = [to for to, senders in enumerate(self.senders) if number in senders]
        return {
            to: (np.arange(number + to, dtype=np.int32), np.full(to, number + 0.5)) for to in receivers if number + to
        }


def read_messages(_: Any, number: int, found: Any) -> tuple[float, ...]:
    """Senders, and sums of what they have sent."""
    return float(number), *(float(s) for s in found), *(float(part.sum()) for parts in found.values() for part in parts)


def test_messages_and_numbers_of_chunks_are_those_of_the_eager_engine(client: Client) -> None:
    spec = plan()
    rounds = Rounds(len(spec.partition))
    with graph_engine(client, spec) as engine:
        known = []
        for each in (engine, eager_engine(spec)):
            found = each.deliver(each.per_chunk(rounds.made), rounds.senders, rounds.kinds)
            known.append(each.known(each.per_chunk(read_messages, found)))
            assert each.partners(each.per_chunk(rounds.near)) == rounds.circle
    assert known[0] == known[1]
    assert known[0][0][1:3] == (5.0, 7.0)  # of the senders, it itself has nothing to say
    assert [row[0] for row in known[0]] == [*range(len(spec.partition))]
    assert known[0][3][1:4] == (0.0, 2.0, 3.0)
    assert known[0][3][4:6] == (sum(range(3)), 1.5)


def eager_engine(spec: SolveSpec) -> EagerEngine:
    return EagerEngine(spec.partition, kernels.load("cpu"))


def right_hand_side(partition: Partition) -> dict[int, npt.NDArray[np.float64]]:
    values = np.random.default_rng(7).standard_normal(partition.grid)
    return {chunk.number: values[chunk.box.slices] for chunk in partition}


def solve(engine: Engine, spec: SolveSpec, *, preconditioned: bool = True) -> tuple[list[Any], Any]:
    program = Solve(engine, spec if preconditioned else replace(spec, preconditioner=Identity()))
    program.set_b(right_hand_side(spec.partition))
    history = [start(program), *advance(program, STEPS), true_residual(program), *norms(program)]
    return history, blocks_of(program, "x")


def scheduler_keys(client: Client) -> list[Any]:
    keys: list[Any] = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))
    return keys


def worker_keys(client: Client) -> int:
    return sum(client.run(lambda dask_worker: len(dask_worker.state.tasks)).values())


def wait_until_empty(client: Client) -> None:
    """Keys are released by messages, which arrive a little later."""
    assert gone(lambda: scheduler_keys(client))


# -- the same bits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preconditioned", [True, False])
@pytest.mark.parametrize("workers", [1, 2])
def test_bits_are_those_of_the_eager_engine(client: Client, workers: int, preconditioned: bool) -> None:
    spec = plan()
    history, x = solve(eager_engine(spec), spec, preconditioned=preconditioned)
    with graph_engine(client, spec, workers=workers, batch=2) as engine:
        found, futures = solve(engine, spec, preconditioned=preconditioned)
        blocks = client.gather(futures)
    assert found == history
    assert all(np.array_equal(blocks[number], x[number]) for number in x)


@pytest.mark.parametrize("chunks", [(1, 1, 1), (5, 2, 1)])
def test_bits_on_other_partitions(client: Client, chunks: Triple) -> None:
    """One chunk has fused kernels and no halo; ten have a tree of two stages."""
    spec = plan(chunks, grid=(40, 16, 8))
    history, _ = solve(eager_engine(spec), spec)
    with graph_engine(client, spec) as engine:
        assert solve(engine, spec)[0] == history


def test_bits_are_kept_when_the_past_is_forgotten(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_graph, "FORGET_AFTER", 0)
    spec = plan()
    history, x = solve(eager_engine(spec), spec)
    with graph_engine(client, spec, batch=2) as engine:
        found, futures = solve(engine, spec)
        blocks = client.gather(futures)
    assert found == history
    assert all(np.array_equal(blocks[number], x[number]) for number in x)


def test_fewer_neighbors_may_be_named(client: Client) -> None:
    spec = SolveSpec.plan(problems.poisson7((16, 16, 16)), (2, 2, 2), m=Hpcg(levels=2))
    partition = spec.partition

    def near(chunk: int) -> tuple[int, ...]:
        return partition.neighbors(chunk, spec.problem.offsets)

    assert len(near(0)) < len(partition.neighbors(0))
    history, _ = solve(eager_engine(spec), spec)
    with graph_engine(client, spec, neighbors=near) as engine:
        assert solve(engine, spec)[0] == history


def of_operands(_: Backend, number: int, x: Any, halo: Any, scalar: Any) -> Any:
    """Something of every kind of operand, of a chunk's shape."""
    return np.full((8, 8, 8), number + x.sum() + 10.0 * halo.sum() + scalar[0])


def built_from(engine: Engine, spec: SolveSpec) -> dict[int, Any]:
    partition = spec.partition
    level = engine.per_chunk(stored(spec)).at(0)
    layout = level.at("layout")
    x, out, halo, total, parts = (
        engine.field(layout),
        engine.field(layout),
        engine.halo(level.at("halo")),
        engine.scalar(0.0),
        engine.partial_sums(),
    )
    engine.load(right_hand_side(partition), layout, x)
    engine.exchange(x, halo)
    engine.dot(x, x, parts, total)
    engine.run(LOAD, layout, engine.per_chunk(of_operands, x, halo, total), out)
    return dict(engine.unload(out, layout))


def test_something_may_be_built_from_fields_halos_and_scalars(client: Client) -> None:
    spec = plan()
    expected = built_from(eager_engine(spec), spec)
    with graph_engine(client, spec) as engine:
        found = client.gather(built_from(engine, spec))
    assert len({block[0, 0, 0] for block in expected.values()}) == 8
    assert all(np.array_equal(found[number], expected[number]) for number in expected)


# -- data --------------------------------------------------------------------------------------------------------------


def test_load_and_unload(client: Client) -> None:
    spec = plan()
    blocks = right_hand_side(spec.partition)
    expected = {number: block.copy() for number, block in blocks.items()}
    with graph_engine(client, spec) as engine:
        layout = engine.per_chunk(stored(spec)).at(0, "layout")
        x = engine.field(layout)
        assert not any(np.any(block) for block in client.gather(engine.unload(x, layout)).values())
        engine.load(blocks, layout, x)
        for block in blocks.values():
            block[:] = np.nan  # belongs to the caller again
        first = engine.unload(x, layout)
        y = engine.field(layout)
        engine.load(first, layout, y)
        second = engine.unload(y, layout)
    # Futures outlive the engine, also those that it was given.
    for futures in (first, second):
        found = client.gather(futures)
        assert all(np.array_equal(found[number], expected[number]) for number in expected)


def test_results_are_never_changed(client: Client) -> None:
    spec = plan()
    with graph_engine(client, spec) as engine:
        levels = engine.per_chunk(stored(spec))
        layout = levels.at(0, "layout")
        x, y = engine.field(layout), engine.field(layout)
        engine.fill(layout, 2.0, x)
        old = engine.field(layout)
        old.version = x.version
        engine.run(SPMV, levels.at(0, "local"), x, y)
        engine.run(WAXPBY, 3.0, x, 0.0, y, x)
        new_values, old_values = (client.gather(engine.unload(f, layout)) for f in (x, old))
    assert all(np.all(block == 6.0) for block in new_values.values())
    assert all(np.all(block == 2.0) for block in old_values.values())


def test_every_update_leaves_its_input_alone(client: Client) -> None:
    """With every intermediate kept, nothing that a step reads differs after it."""
    spec = plan()
    with graph_engine(client, spec, workers=1) as engine:
        program = Solve(engine, spec)
        program.set_b(right_hand_side(spec.partition))
        start(program)
        advance(program, 1)
        fields = [v for v in engine._graph.variables if isinstance(v, GraphField) and v.version is not None]
        vectors = [v for v in fields if v.shape.path[-1] == "layout"]  # one item a boundary row is no block
        held = [GraphField(v.shape, v.dtype) for v in vectors]
        for copy, vector in zip(held, vectors, strict=True):
            copy.version = vector.version
            engine._graph.known(copy)
        before = [client.gather(engine.unload(f, f.shape)) for f in held]
        advance(program, 2)
        after = [client.gather(engine.unload(f, f.shape)) for f in held]
    assert len(vectors) > 10
    for old, new in zip(before, after, strict=True):
        assert all(np.array_equal(old[number], new[number]) for number in old)


def test_nothing_is_submitted_before_a_value_is_asked_for(client: Client) -> None:
    spec = plan()
    wait_until_empty(client)
    with graph_engine(client, spec) as engine:
        program = Solve(engine, spec)
        program.fill("x", 1.0)
        program.b_from_x()
        program.method.step()
        known = engine.scalar(4.0)
        assert engine.read(known) == (4.0,)
        assert engine.repeat(lambda: None, 2, (known,)) == [(4.0,), (4.0,)]
    wait_until_empty(client)


# -- on the cluster ----------------------------------------------------------------------------------------------------


def test_solves_leave_no_spans_of_dask_behind(client: Client) -> None:
    """Numbers of each span, which workers and scheduler keep as long as they live, and the scheduler's task groups."""

    def spans_of_products(dask_scheduler: Any) -> set[str]:
        spans = dask_scheduler.extensions["spans"].spans.values()
        return {span.id for span in spans if any("spmv" in group.name for group in span.groups)}

    def engines(dask_scheduler: Any) -> set[str]:
        """The ends of the names of task groups, which tell engines apart."""
        return {group.name.rsplit("-", 1)[1] for group in dask_scheduler.extensions["spans"].spans["dsolver"].groups}

    problem = problems.poisson7((8, 8, 8))
    for _ in range(4):
        dsolver.solve(problem, np.ones(problem.grid), client=client, engine="graph", M=None, maxiter=2)
        wait_until_empty(client)
    assert client.run_on_scheduler(spans_of_products) == {"dsolver"}
    assert len(client.run_on_scheduler(engines)) <= 3, "of the last two engines, and the end of one before"


def test_keys_are_readable(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_graph, "FORGET_AFTER", 100)
    spec = plan()
    with graph_engine(client, spec) as engine:
        _, futures = solve(engine, spec)
        prefixes = client.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.task_prefixes))
        names = {key_split(key) for key in futures}
    assert names
    assert prefixes >= {
        *("setup-levels", "load-block", "unload-block", "kept-values", "fill", "waxpby"),
        *("halo-pack", "halo-exchanges", "inner-spmv", "boundary-spmv", "dot-partial", "dot-reduce"),
        *("presmooth", "restriction", "boundary-residual", "coarsest-symgs", "prolong"),
        *("boundary-postsmooth", "inner-postsmooth", "update-p", "update-iterate"),
    }


def test_labels_survive_the_dashboard() -> None:
    kernels = (labels.label_of(kernel) for kernel in (*contract.KERNELS.values(), *hpcg.KERNELS))
    for label in (*kernels, labels.EXCHANGE, labels.REDUCE, labels.KEPT):
        assert key_split((f"{label}-L0-abcdefab", 1, 2)) == label
        assert key_split((f"{label}-abcdefab", 1, 2)) == label


def test_chunks_stay_with_their_owners(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_graph, "FORGET_AFTER", 100)
    spec = plan()
    partition = spec.partition
    expected = owners(client, partition)
    assert len(set(expected)) == 2
    with graph_engine(client, spec) as engine:
        _, blocks = solve(engine, spec)
        engine._graph.results.wait(list(engine._graph.results.futures))
        held = client.who_has(list(engine._graph.results.futures.values()))
        for number, block in blocks.items():
            assert list(client.who_has([block])[block.key]) == [expected[number]]
    places = {key: where for key, where in held.items() if "dot-" not in key[0]}
    assert {key[0].rsplit("-", 1)[0] for key in places} >= {"setup-levels", "kept-values"}
    assert all(list(where) == [expected[key[2]]] for key, where in places.items())


def test_keys_do_not_pile_up(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_graph, "FORGET_AFTER", 100)
    spec = plan((2, 1, 1))
    wait_until_empty(client)
    with graph_engine(client, spec, batch=2) as engine:
        program = Solve(engine, spec)
        program.fill("b", 1.0)
        start(program)

        def too_many() -> tuple[int, int] | None:
            """On the scheduler and the workers: more than what is alive, and what two batches leave on their way."""
            bound, found = (
                len(engine._graph.results.futures) + 2 * 2 * 48,
                (len(scheduler_keys(client)), worker_keys(client)),
            )
            return found if found[0] > bound or found[1] > 2 * bound else None

        for _ in range(6):  # of 24 steps, which make 1100 tasks
            advance(program, 4)
            assert gone(too_many)
    wait_until_empty(client)


# -- when something fails ----------------------------------------------------------------------------------------------


def fail_in_setup(_: Backend, number: int) -> SimpleNamespace:
    if number == 3:
        raise ZeroDivisionError("row 5 has no diagonal")
    return SimpleNamespace(size=64)


def refuse_in_setup(_: Backend, __: int) -> SimpleNamespace:
    raise InputError("not this one")


def test_failing_setup_is_told_in_a_line(client: Client) -> None:
    with graph_engine(client, plan()) as engine:
        layout = engine.per_chunk(fail_in_setup)
        x, s = engine.field(layout), engine.scalar(0.0)
        parts = engine.partial_sums()
        engine.dot(x, x, parts, s)
        with pytest.raises(RankError) as caught:
            engine.read(s)
        assert str(caught.value) == "setup-chunk of chunk 3 failed: ZeroDivisionError: row 5 has no diagonal"
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        with pytest.raises(ClusterError, match="closed"):
            engine.read(engine.scalar(0.0))
    wait_until_empty(client)


def test_own_exceptions_come_as_they_are(client: Client) -> None:
    with graph_engine(client, plan()) as engine:
        layout = engine.per_chunk(refuse_in_setup)
        with pytest.raises(InputError, match="not this one"):
            engine.unload(engine.field(layout), layout)


def test_failing_kernel_names_itself_and_its_chunk(client: Client) -> None:
    spec = plan()
    with graph_engine(client, spec) as engine:
        program = Solve(engine, spec)
        engine.run(Kernel("explode", reads=("layout",), writes=("x",)), program.layout, program.method.x)
        with pytest.raises(RankError, match=r"^explode of chunk \d failed: AttributeError: .*explode"):
            start(program)


def test_unknown_kernels_fail_on_the_worker(client: Client) -> None:
    spec = plan()
    with graph_engine(client, spec, kernels="abacus") as engine:
        program = Solve(engine, spec)
        with pytest.raises(RankError, match="no kernels called 'abacus'"):
            start(program)


def test_wrong_calls_are_refused_at_once(client: Client) -> None:
    partition = plan().partition
    with pytest.raises(ValueError, match="8 chunks need as many owners"):
        GraphEngine(partition, client, ["a"], kernels="cpu")
    with pytest.raises(ValueError, match="at least one step"):
        GraphEngine(partition, client, ["a"] * 8, kernels="cpu", batch=0)
    with graph_engine(client, plan()) as engine:
        layout = engine.per_chunk(fail_in_setup)
        with pytest.raises(TypeError, match="fill has the arguments layout, value, x"):
            engine.run(FILL, layout, 1.0)


async def leave_soon(dask_worker: Worker) -> None:
    await asyncio.sleep(0.5)
    await dask_worker.close(nanny=False)


async def die_soon() -> None:
    await asyncio.sleep(0.5)
    os._exit(1)


@pytest.mark.parametrize("past", [0, 10**9], ids=["without a past", "with a past"])
@pytest.mark.parametrize("processes", [False, True], ids=["closed", "killed"])
def test_a_lost_worker_is_told(monkeypatch: pytest.MonkeyPatch, past: int, processes: bool) -> None:
    monkeypatch.setattr(task_graph, "FORGET_AFTER", past)
    spec = plan((2, 1, 1))
    with cluster(2, processes=processes, threads=2) as client, graph_engine(client, spec) as engine:
        program = Solve(engine, spec)
        program.fill("b", 1.0)
        start(program)
        advance(program, 2)
        lost = owners(client, spec.partition)[1]
        client.run(die_soon if processes else leave_soon, workers=[lost], wait=False)
        with pytest.raises(ClusterError, match=f"worker {lost} has left the cluster with chunk 1"):
            advance(program, 10**6)  # not for ever


def test_data_for_a_worker_that_has_left_raise_nothing_on_the_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    spec = plan((2, 1, 1))
    with cluster(2) as client, graph_engine(client, spec) as engine:
        program = Solve(engine, spec)
        lost = owners(client, spec.partition)[1]
        client.retire_workers([lost])
        with pytest.raises(WorkerLostError, match=f"worker {lost} left the cluster before it got its data"):
            program.set_b({number: np.zeros((8, 16, 16)) for number in range(2)})
    assert "Exception while handling op scatter" not in caplog.text


def solve_in_a_task() -> bool:
    problem = problems.poisson7((4, 4, 4), chunks=(2, 1, 1))
    b = da.ones((4, 4, 4), chunks=2)
    return dsolver.solve(problem, b, M=None, client=get_client(), engine="graph", device="cpu").converged


def test_a_task_may_solve_on_workers_with_a_single_slot() -> None:
    """A task that has the only slot: tasks that are pinned to its worker would wait for it."""
    with cluster(2) as client:
        several = [client.submit(solve_in_a_task, pure=False) for _ in range(3)]
        assert all(future.result(timeout=PATIENCE) for future in several)


def test_a_worker_that_hangs_is_told() -> None:
    spec = plan((2, 1, 1))
    with cluster(2, processes=True, threads=2) as client, graph_engine(client, spec) as engine:
        program = Solve(engine, spec)
        program.fill("b", 1.0)
        start(program)
        advance(program, 2)
        lost = owners(client, spec.partition)[1]
        pid = client.run(os.getpid)[lost]
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(ClusterError, match=f"worker {lost} has not answered|the cluster does not answer"):
                advance(program, 10**6)
        finally:
            os.kill(pid, signal.SIGCONT)


def test_scalars_are_values_once_the_past_is_forgotten(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_graph, "FORGET_AFTER", 0)
    spec = plan((2, 1, 1))
    with graph_engine(client, spec) as engine:
        program = Solve(engine, spec)
        program.fill("b", 1.0)
        start(program)
        rr = program.method.rr
        assert isinstance(rr, GraphScalar)
        assert rr.version is None
        assert engine.read(rr) == (rr.value,)


SHARED = ("pack", "dot", "spmv_dot", "spmv_halo", "subtract_halo", "update_p", "update_x_r")
SWEEPS = ("forward", "upper_residual", "lower_residual", "backward", "sweep_backward")
ALONE = ("presmooth_restrict", "prolong_postsmooth")
"""Kernels of chunks without neighbors."""


@pytest.mark.parametrize(
    "kernels",
    [
        [kernel for kernel in hpcg.KERNELS if kernel.name not in ALONE],
        [contract.KERNELS[name] for name in (*SWEEPS, "restrict_full", "prolong_add", "dense_solve", "move")],
        [contract.DIRECT_SOLVE, contract.DIRECT_PART],
    ],
    ids=["hpcg", "multigrid", "factors"],
)
def test_names_are_whole_and_have_colors_of_their_own(kernels: list[Kernel]) -> None:
    """Dask makes a task's name of its key, and a hash of the name its color."""
    names = [labels.label_of(kernel) for kernel in (*(contract.KERNELS[name] for name in SHARED), *kernels)]
    names += [labels.EXCHANGE, labels.REDUCE]
    assert [key_split(f"{name}-L0-0123abcd") for name in names] == names
    assert len({color_of(name) for name in names}) == len(names)


def test_nothing_is_released_before_the_scheduler_has_read_the_graph(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that overtakes the graph would take what that needs away."""
    results = Results(client, list(client.nthreads()), "unread")
    seen: dict[str, str | None] = {"key": None}
    released: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(results, "_ask", lambda *_, keys: {key: seen[key] for key in keys})
        patch.setattr(results, "_newest", [SimpleNamespace(key="key", done=lambda: False)])
        patch.setattr(results, "_retired", [SimpleNamespace(release=lambda: released.append("old"))])
        results.release_unwanted()
        assert not released
        seen["key"] = "processing"
        results.release_unwanted()
        assert released == ["old"]
    results.close()
