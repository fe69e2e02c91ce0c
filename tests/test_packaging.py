"""Contents and metadata of the wheel, as a user's installer gets them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

from dsolver import errors

FOREIGN = re.compile(r"""(\bdsolver\[|pip install (-\S+ )*['"]?dsolver(?!-hpc|/))""")
"""A text that has someone install `dsolver` from an index."""
INSTALLED = re.compile(r"""(?:installing\(|of_extra\([^,]+, )['"](\w+)['"]""")
"""An extra that a message has someone install."""
MACHINE_CODE = "cuda/cubins/cuda13-sm_90/vectors-0123.cubin"
"""As the build step for wheels leaves it."""
CACHES = shutil.ignore_patterns("__pycache__", "*.pyc", "cubins")


@pytest.fixture(scope="session")
def pyproject(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a copy: setuptools leaves `build/` behind, and packs what an earlier build left there."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, source)
    for name in ("dsolver", "kernels"):
        shutil.copytree(repository / name, source / name, symlinks=True, ignore=CACHES)
    compiled = source / "kernels" / MACHINE_CODE
    compiled.parent.mkdir(parents=True, exist_ok=True)
    compiled.touch()
    dist = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the wheel cannot be built:\n{done.stdout}\n{done.stderr}"
    (built,) = dist.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="session")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode("utf-8"))


def sources(folder: Path, *patterns: str) -> set[str]:
    return {path.relative_to(folder).as_posix() for pattern in patterns for path in folder.rglob(pattern)}


def test_the_link_makes_kernels_a_part_of_dsolver_in_a_checkout(repository: Path) -> None:
    assert (repository / "dsolver" / "kernels").is_symlink()
    assert (repository / "dsolver" / "kernels").resolve() == repository / "kernels"


def test_the_wheel_holds_every_kernel(repository: Path, names: set[str]) -> None:
    kernels = {MACHINE_CODE, *sources(repository / "kernels", "*.py", "*.cu", "*.cuh")}
    assert "__init__.py" in kernels
    assert {f"dsolver/kernels/{name}" for name in kernels} == {n for n in names if n.startswith("dsolver/kernels/")}


def test_the_wheel_holds_every_module(repository: Path, names: set[str]) -> None:
    modules = {f"dsolver/{name}" for name in sources(repository / "dsolver", "*.py") if not name.startswith("kernels/")}
    assert "dsolver/__init__.py" in modules
    assert modules <= names


def test_the_wheel_says_that_it_is_typed(names: set[str]) -> None:
    assert "dsolver/py.typed" in names


def test_the_wheel_installs_nothing_but_dsolver(names: set[str]) -> None:
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"dsolver"}


def test_every_folder_with_modules_is_a_listed_package(repository: Path, pyproject: dict[str, Any]) -> None:
    inits = sources(repository / "dsolver", "__init__.py") | {
        f"kernels/{name}" for name in sources(repository / "kernels", "__init__.py")
    }
    folders = {".".join(["dsolver", *Path(name).parent.parts]) for name in inits}
    assert folders == set(pyproject["tool"]["setuptools"]["packages"])


def test_the_metadata_names_the_extras(metadata: Message, pyproject: dict[str, Any]) -> None:
    extras = set(metadata.get_all("Provides-Extra") or [])
    assert extras == set(pyproject["project"]["optional-dependencies"])
    assert {"cuda12", "cuda13", "dev", "test", "zarr"} <= extras


def test_the_distribution_s_name_is_free_and_messages_use_it(repository: Path, metadata: Message) -> None:
    """On the Python Package Index `dsolver` resolves dependencies: no text may send a user there."""
    assert metadata["Name"] == errors.DISTRIBUTION
    assert metadata["Name"] != "dsolver"
    assert FOREIGN.search("error: pip install 'dsolver[zarr]'")
    texts = [repository / "README.md", repository / "CHANGELOG.md"]
    for folder in (".ci", "bench", "deploy", "docs", "dsolver", "examples", "kernels"):
        texts += [path for path in (repository / folder).rglob("*") if path.suffix != ".pyc" and path.is_file()]
    sending = [path for path in texts if FOREIGN.search(path.read_bytes().decode(errors="replace"))]
    assert sending == []
    named = set().union(*(INSTALLED.findall(path.read_bytes().decode(errors="replace")) for path in texts))
    assert named <= set(metadata.get_all("Provides-Extra") or [])
    assert {"cuda13", "plots", "zarr"} <= named


def test_the_version_is_that_of_the_package(metadata: Message) -> None:
    import dsolver

    assert metadata["Version"] == dsolver.__version__


def test_the_command_is_installed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
        assert "dsolver = dsolver.cli:main" in archive.read(name).decode("utf-8")
