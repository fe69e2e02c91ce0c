"""Products y = A x in every format over many matrices, against cuSPARSE in the same run.

    python bench/spmv.py [FOLDER] [--scale 1.0] [--only NAME ...] [--processes 12] [--json FILE] [--dtype float64]

Matrices come from lib/matrices.py: those in FOLDER, or made there first. Every kernel's result is compared with
SciPy's. Times are medians of CUDA graphs of as many products as take two milliseconds. "of copy" is the bytes that must
move (entries without holes in this format, row descriptions, x once, y once) a second as part of a copy's in this run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from lib.matrices import MATRICES
from lib.timing import copy_bandwidth, in_graph, timed
from rivals.cusparse import Product, VendorError, seconds
from scipy import sparse

from dsolver.kernels.cuda.block_slices import products as slices
from dsolver.kernels.cuda.csr import products as rows
from dsolver.kernels.cuda.csr.statistics import statistics
from dsolver.kernels.formats.choice import gpu_choice
from dsolver.kernels.formats.csr import Csr

MOST_PADDING = 3.0
WINDOWS = (1, 256, 1024)
LONG_ENOUGH = 2e-3
NOTHING = {"seconds": float("inf"), "bytes": 0, "convert": float("nan"), "error": float("nan")}


def per_product(work: Callable[[], object], stream: Any) -> float:
    """Seconds of one product among many in a CUDA graph."""
    once = in_graph(stream, work)
    first = timed(once, 3)
    count = max(1, min(200, int(LONG_ENOUGH / max(first, 1e-6))))

    def many() -> None:
        for _ in range(count):
            work()

    return timed(in_graph(stream, many), 5) / count


class Case:
    """A matrix on the device, with what its products must give."""

    def __init__(self, host: Any, dtype: str, stream: Any) -> None:
        self.stream = stream
        host = host.astype(dtype)
        self.host, self.entries = host, host.nnz
        self.start32 = cupy.asarray(host.indptr)
        columns, values = cupy.asarray(host.indices), cupy.asarray(host.data)
        self.csr, self.dtype = Csr(self.start32.astype(np.int64), columns, values), dtype
        self.wide = self.csr._replace(values=values.astype(np.float64, copy=False))  # of which slices are made
        x = np.random.default_rng(7).standard_normal(host.shape[1]).astype(dtype)
        self.want = host.astype(np.float64) @ x.astype(np.float64)
        self.size = np.abs(host).astype(np.float64) @ np.abs(x).astype(np.float64) + 1e-300
        self.x, self.y = cupy.asarray(x), cupy.empty(host.shape[0], dtype=dtype)
        self.longest = int(np.diff(host.indptr).max(initial=1))
        self.vector_bytes = int(self.x.nbytes + self.y.nbytes)

    def measured(self, work: Callable[[], object], nbytes: float, convert: float) -> dict[str, float]:
        """Time and error of a product that writes y."""
        self.y.fill(np.nan)
        work()
        self.stream.synchronize()
        first = cupy.asnumpy(self.y)
        error = float((np.abs(first - self.want) / self.size).max())
        took = per_product(work, self.stream)
        again = cupy.asnumpy(self.y)
        return {
            "seconds": took,
            "bytes": nbytes + self.vector_bytes,
            "convert": convert,
            "error": error if np.array_equal(first, again) else float("nan"),
        }


def ours(case: Case) -> dict[str, dict[str, Any]]:
    """Times of every format."""
    return {**in_rows(case), **in_chunks(case), **in_slices(case)}


def in_rows(case: Case) -> dict[str, dict[str, Any]]:
    """Compressed rows as they are."""
    matrix, shape, out = case.csr, case.host.shape, {}
    for threads in rows.LANES:
        if threads < 32 and case.longest > 10**5:
            continue
        plain = rows.CudaRows(shape=shape, entries=matrix, threads=threads)
        out[f"csr {threads}"] = case.measured(lambda p=plain: p.spmv(case.x, case.y), plain.nbytes, 0.0)
    return out


def in_chunks(case: Case) -> dict[str, dict[str, Any]]:
    out = {}
    one = rows.chunks(case.csr, case.host.shape[1], case.longest)
    convert = seconds(lambda: rows.chunks(case.csr, case.host.shape[1], case.longest))
    wide = cupy.asnumpy(cupy.bincount((one.chunks[:-1, 3] == 2**32 - 1).astype(np.int64), minlength=2))
    entry = case.measured(lambda: one.spmv(case.x, case.y), one.nbytes, convert)
    out["chunks"] = {**entry, "kinds": [int(k) for k in wide]}
    return out


def in_slices(case: Case) -> dict[str, dict[str, Any]]:
    out, matrix, shape, dtype = {}, case.wide, case.host.shape, case.dtype
    known = statistics(matrix, shape[1], dtype=dtype)
    for block, window in product((1, 2, 3, 4, 6), WINDOWS):
        if any(n % block for n in shape) or (block > 1 and (window == 1024 or known.stored[block].fill < 0.6)):
            continue
        if padding(matrix, block, window) > MOST_PADDING:
            continue
        name = f"slices {window}" if block == 1 else f"blocks {block}" + ("" if window == 1 else " s")
        one = slices.made(matrix, shape[1], dtype, block=block, window=window)
        convert = seconds(lambda b=block, w=window: slices.made(matrix, shape[1], dtype, block=b, window=w))
        cupy.cuda.get_current_stream().synchronize()
        stored = int(one.values.nbytes) + int(one.indices.nbytes)
        real = case.entries / max(1, one.values.size)
        must = stored * real + one.nbytes - stored
        kinds = cupy.asnumpy(cupy.bincount(one.slices[:, 2].astype(np.int64) & 3, minlength=3))
        entry = case.measured(lambda p=one: p.spmv(case.x, case.y), must, convert)
        out[name] = {**entry, "kinds": [int(k) for k in kinds], "padding": 1.0 / real}
        del one
    return out


def padding(matrix: Csr, block: int, window: int) -> float:
    """Entries with holes as part of those without, about."""
    length = slices.lengths(matrix, block)
    if window > 1:
        whole = cupy.zeros(-(-len(length) // window) * window, dtype=np.int32)
        whole[: len(length)] = length
        length = cupy.sort(whole.reshape(-1, window), axis=1).reshape(-1)
    whole = cupy.zeros(-(-len(length) // 32) * 32, dtype=np.int64)
    whole[: len(length)] = length
    return float(whole.reshape(-1, 32).max(axis=1).sum() * 32 / max(1, int(whole.sum())))


def theirs(case: Case) -> dict[str, dict[str, float]]:
    """Times of the vendor's algorithms."""
    out: dict[str, dict[str, float]] = {}
    arrays = (case.start32, case.csr.columns, case.csr.values)
    plain = sum(int(part.nbytes) for part in arrays)
    for algorithm in ("CSR 1", "CSR 2", "sliced ELL"):
        if algorithm == "sliced ELL" and padding(case.csr, 1, 1) > MOST_PADDING:
            continue
        try:
            product = Product(algorithm, *arrays, case.host.shape, case.x, case.y)
            convert = seconds(product.prepare)
            out[algorithm] = case.measured(product, plain, convert)
        except (VendorError, AttributeError) as error:
            print(f"    {algorithm}: {error}")
    return out


