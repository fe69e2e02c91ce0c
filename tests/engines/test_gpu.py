"""The engines on real GPUs: the same bits on one and on several, graphs that allocate nothing, honest containers."""

from __future__ import annotations

import os
import signal
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import pytest

import dsolver
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.cluster.runtime import Runtime, connect
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.running_program import RunningProgram
from dsolver.kernels import DENSE_ROWS
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from tests.support.programs import advance, start

GRID, CHUNKS, STEPS = (64, 64, 32), (2, 2, 2), 12
SOON = 15.0
"""Seconds within which a failure has to reach the client."""
SLACK = 4 << 20
"""Bytes that the driver may take for itself. Six vectors are more, and what six systems exchange ten times as much."""

P = TypeVar("P")
History = tuple[list[tuple[float, float]], dict[int, Any]]


def history(runtime: Runtime, order: str = "color8") -> History:
    """Residuals and solution blocks of some iterations, continued in a second call."""
    return iterated(runtime, SolveSpec.plan(dsolver.problems.hpcg(GRID), CHUNKS, order, Hpcg()))


def mg_history(runtime: Runtime, dtype: str = "float64") -> History:
    """Bits of general multigrid, on a grid that no number divides, with κ that varies."""
    problem = dsolver.problems.diffusion((51, 43, 37), rough, bc={"x": "periodic", "z": "dirichlet"})
    return iterated(runtime, SolveSpec.plan(problem, CHUNKS, precond_dtype=dtype))


def star_history(runtime: Runtime) -> History:
    """Bits with a finest level of which nothing is stored, and a second one that is not gathered either."""
    return iterated(runtime, SolveSpec.plan(dsolver.problems.poisson7((132, 136, 140)), CHUNKS))


def rough(x: Any, y: Any, z: Any) -> Any:
    """κ between 0.1 and 10."""
    return 10.0 ** (((x * 7 + y * 11 + z * 13) % 17 - 8.0) / 8.0)


def slopes(x: Any, y: Any, z: Any) -> Any:
    """κ that grows along each axis."""
    return 1.0 + (x + 2 * y + 3 * z) / 100.0


def blocks(x: Any, y: Any, z: Any) -> Any:
    """κ that jumps by 10⁴ between cells."""
    return np.where((x * 3 + y * 5 + z * 7) % 4 < 2, 1e4, 1.0)


