"""Who may import what, how many modules a folder holds, and how many imports climb.

The layers inside dsolver are a contract of import-linter, in pyproject.toml. `python -m tests.test_layers` draws every
package, kernels too, with its modules and packages one above the other so that few imports climb, and prints which do.
"""

from __future__ import annotations

import ast
import functools
import gc
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

#: Who may import a package from elsewhere: `a.b` stands for the module a.b and everything below it.
#: A longer name on the left is the stricter rule for a part of a package, and is looked at first.
ALLOWED = {
    "cupy.cuda.nccl": ("dsolver.engines.transport.nccl",),
    "cupyx.distributed": ("dsolver.engines.transport.nccl",),
    "cupy": (
        "dsolver.kernels.cuda",
        "dsolver.engines",
        "dsolver.foreign_arrays",  # arrays of other packages on a GPU
        "dsolver.cluster.devices",  # looks for a GPU
        "dsolver.monitor.gpu_memory",  # asks one
    ),
    "cupyx": ("dsolver.kernels.cuda", "dsolver.engines"),
    "cupy_backends": ("dsolver.kernels.cuda", "dsolver.engines"),
    "numba": ("dsolver.kernels",),
    "torch": ("dsolver.autodiff.torch", "dsolver.autodiff.uncompiled"),
    "jax": ("dsolver.autodiff.jax",),
    **dict.fromkeys(
        ("dask", "distributed", "dask_cuda"),
        (
            "dsolver.engines.graph.engine",
            "dsolver.engines.graph.results",
            "dsolver.engines.graph.task_graph",
            "dsolver.engines.graph.task_span",
            "dsolver.engines.dask",
            "dsolver.engines.spmd.blocks",
            "dsolver.engines.spmd.calls",
            "dsolver.engines.spmd.client",
            "dsolver.engines.spmd.rank",
            "dsolver.engines.spmd.relay",
            "dsolver.engines.spmd.worker",
            "dsolver.engines.eager.resident",
            "dsolver.cluster.runtime",
            "dsolver.cluster.default_client",
            "dsolver.session.user_arrays",
            "dsolver.cli",
            "dsolver.monitor",
            "dsolver.cluster.local",
            "dsolver.cluster.jobs",
            "dsolver.cluster.nannies",
            "dsolver.cluster.rows.row_blocks",  # a matrix that lies there
            "dsolver.cluster.rows.file_rows",  # and one that is read there
            "dsolver.cluster.rows.grid_rows",  # or made of a grid
            "dsolver.cluster.host_memory",  # workers have a limit of their own
        ),
    ),
}


#: Files of a folder that a reader can still look through, of every kind.
MOST_FILES = 14
#: Lines of a module that a reader can still take in, but where its first line says that it is a table of operations.
MOST_LINES = 300
#: The modules of dsolver that lie in no package.
FLAT = {
    "__main__",
    "api",
    "conduction",
    "dask_types",
    "errors",
    "folders",
    "foreign_arrays",
    "linalg",
    "solution",
    "solver",
    "status",
    "units",
}

#: Classes that are made and derived from; all others are abstract or final, and need no mark for it. `@final` stands
#: where users could derive from a class, and where a type checker needs it.
DERIVED = {
    *("ClusterError", "CommandFailure", "DeviceError", "InputError", "RankError"),
    *("Correction", "EagerEngine", "Foresight", "Problem", "Solve", "Variable"),
    *("Columns", "DenseSetup", "GhostRows", "LatticeSetup", "MatrixColumns", "SellMatrix", "StencilSetup"),
    *("AggregationSetup", "AmgKernels", "ComplexRows", "CpuHaloMatrix", "CpuMatrix", "CpuMatrixColumns"),
    *("CudaGhostRows", "CudaHaloMatrix", "CudaMatrix", "CudaMatrixColumns", "TextbookHalo", "TextbookMatrix"),
}


def crowded(paths: Iterable[Path]) -> list[str]:
    """Folders with more files than a reader can look through."""
    counts = Counter(path.parent for path in paths)
    return [f"{folder}: {count} files" for folder, count in counts.items() if count > MOST_FILES]


def lies_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def modules(root: Path) -> dict[str, Path]:
    """Every module of dsolver by its dotted name; `dsolver/kernels` is a link to the folder `kernels`."""
    found = {}
    for folder, package in ((root / "dsolver", "dsolver"), (root / "kernels", "dsolver.kernels")):
        for path in sorted(folder.rglob("*.py")):
            if folder / "kernels" in path.parents:
                continue
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join([package, *(part for part in parts if part != "__init__")])] = path
    return found


def is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below `node`, except what only a type checker reads: a name in an annotation couples nothing."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and is_type_checking(child.test):
            for other in child.orelse:
                yield other
                yield from run_time_nodes(other)
            continue
        yield child
        yield from run_time_nodes(child)