def chosen_format(case: Case) -> dict[str, Any]:
    """Format that is chosen without measuring, and seconds of its statistics."""
    known = statistics(case.csr, case.host.shape[1], dtype=case.dtype)
    choice = gpu_choice(known)
    names = {"rows": f"csr {choice.threads}", "chunks": "chunks", "slices": f"slices {choice.window}"}
    return {
        "name": f"blocks {choice.block}" if choice.block > 1 else names[choice.name],
        "why": choice.why,
        "seconds": seconds(lambda: statistics(case.csr, case.host.shape[1], dtype=case.dtype)),
        "lengths": {"mean": known.mean, "deviation": known.variance**0.5, "longest": known.longest},
    }


def line(name: str, cells: list[Any]) -> str:
    return f"{name:17}" + "".join(
        f"{str(cell).replace('slices', 'sl').replace('blocks', 'b').replace('chunks', 'ch'):>9}" for cell in cells
    )


def report(found: dict[str, Any], copy: float) -> None:
    """Tables of all matrices."""
    formats = list(dict.fromkeys(f for one in found.values() for f in one["ours"]))
    print("\ntimes as parts of the vendor's best (above 1: slower); last columns: its algorithms")
    print(line("", [*formats, "CSR 1", "CSR 2", "SELL", "us"]))
    ratios = {}
    for name, one in found.items():
        vendor = {k: v["seconds"] for k, v in one["vendor"].items()}
        best = min(vendor.values(), default=float("nan"))
        times = [one["ours"].get(f, NOTHING)["seconds"] for f in formats]
        others = [vendor.get(f, float("inf")) for f in ("CSR 1", "CSR 2", "sliced ELL")]
        cells = [f"{t / best:.2f}" if t < float("inf") else "-" for t in (*times, *others)]
        print(line(name, [*cells, f"{best * 1e6:.1f}"]))
        ratios[name] = best / min(times)
    print("\nbest format: times faster than the vendor's best, part of copy, conversion in products, widest error")
    for name, one in found.items():
        best = min(one["ours"], key=lambda f: one["ours"][f]["seconds"])
        entry, vendor = one["ours"][best], min(one["vendor"].values(), key=lambda v: v["seconds"], default=NOTHING)
        error, lengths = max(v["error"] for v in one["ours"].values()), one["choice"]["lengths"]
        print(
            f"{name:17} {one['rows']:>9} rows {one['entries']:>10} entries {best:12} {ratios[name]:5.2f} x "
            f"{entry['bytes'] / entry['seconds'] / copy:6.1%} of copy "
            f"(vendor {vendor['bytes'] / vendor['seconds'] / copy:6.1%}) "
            f"convert {entry['convert'] / entry['seconds']:6.1f}  kinds {entry.get('kinds', '')} "
            f"pad {entry.get('padding', 1.0):.2f} error {error:.0e} "
            f"lengths {lengths['mean']:.1f} ± {lengths['deviation']:.1f}, {lengths['longest']:.0f}"
        )
    print("\nchoice: its time as part of the best one's and of the vendor's, statistics and conversion in products")
    against, made = {}, []
    for name, one in found.items():
        choice, vendor = one["choice"], min(v["seconds"] for v in one["vendor"].values())
        entry, best = one["ours"][choice["name"]], min(v["seconds"] for v in one["ours"].values())
        against[name] = vendor / entry["seconds"]
        made.append((choice["seconds"] + entry["convert"]) / entry["seconds"])
        print(
            f"{name:17} {choice['name']:11} {entry['seconds'] / best:5.2f} {entry['seconds'] / vendor:5.2f} "
            f"{choice['seconds'] / entry['seconds']:6.1f} {entry['convert'] / entry['seconds']:6.1f}  {choice['why']}"
        )
    print(f"statistics and conversion in products: median {np.median(made):.1f}, at most {max(made):.0f}")
    banded = {name: against_in_banded_order(found, name) for name in found}
    for title, ratio in (("", against), (', random orders by order="rcm"', banded)):
        worst = min(ratio, key=lambda name: ratio[name])
        mean = float(np.exp(np.mean(np.log(list(ratio.values())))))
        print(f"choice against the vendor{title}: geometric mean {mean:.3f}, worst {ratio[worst]:.3f} ({worst})")
    mean = float(np.exp(np.mean(np.log([r for r in ratios.values() if np.isfinite(r)]))))
    print(f"geometric mean {mean:.3f}, worst {min(ratios.values()):.3f} ({min(ratios, key=lambda n: ratios[n])})")


