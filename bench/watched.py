"""The dashboard during a solve, on the GPUs (or CPU workers) of this machine, kept as files.

    python bench/watched.py --workers 2 --out FOLDER
    python bench/watched.py --workers 2 --device cpu --out FOLDER

Solves HPCG's system again and again for some seconds, and meanwhile looks at what a browser would: the page /dsolver
(kept as it is served, and as one file with what it showed), its data, and the scheduler's performance report with the
rows of each rank. Says what it found, and fails if anything is missing that the page promises.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import dask.array as da
from bokeh.client import pull_session
from bokeh.embed import file_html
from bokeh.resources import INLINE
from distributed import Client, get_task_stream, performance_report

from dsolver import Solver, problems
from dsolver.cluster.local import ClusterOptions, open_client
from dsolver.grid.cut import cut_for
from dsolver.monitor.spans import WORK, write_jsonl

RTOL = 1e-10
PAUSE = 0.2
"""Seconds between two looks."""


class Onlooker:
    """Looks at the page while something runs, and keeps what it saw last of a solve that ran."""

    def __init__(self, link: str) -> None:
        self._link = link
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.looks = 0
        self.solve: dict[str, Any] = {}
        self.page = self.served = ""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(PAUSE):
            try:
                solves = json.loads(get(f"{self._link}.json"))
            except OSError:  # the page comes with the first solve that lasts
                continue
            running = [s for s in solves.values() if s["end"] is None and s["spans"] and (s["state"] or {}).get("rate")]
            if not running:
                continue
            self.looks += 1
            self.solve = running[-1]
            self.served = get(self._link)
            self.page = file_html(pull_session(url=self._link).document, INLINE, "dsolver")


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310
        return str(answer.read().decode())


def solve_for(client: Client, local: tuple[int, int, int], device: Any, seconds: float, out: Path) -> None:
    """Solves for so many seconds; the spans of the last one go to a file."""
    workers = len(client.nthreads())
    chunks = cut_for((1 << 12,) * 3, workers, 8)
    grid = tuple(n * p for n, p in zip(local, chunks, strict=True))
    b = da.random.default_rng(0).random(grid, chunks=local).persist()
    measured: list[Any] = []
    with Solver(problems.hpcg(grid), client=client, device=device, M="hpcg") as solver:
        solution = solver.solve(b, rtol=RTOL, spans=measured.append)  # kernels are compiled for it where none were
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            solution = solver.solve(b, rtol=RTOL, spans=measured.append)
    print(f"{solution}\n{len(measured)} measured iterations")
    write_jsonl([span for spans in measured[-3:] for span in spans], out / "spans.jsonl")


def found(solve: dict[str, Any], rows: set[str]) -> dict[str, tuple[bool, str]]:
    """Promises of the page by name: whether each is kept, and its figures."""
    start, state, spans = solve["start"], solve["state"], solve["spans"]
    columns, exposure = spans["spans"], spans["exposure"]
    lanes = set(zip(columns["rank"], columns["lane"], strict=True))
    kinds = [{k for k, rank in zip(columns["kind"], columns["rank"], strict=True) if rank == r} for r in range(2)]
    ranks = range(len(start["workers"]))
    moved, copied = start["iteration_bytes"], start["copy_bandwidth"]
    levels = ", ".join(f"{name} {level['percent']:.2f} %" for name, level in exposure["levels"].items())
    speed = moved * state["rate"] if moved else 0.0
    prefix = "gpu" if start["device"] == "cuda" else "cpu"
    told = {worker: {where: used for where, used, _ in parts} for worker, parts in solve["memory"].items()}
    return {
        "residuals": (len(solve["residuals"]) > 1, f"{len(solve['residuals'])}, the last {solve['residuals'][-1]:.3e}"),
        "lanes": (lanes == {(r, lane) for r in ranks for lane in ("main", "halo")}, str(sorted(lanes))),
        "work and exchange": (all(k & WORK and "exchange" in k for k in kinds), str([sorted(k) for k in kinds])),
        "exposed": (len(exposure["levels"]) > 1, f"{exposure['exposed_percent']:.2f} %; {levels}"),
        "iterations/s": (state["rate"] > 0, f"{state['rate']:.1f}"),
        "GB/s": (bool(speed and copied), f"{speed / 1e9:.0f} of {(copied or 0) / 1e9:.0f}"),
        "memory": (
            set(told) == set(start["workers"]) and all(prefix == "cpu" or used.get("GPU") for used in told.values()),
            str(told),
        ),
        "rows of the task stream": (
            rows >= {f"{prefix}{r}-{lane}" for r in ranks for lane in ("inner", "halo")},
            str(sorted(rows)),
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument(
        "--local", type=int, nargs=3, help="points of each worker's chunk; by default 256 256 256, on CPUs 32 32 32"
    )
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    args = parser.parse_args()
    local = tuple(args.local or (256 if args.device == "cuda" else 32,) * 3)
    args.out.mkdir(parents=True, exist_ok=True)
    with open_client(ClusterOptions(workers=args.workers, device=args.device)) as client:
        assert client is not None
        link = client.dashboard_link.rpartition("/")[0] + "/dsolver"
        print(f"{link} shows it", flush=True)
        with (
            performance_report(filename=str(args.out / "performance.html")),
            get_task_stream(client) as stream,
            Onlooker(link) as onlooker,
        ):
            solve_for(client, local, args.device, args.seconds, args.out)
            time.sleep(2 * PAUSE)
    rows = {str(record["thread"]) for record in stream.data} - {str(i) for i in range(10)}
    keep(args.out, {"dsolver.json": json.dumps(onlooker.solve), "dsolver.html": onlooker.page}.items())
    keep(args.out, [("served.html", onlooker.served)])
    print(f"{onlooker.looks} looks at a running solve")
    missing = [what for what, there in report(lambda: found(onlooker.solve, rows)).items() if not there]
    if missing:
        raise SystemExit(f"missing: {', '.join(missing)}")


def keep(folder: Path, files: Any) -> None:
    for name, text in files:
        (folder / name).write_text(text, encoding="utf-8")


def report(look: Callable[[], dict[str, tuple[bool, str]]]) -> dict[str, bool]:
    """Print what was found; whether each is there."""
    each = look()
    for what, (there, figures) in each.items():
        print(f"{'yes' if there else 'NO ':4}{what:24}{figures}")
    return {what: there for what, (there, _) in each.items()}


if __name__ == "__main__":
    main()
