"""Reports of runs as a picture or a page: convergence, lanes, roofline, scaling.

A report is made from the files that runs write: JSON of `dsolver solve`, `dsolver hpcg` and `bench/gpu.py`, and spans
as JSON lines. Each panel appears when a file has what it shows.
"""

import html
import importlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dsolver.errors import InputError, of_extra
from dsolver.monitor.history import SolveRecord
from dsolver.monitor.pages.lanes import COLORS, EXPLANATION, LANE, MEANINGS, TIME, rectangles
from dsolver.monitor.spans import exposed_text, exposure, read_jsonl, to_columns

PANEL_HEIGHT: Final = 3.2  # height of a panel in inches


@dataclass(kw_only=True)
class Material:
    """The content of the files of a report, by file name, and the spans of measured iterations."""

    runs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    solves: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    kernels: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    spans: dict[str, SolveRecord] = field(default_factory=dict)


def read(paths: Sequence[Path]) -> Material:
    """The content of files that runs have written. InputError: no report can be made of one."""
    found = Material()
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"cannot read {path}: it is no text ({error.reason})") from error
        if path.suffix == ".jsonl" or "\n{" in text.lstrip():
            found.spans[path.name] = _measured(path)
            continue
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"cannot read {path}: it is no JSON ({error})") from error
        if isinstance(content, dict) and {"residuals", "gflops"} <= content.keys():
            found.runs[path.name] = content
        elif isinstance(content, dict) and {"residuals", "status", "b_norm"} <= content.keys():
            found.solves[path.name] = content
        elif isinstance(content, dict) and "kernels" in content and "copy_gbs" in content:
            found.kernels[path.name] = content
        else:
            raise InputError(
                f"{path} is none of: JSON of dsolver solve --json, dsolver hpcg --json or bench/gpu.py --json, spans "
                "of --spans"
            )
    return found


def write(material: Material, path: Path) -> None:
    """The report as one page (.html) or a picture (.png). InputError: another ending, or there is no matplotlib."""
    if path.suffix not in (".html", ".png"):
        raise InputError(f"cannot write {path}: use a name that ends with .html or .png")
    figure = draw(material)
    if path.suffix == ".png":
        figure.savefig(path, dpi=120)
        return
    picture = io.StringIO()
    figure.savefig(picture, format="svg")
    svg = picture.getvalue()
    path.write_text(_page(material, svg[svg.index("<svg") :]), encoding="utf-8")


def draw(material: Material) -> Any:
    """The panels as a matplotlib figure."""
    panels = [
        *([_convergence] if material.runs or material.solves else []),
        *([_roofline] if material.kernels else []),
        *([_scaling] if len(material.runs) > 1 else []),
    ]
    lanes = list(material.spans.items())
    count = len(panels) + len(lanes)
    if count == 0:
        raise InputError("nothing to report: name at least one file")
    module = of_extra("matplotlib.figure", "plots", "a report needs matplotlib")  # pyplot would choose a window system
    figure = module.Figure(figsize=(10, PANEL_HEIGHT * count), layout="constrained")
    axes = figure.subplots(count, 1, squeeze=False)[:, 0]
    for panel, axis in zip(panels, axes, strict=False):
        panel(material, axis)
    for (name, watched), axis in zip(lanes, axes[len(panels) :], strict=True):
        _lanes(name, watched, axis)
    return figure


def _convergence(material: Material, axis: Any) -> None:
    for name, run in material.runs.items():
        axis.semilogy(run["residuals"], label=_plain(f"{name}: {_grid(run)}, {run['order']}"))
    for name, run in material.solves.items():
        residuals = [math.nan if residual is None else residual for residual in run["residuals"]]
        first = next(iter(residuals), 0.0) or 1.0
        axis.semilogy(
            [residual / first for residual in residuals],
            label=_plain(f"{name}: {run['problem']}, {_product(run['shape'])}, {run['status']}"),
        )
    axis.set(title="Convergence", xlabel="iteration", ylabel="‖r‖ / ‖r₀‖")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)


def _roofline(material: Material, axis: Any) -> None:
    """Each kernel's bytes a second as a part of the copy bandwidth of the same run: how near it is to the roof."""
    for name, bench in material.kernels.items():
        rows = bench["kernels"]
        bars = axis.barh(
            [_plain(f"{kernel}  {row['ms']:.3f} ms") for kernel, row in rows.items()],
            [100 * row["share_of_copy"] for row in rows.values()],
            label=_plain(f"{name}: copy {bench['copy_gbs']:.0f} GB/s"),
        )
        axis.bar_label(bars, fmt="%.0f %%", fontsize=8)
    axis.axvline(100, color="black", linewidth=0.8)
    axis.invert_yaxis()
    axis.set(title="Bytes that must move", xlabel="% of the copy bandwidth", ylabel="kernel, and its time")
    axis.legend(fontsize=8, loc="lower right")


