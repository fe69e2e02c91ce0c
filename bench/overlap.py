"""Communication that an iteration leaves exposed, per level, and the cost of measuring it.

    python bench/overlap.py [--workers N] [--local 256 256 256] [--samples 10] [--spans FILE] [--trace FILE]

Without workers everything runs in this process. Iterations are timed in runs of 50, with and without a measured one at
the end; the difference is what measuring one iteration costs.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from dsolver import problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.benchmarks.hpcg.program import Benchmark
from dsolver.cluster.local import ClusterOptions, open_client
from dsolver.cluster.runtime import connect
from dsolver.engines.running_program import RunningProgram
from dsolver.grid.cut import cut_for
from dsolver.monitor.spans import Span, exposure, write_jsonl, write_trace
from dsolver.program.spec import SolveSpec

RUN = 50


def timed(job: RunningProgram[Benchmark], measured: bool) -> float:
    """Milliseconds of a run of iterations."""
    began = time.perf_counter()
    job.call(Benchmark.advance, RUN, measured)
    return 1e3 * (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--local", type=int, nargs=3, default=(256, 256, 256))
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--spans", type=Path)
    parser.add_argument("--trace", type=Path)
    args = parser.parse_args()
    crew = args.workers or 1
    chunks = cut_for(tuple(n * crew for n in args.local), crew, 8)
    grid = tuple(n * p for n, p in zip(args.local, chunks, strict=True))
    spec = SolveSpec.plan(problems.hpcg(grid), chunks, m=Hpcg())
    options = ClusterOptions(workers=args.workers, device=args.device)
    with open_client(options) as client:
        runtime = connect(client, device=args.device)
        with runtime.launch(Benchmark, spec, spec.partition) as job:
            job.call(Benchmark.set_rhs)
            job.call(Benchmark.start, 1e-150)
            job.call(Benchmark.advance, 2)
            spans: list[Span] = []
            plain, with_one, each = [], [], []
            began = time.perf_counter()
            job.call(Benchmark.advance, 1, True)
            job.spans()
            first = 1e3 * (time.perf_counter() - began)
            for _ in range(args.samples):
                job.call(Benchmark.start, 1e-150)
                plain.append(timed(job, measured=False))
                job.call(Benchmark.start, 1e-150)
                with_one.append(timed(job, measured=True))
                each.append(job.spans())
    for number, sample in enumerate(each, start=1):
        spans += [replace(span, iteration=number) for span in sample]
    report(args, grid, plain, with_one, first, spans)


def report(
    args: argparse.Namespace,
    grid: tuple[int, ...],
    plain: list[float],
    with_one: list[float],
    first: float,
    spans: list[Span],
) -> None:
    found = exposure(spans)
    assert found is not None
    ordinary = median(plain) / RUN
    print(f"{args.workers or 'no'} workers, grid {'x'.join(map(str, grid))}, {len(plain)} samples, medians")
    print(f"  ordinary iteration      {ordinary:8.4f} ms")
    print(
        f"  measured iteration      {found.iteration_ms:8.4f} ms  ({100 * (found.iteration_ms / ordinary - 1):+.2f} %)"
    )
    print(f"  a measured one in {RUN}    {median(with_one) - median(plain):+8.4f} ms a run of {median(plain):.2f} ms")
    print(f"  making it measurable    {first:8.2f} ms, once (with one iteration)")
    total = found.total
    print(f"  exposed: {total.ms:.4f} ms = {total.percent:.2f} % (rank with most), mean {total.mean_ms:.4f} ms")
    for name, level in found.levels.items():
        print(f"    {name:>5}  {level.ms:8.4f} ms  {level.percent:6.2f} %   mean {level.mean_ms:.4f} ms")
    busiest: dict[tuple[str, str, int | None], list[float]] = {}
    for span in spans:
        if span.rank == 0:
            busiest.setdefault((span.kind, span.name, span.level), []).append(1e3 * span.seconds)
    print("  rank 0: kind, name, level, ms an iteration")
    for (kind, name, at), ms in busiest.items():
        print(f"    {kind:9}{name:20}{'' if at is None else at!s:3}{sum(ms) / len(plain):8.4f}")
    if args.spans:
        write_jsonl(spans, args.spans)
    if args.trace:
        write_trace(spans, args.trace)


if __name__ == "__main__":
    main()