@functools.cache
def parsed(source: str) -> ast.Module:
    """The tree of a source. Where a finalizer runs while it is made, Python before 3.11.5 takes its depth for wrong."""
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.enable()


def imports(source: str, package: str) -> Iterator[tuple[str, str]]:
    """Each import as (name it gets here, dotted name): `from a import b` gives (b, a.b)."""
    for node in run_time_nodes(parsed(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                # `import a.b` binds `a`, and yet it imports a.b.
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0], alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, package)
            for alias in node.names:
                yield alias.asname or alias.name, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant):
                    yield "", str(argument.value)


def absolute(node: ast.ImportFrom, package: str) -> str:
    """The module that `from ... import` names, with leading dots resolved."""
    parts = package.split(".")
    anchor = parts[: len(parts) - node.level + 1] if node.level else []
    return ".".join([*anchor, *([node.module] if node.module else [])])


def attributes(source: str, local: dict[str, str]) -> Iterator[str]:
    """Each `x.y.z` whose x is imported, under its full name: `cp.cuda.nccl` needs no import of its own."""
    for node in run_time_nodes(parsed(source)):
        if isinstance(node, ast.Attribute):
            root, _, rest = ast.unparse(node).partition(".")
            if root in local:
                yield f"{local[root]}.{rest}"


def used_names(source: str, package: str) -> list[str]:
    """The dotted names that a module imports, and those that it reaches through its imports."""
    found = list(imports(source, package))
    local = {here: name if not name.startswith(here + ".") else here for here, name in found}
    return sorted({name for _, name in found} | set(attributes(source, local)))


Arrow = tuple[str, str]
"""A module that imports, and the one that it imports."""


def arrows(known: dict[str, Path]) -> set[Arrow]:
    """Every import of one module of dsolver by another one."""
    found = set()
    for module, path in known.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for _, name in imports(path.read_text(encoding="utf-8"), package):
            while name not in known and "." in name:
                name = name.rpartition(".")[0]
            if name in known and not lies_in(module, name):  # what lies in a package sees its front
                found.add((module, name))
    return found


def inside(package: str, drawn: Iterable[Arrow]) -> dict[Arrow, list[Arrow]]:
    """The arrows between two different modules or packages that lie in a package, by the names of these two."""
    found: dict[Arrow, list[Arrow]] = {}
    for arrow in sorted(drawn):
        ends = [name.removeprefix(package + ".").partition(".")[0] for name in arrow if lies_in(name, package)]
        if len(ends) == 2 and ends[0] != ends[1] and package not in arrow:
            found.setdefault((ends[0], ends[1]), []).append(arrow)
    return found


def layered(weights: dict[Arrow, int]) -> list[str]:
    """Names from top to bottom so that few imports climb: what reaches more stands higher, and in circles the rest."""

    def reached(name: str) -> set[str]:
        found, new = {name}, {name}
        while new:
            new = {lower for upper, lower in weights if upper in new} - found
            found |= new
        return found

    def climb(order: list[str]) -> int:
        place = {name: number for number, name in enumerate(order)}
        return sum(n for (upper, lower), n in weights.items() if place[upper] > place[lower])

    order = sorted({name for arrow in weights for name in arrow}, key=lambda name: (-len(reached(name)), name))
    before: list[str] = []
    while order != before:
        before = order
        for name in before if climb(order) else ():
            others = [other for other in order if other != name]
            order = min(order, *([*others[:i], name, *others[i:]] for i in range(len(order))), key=climb)
    return order


def climbing(known: dict[str, Path]) -> dict[str, list[Arrow]]:
    """The imports that climb when each package is drawn in layers, by package."""
    drawn, found = arrows(known), {}
    for package in (module for module, path in known.items() if path.name == "__init__.py"):
        between = inside(package, drawn)
        order = layered({ends: len(imported) for ends, imported in between.items()})
        upward = [ends for ends in between if order.index(ends[0]) > order.index(ends[1])]
        found[package] = sorted(arrow for ends in upward for arrow in between[ends])
    return found


def violation(module: str, imported: str) -> str | None:
    rule = max((name for name in ALLOWED if lies_in(imported, name)), key=len, default=None)
    if rule is None or any(lies_in(module, place) for place in ALLOWED[rule]):
        return None
    return f"{module} uses {imported}; only {', '.join(ALLOWED[rule])} may import {rule}"


def violations(module: str, source: str, *, package: str) -> list[str]:
    names = used_names(source, package)
    found = [problem for name in names if (problem := violation(module, name))]
    if lies_in(module, "dsolver.kernels"):
        found += [
            f"{module} uses {name}: kernels know nothing else of dsolver"
            for name in names
            if lies_in(name, "dsolver") and not lies_in(name, "dsolver.kernels") and name != "dsolver"
        ]
    return found