def iterated(runtime: Runtime, spec: SolveSpec) -> History:
    """Residuals and solution blocks of some iterations on b = A 1, continued in a second call."""
    with runtime.launch(Solve, spec, spec.partition) as job:
        job.call(Solve.fill, "x", 1.0)
        job.call(Solve.b_from_x)
        job.call(Solve.fill, "x", 0.0)
        job.call(start)
        samples = [*job.call(advance, STEPS // 3), *job.call(advance, STEPS - STEPS // 3)]
        blocks = {number: on_host(block) for number, block in job.unload(Solve.solution).items()}
    return samples, blocks


def on_host(block: Any) -> Any:
    block = block.result() if hasattr(block, "key") else block
    return block.get() if hasattr(block, "get") else block


def assert_same(found: History, expected: History) -> None:
    assert found[0] == expected[0]
    for number, block in expected[1].items():
        np.testing.assert_array_equal(found[1][number], block)


@contextmanager
def gpu_cluster(workers: int) -> Iterator[Any]:
    from dask_cuda import LocalCUDACluster
    from distributed import Client

    with (
        LocalCUDACluster(
            n_workers=workers, device_memory_limit=None, memory_limit=None, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def serial() -> History:
    return history(connect(engine="reference", device="cuda"))


@pytest.mark.gpu
def test_recorded_graphs_give_the_bits_of_the_serial_engine(serial: History) -> None:
    assert_same(history(connect(device="cuda")), serial)


@pytest.mark.gpu
def test_the_gpu_agrees_with_the_cpu_to_rounding(serial: History) -> None:
    on_cpu = history(connect(engine="reference", device="cpu"))
    np.testing.assert_allclose([r for r, _ in serial[0]], [r for r, _ in on_cpu[0]], rtol=1e-10)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_general_multigrid_gives_the_same_bits_and_agrees_with_the_cpu(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DENSE_ROWS, "cuda", DENSE_ROWS["cpu"])  # as many levels on both
    expected = mg_history(connect(engine="reference", device="cuda"), dtype)
    assert_same(mg_history(connect(device="cuda"), dtype), expected)
    on_cpu = mg_history(connect(engine="reference", device="cpu"), dtype)
    found, wanted = ([r for r, _ in samples] for samples in (expected[0], on_cpu[0]))
    # In float32 the two round the preconditioner differently, which conjugate gradients carry on.
    relative, absolute = (1e-8, 0.0) if dtype == "float64" else (1e-2, 1e-10 * wanted[0])
    np.testing.assert_allclose(found, wanted, rtol=relative, atol=absolute)


@pytest.mark.gpu(2)
@pytest.mark.parametrize("told", [mg_history, star_history])
def test_general_multigrid_gives_the_same_bits_on_two_gpus(told: Callable[[Runtime], History]) -> None:
    expected = told(connect(engine="reference", device="cuda"))
    with gpu_cluster(2) as client:
        assert_same(told(connect(client, device="cuda")), expected)
        assert_same(told(connect(client, engine="graph", device="cuda")), expected)


@pytest.mark.gpu
def test_natural_order_on_the_gpu_is_the_natural_order() -> None:
    on_gpu = history(connect(device="cuda"), "natural")
    on_cpu = history(connect(engine="reference", device="cpu"), "natural")
    np.testing.assert_allclose([r for r, _ in on_gpu[0]], [r for r, _ in on_cpu[0]], rtol=1e-10)


@pytest.mark.gpu
def test_a_replayed_iteration_allocates_nothing() -> None:
    import cupy

    spec = SolveSpec.plan(dsolver.problems.hpcg(GRID), CHUNKS, m=Hpcg())
    with connect(device="cuda").launch(Solve, spec, spec.partition) as job:
        job.call(Solve.fill, "b", 1.0)
        job.call(start)
        job.call(advance, 2)
        pool = cupy.get_default_memory_pool()
        before = (pool.used_bytes(), pool.total_bytes())
        job.call(advance, 20)
        assert (pool.used_bytes(), pool.total_bytes()) == before


def pooled() -> int:
    """Bytes of CuPy's pool that are in use. What else the pool holds depends on how it has cut its blocks."""
    import cupy

    return int(cupy.get_default_memory_pool().used_bytes())


def past_the_pool() -> int:
    """Bytes of a process's GPU that are taken otherwise, by whomever: graphs, streams, what other GPUs write into."""
    import cupy

    free, whole = cupy.cuda.runtime.memGetInfo()
    return int(whole - free - cupy.get_default_memory_pool().total_bytes())


MEASURES = [
    pooled,
    pytest.param(
        past_the_pool,
        marks=pytest.mark.skipif(
            "PYTEST_XDIST_WORKER" in os.environ, reason="looks at a whole GPU, which tests beside this one use: no -n"
        ),
    ),
]


def updated_and_solved(solver: dsolver.Solver, times: int) -> None:
    for number in range(times):
        solver.update(kappa=layered if number % 2 else rough)
        assert solver.solve(np.ones(GRID), rtol=1e-6).converged


def layered(x: Any, y: Any, z: Any) -> Any:
    """κ of 1 and 10."""
    return 1.0 + 9.0 * ((x + y + z) % 9 < 4)


@pytest.mark.gpu
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_updates_and_solves_take_no_more_memory(dtype: Any, measure: Callable[[], int]) -> None:
    problem = dsolver.problems.diffusion(GRID, rough, chunks=CHUNKS)
    with dsolver.Solver(problem, device="cuda", precond_dtype=dtype) as solver:
        updated_and_solved(solver, 2)
        before = measure()
        updated_and_solved(solver, 6)
        assert measure() <= before + SLACK


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_set_up_that_has_foreseen_what_is_not_so_begins_again(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An iteration has been recorded by then. The bits are those of a process that foresees nothing."""
    from dsolver.kernels.cuda.launch import foresight

    b = np.random.default_rng(5).standard_normal((40, 36, 32))
    mistakes: list[Any] = []
    mistaken = foresight.CudaForesight._mistaken

    def noticed(self: Any) -> Any:
        mistakes.append(self)
        return mistaken(self)

    monkeypatch.setattr(foresight.CudaForesight, "_mistaken", noticed)
    monkeypatch.setattr(foresight, "_tapes", OrderedDict())

    def residuals(kappa: Any) -> tuple[float, ...]:
        problem = dsolver.problems.diffusion(b.shape, kappa)
        return dsolver.solve(problem, b, M="mg", device="cuda", precond_dtype=dtype).residuals

    jumping = residuals(blocks)
    foresight._tapes.clear()
    even = residuals(slopes)
    assert residuals(slopes) == even
    assert not mistakes
    assert residuals(blocks) == jumping
    assert len(mistakes) == 1
    assert residuals(slopes) == even


@pytest.mark.gpu
def test_later_systems_have_the_streams_of_those_that_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams come with the memory of ended systems: CuPy's pool keeps it for arrays of the same stream."""
    from dsolver.engines.eager import cuda_graph

    monkeypatch.setattr(cuda_graph, "_IDLE", cuda_graph._IdleStreams())
    used: list[Any] = []
    take = cuda_graph._IdleStreams.take

    def taken(idle: Any, device: int) -> Any:
        used.append(take(idle, device))
        return used[-1]

    monkeypatch.setattr(cuda_graph._IdleStreams, "take", taken)
    grid = (12, 12, 12)
    problem = dsolver.problems.diffusion(grid, rough)
    for m in ("mg", "amg", "amg"):
        with dsolver.Solver(problem, M=m, device="cuda", precond_dtype="float32") as solver:
            assert solver.solve(np.ones(grid), rtol=1e-2).converged
    with dsolver.Solver(problem, device="cuda"), dsolver.Solver(problem, device="cuda"):
        assert len({stream.ptr for stream in used[:3]}) == 1
        assert len({stream.ptr for stream in used[3:]}) == 2


@pytest.mark.gpu(2)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("link", ["", "nccl"])
def test_updates_and_solves_take_no_more_memory_of_two_gpus(link: str, measure: Callable[[], int]) -> None:
    problem = dsolver.problems.diffusion(GRID, rough, chunks=CHUNKS)
    with gpu_cluster(2) as client:
        client.run(set_link, link)
        with dsolver.Solver(problem, client=client, device="cuda") as solver:
            updated_and_solved(solver, 2)
            before = client.run(measure)
            updated_and_solved(solver, 6)
            after = client.run(measure)
    assert all(after[worker] <= taken + SLACK for worker, taken in before.items())


def measured(runtime: Runtime) -> tuple[list[Any], list[Any]]:
    """The spans of some measured iterations, and all residuals."""
    spec = SolveSpec.plan(dsolver.problems.hpcg(GRID), CHUNKS, m=Hpcg())
    with runtime.launch(Solve, spec, spec.partition) as job:
        job.call(Solve.fill, "x", 1.0)
        job.call(Solve.b_from_x)
        job.call(Solve.fill, "x", 0.0)
        job.call(start)
        samples = [*job.call(advance, 1)]  # records the step; only then it can be recorded with events in it
        samples += job.call(advance, STEPS // 3, True)
        first = job.spans()
        samples += job.call(advance, STEPS - STEPS // 3 - 1, True)
        spans = job.spans()
    kinds = [(span.rank, span.kind, span.name, span.level, span.chunk) for span in spans]
    assert [(span.rank, span.kind, span.name, span.level, span.chunk) for span in first] == kinds
    for span in (*first, *spans):
        assert 0.0 <= span.seconds < 0.1
    return spans, samples


@pytest.mark.gpu
def test_measuring_changes_no_bit_and_tells_every_operation(serial: History) -> None:
    spans, samples = measured(connect(device="cuda"))
    assert samples == serial[0]
    wanted = {(kind, level) for level in range(3) for kind in ("inner", "boundary", "pack", "exchange")}
    assert {(span.kind, span.level) for span in spans} >= wanted | {("coarse", 3)}
    ends = [span.stop for span in spans if not span.beside]
    assert ends == sorted(ends)


@pytest.mark.gpu(2)
def test_measuring_two_gpus_tells_what_they_wait_for(serial: History) -> None:
    with gpu_cluster(2) as client:
        spans, samples = measured(connect(client, device="cuda"))
    assert samples == serial[0]
    for rank in (0, 1):
        own = [span for span in spans if span.rank == rank]
        assert {("wait", 0), ("wait", 2), ("reduce", None)} <= {(span.kind, span.level) for span in own}
        assert {span.level for span in own if span.beside and span.kind == "exchange"} == {0, 1, 2}
    assert abs(min(s.start for s in spans if s.rank == 0) - min(s.start for s in spans if s.rank == 1)) < 0.01


@pytest.mark.gpu
def test_cupy_in_cupy_out() -> None:
    import cupy

    problem = dsolver.problems.poisson7((32, 32, 32))
    b = cupy.random.default_rng(0).standard_normal(problem.grid)
    solution = dsolver.solve(problem, b)
    assert solution.converged
    assert isinstance(solution.x, cupy.ndarray)
    expected = dsolver.solve(problem, cupy.asnumpy(b), device="cpu").x
    np.testing.assert_allclose(cupy.asnumpy(solution.x), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.gpu
def test_threads_of_a_process_solve_at_the_same_time() -> None:
    import cupy

    problems = [
        dsolver.problems.diffusion((40, 40, 40), 1.0 + cupy.arange(40**3).reshape(40, 40, 40) % n) for n in (3, 4, 5, 7)
    ]
    b = cupy.random.default_rng(0).standard_normal((40, 40, 40))
    expected = [dsolver.solve(problem, b).x for problem in problems]

    def several(problem: Any) -> Any:
        with dsolver.Solver(problem) as solver:  # graphs are captured by one while others wait for the device
            return [solver.solve(b).x for _ in range(5)][-1]

    with ThreadPoolExecutor(len(problems)) as pool:
        found = list(pool.map(several, problems))
    for mine, alone in zip(found, expected, strict=True):
        np.testing.assert_array_equal(cupy.asnumpy(mine), cupy.asnumpy(alone))


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_one_gpu_worker_gives_the_same_bits(engine: Any, serial: History) -> None:
    with gpu_cluster(1) as client:
        assert_same(history(connect(client, engine=engine, device="cuda")), serial)


@pytest.mark.gpu(2)
@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_two_gpus_give_the_same_bits(engine: Any, serial: History) -> None:
    with gpu_cluster(2) as client:
        assert_same(history(connect(client, engine=engine, device="cuda")), serial)


@pytest.mark.gpu(4)
def test_four_gpus_give_the_same_bits(serial: History) -> None:
    with gpu_cluster(4) as client:
        assert_same(history(connect(client, device="cuda")), serial)


@pytest.mark.gpu(2)
@pytest.mark.parametrize(("link", "name"), [("", "peer GPU memory"), ("nccl", "NCCL")])
def test_each_link_between_gpus_gives_the_same_bits(link: str, name: str, serial: History) -> None:
    with gpu_cluster(2) as client:
        client.run(set_link, link)
        runtime = connect(client, device="cuda")
        with launch(runtime, Linked) as job:
            assert job.call(Linked.link) == name
        assert_same(history(runtime), serial)


@pytest.mark.gpu(2)
@pytest.mark.parametrize("link", ["", "nccl"])
def test_algebraic_levels_on_two_gpus_give_the_bits_of_one(link: str) -> None:
    """Rows of three levels, of which two are distributed, travel as messages over each link."""
    m = dsolver.preconditioners.Algebraic(coarse_rows=20, gathered_rows=100)
    kappa = 10.0 ** np.random.default_rng(0).uniform(-2.0, 2.0, (24, 20, 28))
    problem = dsolver.problems.diffusion(kappa.shape, kappa, chunks=(1, 1, 4))
    b = np.random.default_rng(1).standard_normal(kappa.shape)
    alone = dsolver.solve(problem, b, M=m, device="cuda")
    with gpu_cluster(2) as client:
        client.run(set_link, link)
        for cut in ((1, 1, 4), (2, 1, 2)):
            problem = dsolver.problems.diffusion(kappa.shape, kappa, chunks=cut)
            found = dsolver.solve(problem, b, M=m, device="cuda", client=client)
            assert found.residuals[-1] == pytest.approx(alone.residuals[-1], rel=1e-6)
            assert found.iterations == alone.iterations
            if cut == (1, 1, 4):
                assert found.residuals == alone.residuals


@pytest.mark.gpu(2)
@pytest.mark.parametrize("link", ["", "nccl"])
def test_arrays_are_taken_as_they_lie_and_go_to_their_chunks_between_gpus(link: str) -> None:
    import dask.array as da

    def values(x: Any, y: Any, z: Any) -> Any:
        return (7.0 * x + 5.0 * y + 3.0 * z) % 11.0 - 5.0

    grid = (128, 96, 160)
    b = np.fromfunction(values, grid)
    problem = dsolver.problems.diffusion(grid, 2.0, chunks=(1, 1, 2))
    alone = dsolver.solve(problem, b, M="jacobi", maxiter=5, device="cuda").x
    with gpu_cluster(2) as client:
        client.run(set_link, link)
        with dsolver.Solver(problem, M="jacobi", client=client, device="cuda") as solver:
            for right in (b, da.fromfunction(values, shape=grid, chunks=(50, 96, 90), dtype=np.float64).persist()):
                assert np.array_equal(np.asarray(solver.solve(right, maxiter=5).x), alone)


@pytest.mark.gpu(2)
def test_a_failing_rank_ends_the_job_on_gpus() -> None:
    with gpu_cluster(2) as client:
        with pytest.raises(dsolver.RankError, match="rank"):
            launch(connect(client, device="cuda"), Solve).call(fail)
        assert_works(client)


@pytest.mark.gpu(2)
@pytest.mark.parametrize("link", ["", "nccl"])
@pytest.mark.parametrize("how", ["raises", "dies"])
def test_a_rank_that_leaves_the_others_waiting_on_their_gpus(link: str, how: str) -> None:
    with gpu_cluster(2) as client:
        client.run(set_link, link)
        job = launch(connect(client, device="cuda"), Linked)
        began = time.monotonic()
        with pytest.raises(dsolver.RankError, match="bad luck" if how == "raises" else "worker"):
            job.call(Linked.leave, how)
        assert time.monotonic() - began < SOON
        client.wait_for_workers(2, timeout=60)
        assert_works(client)


def fail(_: Solve) -> None:
    raise ValueError("bad luck")


def set_link(link: str) -> None:
    """On a worker, what the next jobs there use."""
    os.environ["DSOLVER_GPU_LINK"] = link


class Linked:
    """A solve whose second rank may leave while the first waits for it. Workers import it from this module."""

    def __init__(self, engine: EagerEngine, spec: SolveSpec) -> None:
        self._engine = engine
        self._solve = Solve(engine, spec)
        self._solve.fill("b", 1.0)
        start(self._solve)

    def link(self) -> str:
        return self._engine.transport.name

    def leave(self, how: str) -> None:
        advance(self._solve, 5)
        if len(self._engine.partition) - 1 in self._engine.owned:
            time.sleep(1.0)
            if how == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("bad luck")
        advance(self._solve, 50)


def launch(runtime: Runtime, program: Callable[[Any, SolveSpec], P]) -> RunningProgram[P]:
    """A program that was started."""
    spec = SolveSpec.plan(dsolver.problems.hpcg(GRID), CHUNKS, m=Hpcg())
    job = runtime.launch(program, spec, spec.partition)
    job.settle()
    return job


def assert_works(client: Any) -> None:
    assert dsolver.solve(dsolver.problems.hpcg((32, 16, 16)), np.ones((32, 16, 16)), client=client).converged