def against_in_banded_order(found: dict[str, Any], name: str) -> float:
    """Times faster than the vendor's best if the chunk's rows are reordered where they come in random order.

    The vendor has them as they come. NAME_rcm is the same matrix as NAME_random, in the order of `order="rcm"`.
    """
    ordered = found.get(name.replace("_random", "_rcm"), found[name])
    vendor = min(v["seconds"] for v in found[name]["vendor"].values())
    return float(vendor / ordered["ours"][ordered["choice"]["name"]]["seconds"])


def check(stream: Any, dtype: str) -> None:
    """Every kernel on small matrices beyond a warp, with odd remainders."""
    rng = np.random.default_rng(11)
    tail = np.minimum((rng.pareto(1.0, 3001) * 2).astype(np.int64), 3001)
    tail[7], tail[40:90] = 3001, 0
    at = np.repeat(np.arange(3001), tail), np.concatenate([rng.choice(3001, k, replace=False) for k in tail])
    cases = {
        "random": sparse.random(1003, 1003, 0.02, random_state=1, format="csr"),
        "tail": sparse.csr_matrix((rng.standard_normal(tail.sum()), at), shape=(3001, 3001)),
        "wide": sparse.random(77, 300001, 0.001, random_state=2, format="csr"),
        "blocks": sparse.kron(sparse.random(97, 97, 0.1, random_state=3), np.ones((12, 12))).tocsr(),
        "lattice": MATRICES["lattice7"](0.0003),
        "lattice blocks": sparse.kron(MATRICES["lattice27"](0.0003), rng.random((3, 3))).tocsr(),
        "one": sparse.csr_matrix(np.ones((1, 1))),
    }
    limit = 1e-13 if dtype == "float64" else 1e-5
    for name, host in cases.items():
        host.sort_indices()
        case = Case(sparse.csr_matrix(host), dtype, stream)
        for kind, entry in ours(case).items():
            assert entry["error"] < limit, (name, kind, entry["error"])
        if host.shape[0] == host.shape[1]:
            dot, x, y = cupy.zeros(1), case.x, case.y
            wide = host.shape[1]
            products = [rows.CudaRows(shape=host.shape, entries=case.csr, threads=t) for t in rows.LANES]
            assert bool((products[0].diagonal() == cupy.asarray(host.astype(dtype).diagonal())).all())
            others: list[Any] = [rows.chunks(case.csr, wide, case.longest)]
            blocks = [b for b in (1, 2, 3, 4, 6) if host.shape[0] % b == 0]
            others += [slices.made(case.wide, wide, dtype, block=b, window=w) for b in blocks for w in (1, 64)]
            cupy.cuda.get_current_stream().synchronize()  # products read slices before they wait for these
            exact = float(case.x.get().astype(np.float64) @ case.want)
            for one in (*products, *others):
                one.spmv_dot(x, y, dot)
                assert abs(float(dot[0]) - exact) <= 1e4 * limit * float(np.abs(case.x.get()) @ case.size), (
                    name,
                    product,
                )
    print(f"every kernel gives SciPy's product and dot product ({dtype}, {len(cases)} small matrices)", flush=True)