def test_other_packages_are_imported_only_where_they_belong(repository: Path) -> None:
    known = modules(repository)
    assert {"dsolver", "dsolver.kernels"} <= set(known)
    found = []
    for module, path in known.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        found += violations(module, path.read_text(encoding="utf-8"), package=package)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("dsolver.krylov.cg", "import dask.array as da"),
        ("dsolver.krylov.cg", "def f():\n    from distributed import get_worker"),
        ("dsolver.krylov.cg", "import importlib\nimportlib.import_module('cupy')"),
        ("dsolver.engines.eager.resident", "from cupy.cuda import nccl"),
        ("dsolver.engines.eager.resident", "import cupy as cp\ncp.cuda.nccl.get_version()"),
        ("dsolver.kernels.formats.sell", "from dsolver.grid.partition import Grid"),
        ("dsolver.kernels.formats.sell", "from ... import grid"),
    ],
)
def test_the_rules_catch(module: str, source: str) -> None:
    assert violations(module, source, package=module.rpartition(".")[0])


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("dsolver.engines.graph.engine", "import dask"),
        ("dsolver.engines.transport.nccl", "from cupy.cuda import nccl"),
        ("dsolver.kernels.cuda.launch.loader", "import cupy"),
        ("dsolver.kernels.cuda.launch.loader", "from dsolver.kernels import layout\nfrom . import build"),
        (
            "dsolver.krylov.cg",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from distributed import Client",
        ),
    ],
)
def test_the_rules_allow(module: str, source: str) -> None:
    assert not violations(module, source, package=module.rpartition(".")[0])


def test_folders_can_be_looked_through(repository: Path) -> None:
    found = modules(repository)
    assert {path.stem for path in found.values() if path.parent == repository / "dsolver"} - {"__init__"} == FLAT
    assert not crowded([*found.values(), *(repository / "kernels/cuda").rglob("*.cu*")])


def test_a_crowded_folder_is_found() -> None:
    some = [Path("rooms", f"{number}.py") for number in range(MOST_FILES)]
    assert not crowded([*some, Path("rooms/inner/one.py")])
    assert crowded([*some, Path("rooms/0.cu")]) == [f"rooms: {MOST_FILES + 1} files"]


def long(paths: Iterable[Path]) -> list[str]:
    """Modules with more lines than a reader takes in that are no tables."""
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    counts = {path: text.count("\n") for path, text in texts.items() if not text.startswith('"""Table of ')}
    return [f"{path}: {count} lines" for path, count in counts.items() if count > MOST_LINES]


def test_modules_can_be_taken_in(repository: Path) -> None:
    assert long(modules(repository).values()) == []


def test_a_long_module_is_found(tmp_path: Path) -> None:
    module = tmp_path / "rooms.py"
    for count, head, found in ((MOST_LINES, "Rooms", False), (MOST_LINES + 1, "Rooms", True), (900, "Table of", False)):
        module.write_text(f'"""{head} of kernels."""' + "\n" * count, encoding="utf-8")
        assert bool(long([module])) == found


def made_and_derived(paths: Iterable[Path]) -> set[str]:
    """Names of classes that are called somewhere, and that others derive from."""
    paths = list(paths)
    nodes = [node for path in paths for node in ast.walk(parsed(path.read_text(encoding="utf-8")))]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    ours = {"", *(path.stem for path in paths)}

    def named(some: Iterable[ast.expr]) -> set[str]:
        parts = (ast.unparse(node).partition("[")[0].rpartition(".") for node in some)
        return {name for module, _, name in parts if module in ours}

    derived = named(base for one in classes for base in one.bases)
    made = named(node.func for node in nodes if isinstance(node, ast.Call))
    return derived & made & {one.name for one in classes}


def test_classes_are_abstract_or_final(repository: Path) -> None:
    assert made_and_derived(modules(repository).values()) == DERIVED


def test_a_name_of_a_class_has_one_class(repository: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in modules(repository).values()]
    names = Counter(node.name for text in texts for node in parsed(text).body if isinstance(node, ast.ClassDef))
    assert len(names) > 500
    assert [name for name, count in names.items() if count > 1] == []


def test_no_import_climbs(repository: Path) -> None:
    found = climbing(modules(repository))
    assert len(found) > 50
    assert [arrow for arrows_of in found.values() for arrow in arrows_of] == []


def test_imports_that_climb_are_found() -> None:
    drawn = {("a.up.x", "a.down.x"), ("a.up.y", "a.down.x"), ("a.down.z", "a.up.x"), ("a.down.z", "a.low"), ("a", "b")}
    between = inside("a", drawn)
    assert layered({ends: len(found) for ends, found in between.items()}) == ["up", "down", "low"]
    assert between["down", "up"] == [("a.down.z", "a.up.x")]


if __name__ == "__main__":
    climbers = climbing(modules(Path(__file__).resolve().parent.parent))
    for module, imported in (arrow for found in climbers.values() for arrow in found):
        sys.stdout.write(f"{module} imports {imported}\n")
    sys.stdout.write(f"{sum(map(len, climbers.values()))} imports climb\n")