def _scaling(material: Material, axis: Any) -> None:
    rows = _rows(material)
    axis.bar([_plain(row["name"]) for row in rows], [row["GF/s, raw"] or 0.0 for row in rows])
    axis.set(title="Speed of each run", xlabel="run", ylabel="GF/s (raw)")
    axis.tick_params(axis="x", labelrotation=15)
    axis.grid(axis="y", alpha=0.3)


def _lanes(name: str, watched: SolveRecord, axis: Any) -> None:
    drawn = rectangles(watched)
    lanes = list(dict.fromkeys(drawn["lane"]))
    for lane, left, right, color in zip(drawn["lane"], drawn["left"], drawn["right"], drawn["color"], strict=True):
        axis.barh(lanes.index(lane), right - left, left=left, color=color, height=0.8)
    axis.set_yticks(range(len(lanes)), lanes)
    axis.set_ylim(len(lanes) + 0.3, -0.6)  # from above, with room for the key below
    kinds = [kind for kind in COLORS if kind in drawn["kind"]]
    patch = importlib.import_module("matplotlib.patches").Patch
    axis.legend(
        handles=[patch(color=COLORS[kind], label=kind) for kind in kinds],
        ncols=len(kinds),
        fontsize=8,
        loc="lower center",
    )
    message = watched.spans or {}
    about = f"\n{exposed_text(message['exposure'])}" if message.get("exposure") else ""
    axis.set(title=_plain(f"{name}: iteration {message.get('iteration')}{about}"), xlabel=TIME, ylabel=LANE)


def _measured(path: Path) -> SolveRecord:
    """The newest iteration of a file of spans."""
    try:
        spans = read_jsonl(path)
    except (ValueError, TypeError) as error:
        raise InputError(f"cannot read {path}: it holds no spans ({error})") from error
    newest = max((span.iteration for span in spans), default=0)
    found = exposure(spans)
    spans = [span for span in spans if span.iteration == newest]
    watched = SolveRecord(start={"solve": path.name, "time": 0.0})
    if found is not None:
        watched.spans = {"iteration": newest, "spans": to_columns(spans), "exposure": found.to_dict()}
    return watched


def _rows(material: Material) -> list[dict[str, Any]]:
    """The runs as rows of a table."""
    return [
        {
            "name": name,
            "grid": _grid(run),
            "chunks": "×".join(map(str, run["chunks"])),
            "device": f"{run['engine']}/{run['kernels']}",
            "iterations": run["iterations"],
            "‖r‖ / ‖r₀‖": run["scaled_residual"],
            "GF/s, raw": run["gflops"].get("raw"),
            "GF/s, rating": run["gflops"].get("rating"),
            "exposed, % of an iteration": run.get("exposed_percent"),
            "valid": run["valid"],
        }
        for name, run in material.runs.items()
    ]


def _solve_rows(material: Material) -> list[dict[str, Any]]:
    """The solves as rows of a table."""
    return [
        {
            "name": name,
            "problem": run["problem"],
            "shape": _product(run["shape"]),
            "engine": run.get("engine"),
            "status": run["status"],
            "iterations": run.get("iterations"),
            "‖b − Ax‖ / ‖b‖": run.get("relative_residual"),
            "seconds": run.get("timings", {}).get("total"),
            "exposed, % of an iteration": run.get("exposed_percent"),
        }
        for name, run in material.solves.items()
    ]


def _grid(run: Mapping[str, Any]) -> str:
    return _product(run["grid"])


def _product(sizes: Sequence[int]) -> str:
    return "×".join(map(str, sizes))


def _plain(text: str) -> str:
    """A text as matplotlib shows it, which takes what stands between two dollars for a formula."""
    return text.replace("$", r"\$")


def _page(material: Material, svg: str) -> str:
    table = "".join(_table(rows) for rows in (_rows(material), _solve_rows(material)) if rows)
    lanes = ""
    if material.spans:
        kinds = "".join(f"<li><b>{kind}</b>: {meaning}</li>" for kind, meaning in MEANINGS.items())
        lanes = f"<h2>How to read lanes</h2><p>{html.escape(EXPLANATION)}</p><ul>{kinds}</ul>"
    style = (
        ":root{color-scheme:light dark}body{font:15px sans-serif;margin:2em auto;max-width:75em}"
        "table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:left}td{white-space:nowrap}"
        "svg{max-width:100%;height:auto}"
    )
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>dsolver report</title>'
        f"<style>{style}</style></head><body><h1>dsolver report</h1>{table}{svg}{lanes}</body></html>\n"
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = "".join(f"<th>{html.escape(key)}</th>" for key in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row.values()) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3e}" if 0 < abs(value) < 1e-2 else f"{value:.4g}"
    return html.escape(str(value))