def file_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.npz"


def maker_of(folder: Path, names: Sequence[str], scale: float, processes: int) -> subprocess.Popen[bytes] | None:
    """A process that makes the matrices whose files are not there; None where all are."""
    missing = [name for name in names if not file_of(folder, name).exists()]
    command = [sys.executable, str(Path(__file__).with_name("matrices.py")), str(folder), "--only", *missing]
    command += ["--scale", str(scale), "--processes", str(processes)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL) if missing else None


def as_they_come(names: list[str], folder: Path, maker: Any, until: float) -> Iterator[str]:
    """Matrices whose files are there, until all were, their maker has ended, or the time is over."""
    left = list(names)
    while left and time.perf_counter() < until:
        over = maker is None or maker.poll() is not None
        ready = [name for name in left if file_of(folder, name).exists()]
        if ready:
            left.remove(ready[0])
            yield ready[0]
        elif over:
            break
        else:
            time.sleep(0.2)
    if left:
        print(f"left out: {', '.join(left)}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, nargs="?", default=Path(tempfile.gettempdir()) / "dsolver-matrices")
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--only", nargs="+", default=tuple(MATRICES), choices=tuple(MATRICES))
    options.add_argument("--processes", type=int, default=12)
    options.add_argument("--json", type=Path)
    options.add_argument("--dtype", default="float64", choices=("float64", "float32"))
    options.add_argument("--seconds", type=float, default=1e9, help="begin no matrix after so many seconds")
    chosen = options.parse_args()
    began = time.perf_counter()
    maker = maker_of(chosen.folder, chosen.only, chosen.scale, chosen.processes)
    found: dict[str, Any] = {}
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        check(stream, chosen.dtype)
        copy = copy_bandwidth()
        print(f"copy {copy / 1e9:.0f} GB/s, {cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}", flush=True)
        for name in as_they_come(list(chosen.only), chosen.folder, maker, began + chosen.seconds):
            started = time.perf_counter()
            case = Case(sparse.load_npz(file_of(chosen.folder, name)), chosen.dtype, stream)
            found[name] = {
                "rows": case.host.shape[0],
                "entries": case.entries,
                "choice": chosen_format(case),
                "ours": ours(case),
                "vendor": theirs(case),
            }
            del case
            stream.synchronize()
            cupy.get_default_memory_pool().free_all_blocks()
            now = time.perf_counter()
            print(f"  {name}: {now - started:.1f} s, until {now - began:.0f} s", flush=True)
            if chosen.json:
                chosen.json.write_text(json.dumps({"copy": copy, "matrices": found}, indent=1))
    if maker:
        maker.terminate()
    report(found, copy)


if __name__ == "__main__":
    main()
