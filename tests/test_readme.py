"""Every fenced block of README.md and of docs/ is executed here, so that what a newcomer copies works.

- ```python blocks of README.md share nothing; those that start no workers run one after the other in one process.
  Those of a page of docs/ are one session, in their order.
- ```console blocks: the lines that start with `$ ` are commands, the others are their output.
- ```bash and ```sh blocks: every line is a command, with or without `$ `.
- ```text and ```mermaid blocks are pictures. Any other language, and none, is a fault.

A block runs in an empty folder in which the checkout's folders for readers (`examples` and the like) appear. A comment
directly above a block says what it needs: `<!-- test: gpu -->`, `<!-- test: gpu=2 -->`, `<!-- test: slurm -->`,
`<!-- test: petsc4py -->` (or jax, skfem, torch).

Not run but checked otherwise: `pip install` (do the extras exist?), the command that runs this very suite (is it the
one that CI runs?), and the steps that bring a user to where this test already is: clone, cd, venv, activate.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
SECONDS = 540  # for one block, and for one session; they only end what hangs
PICTURES = {"text", "mermaid"}
SHELLS = {"console", "bash", "sh"}
#: What the README may refer to by relative path while it runs.
FOR_READERS = ("examples", "deploy", "bench", "docs")
SEPARATORS = {"&&", "||", ";", "&", "|"}


class ReadmeError(Exception):
    """Something in a page that cannot work."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block: its language, its text, where it starts and what it needs.

    A session runs as if it were typed: it is no file that worker processes could import, as they do with scripts.
    """

    language: str
    text: str
    line: int
    needs: str = ""
    session: bool = False

    @property
    def name(self) -> str:
        return f"line{self.line}-{self.language or 'none'}"


# --- reading ------------------------------------------------------------------------------------------------

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})\s*(?P<language>[\w+-]*)")
NEEDS = re.compile(r"^\s*<!--\s*test:\s*(?P<needs>[^>]*?)\s*-->\s*$")


def blocks(markdown: str) -> Iterator[Block]:
    """The fenced blocks of a text, in order."""
    lines = iter(enumerate(markdown.splitlines(), start=1))
    above = ""
    for number, line in lines:
        if opening := FENCE.match(line):
            needs = NEEDS.match(above)
            text = "".join(body + "\n" for body in fenced(lines, opening, number))
            yield Block(language=opening["language"], text=text, line=number, needs=needs["needs"] if needs else "")
        above = line


def fenced(lines: Iterator[tuple[int, str]], opening: re.Match[str], start: int) -> Iterator[str]:
    """The lines up to the closing fence, without the opening one's indentation."""
    for _, line in lines:
        if line.strip().startswith(opening["fence"]):
            return
        yield line.removeprefix(opening["indent"])
    raise ReadmeError(f"the block that starts in line {start} never ends")


def session(found: list[Block]) -> Block:
    """Blocks of Python as one, each line at its number in the page."""
    lines: list[str] = []
    for block in found:
        lines += [""] * (block.line - len(lines)) + block.text.splitlines()
    return Block(language="python", text="\n".join(lines) + "\n", line=found[0].line, session=True)


def together(found: list[Block]) -> Block:
    """Blocks of Python one after the other in one process, with names of their own: Python starts in two seconds."""
    runs = (f"exec(compile({_placed(block)!r}, 'the page', 'exec'), {{'__name__': '__main__'}})\n" for block in found)
    return Block(language="python", text="".join(runs), line=found[0].line, session=True)


def _placed(block: Block) -> str:
    return "\n" * block.line + block.text


def commands(block: Block) -> list[str]:
    """The commands of a shell block; a backslash or an open `$ ` line continues as in a shell."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        found = [line[2:] for line in lines if line.startswith("$ ")]
    else:
        found = [line.removeprefix("$ ") for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not found:
        raise ReadmeError(f"{block.name} has no command; in a console block, commands start with `$ `")
    return found


# --- translating commands -----------------------------------------------------------------------------------


def words(command: str) -> list[str]:
    """The shell's words and operators, quotes kept."""
    lexer = shlex.shlex(command, posix=False, punctuation_chars="&|;")
    lexer.whitespace_split = True
    return list(lexer)


def translated(command: str, project: Project) -> str:
    """The command as it can run here: each simple command is kept, or checked and replaced by `true`."""
    out: list[str] = []
    simple: list[str] = []
    for word in [*words(command), ""]:
        if word and word not in SEPARATORS:
            simple.append(word)
            continue
        if simple:
            out.append(translated_simple(simple, project))
        out.append(word)
        simple = []
    return " ".join(out).strip()


def translated_simple(command: list[str], project: Project) -> str:
    program = Path(command[0]).name if "/bin/" in command[0] else command[0]
    plain = [program, *(word.strip("'\"") for word in command[1:])]
    for matches, check in SPECIAL:
        if matches(plain):
            check(plain, project)
            return "true"
    return " ".join([program, *command[1:]])


@dataclass(frozen=True, kw_only=True)
class Project:
    """Files that the README has to agree with."""

    extras: frozenset[str]
    test_commands: frozenset[str]


def read_project(root: Path) -> Project:
    pyproject = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    ci = (root / ".ci" / "run").read_text(encoding="utf-8")
    return Project(
        extras=frozenset(pyproject["project"]["optional-dependencies"]),
        test_commands=frozenset(re.findall(r"^python -m pytest[^|\n]*", ci, re.MULTILINE)),
    )


def is_pip_install(command: list[str]) -> bool:
    return " ".join(command).removeprefix("python3 -m ").removeprefix("python -m ").startswith(("pip install", "pip3 "))


def check_pip_install(command: list[str], project: Project) -> None:
    targets = re.findall(r"(?<!\S)(?:\.|dsolver-hpc)(?:\[([^\]]*)\])?(?!\S)", " ".join(command))
    if not targets:
        raise ReadmeError(f"`{' '.join(command)}` installs neither `.` nor `dsolver-hpc`")
    named = {extra.strip() for target in targets for extra in target.split(",") if extra.strip()}
    if unknown := named - project.extras:
        raise ReadmeError(f"`{' '.join(command)}` names extras that do not exist: {', '.join(sorted(unknown))}")


def is_test_run(command: list[str]) -> bool:
    return command[0] == "pytest" or "pytest" in command[1:3]


def check_test_run(command: list[str], project: Project) -> None:
    said = " ".join(command).replace("python3 ", "python ", 1).removesuffix(" --slow")
    known = {line.strip() for line in project.test_commands}
    if said not in known:
        raise ReadmeError(f"`{said}` is not how CI runs the tests: {', '.join(sorted(known)) or 'it does not'}")


def is_arrival(command: list[str]) -> bool:
    return (
        command[:2] in (["git", "clone"], ["cd", "dsolver"])
        or command[1:3] == ["-m", "venv"]
        or (command[0] in {"source", "."} and command[1:2] != [] and command[1].endswith("/bin/activate"))
    )


def check_nothing(_command: list[str], _project: Project) -> None:
    """Check of sections that nothing in a checkout could contradict."""


SPECIAL: list[tuple[Callable[[list[str]], bool], Callable[[list[str], Project], None]]] = [
    (is_pip_install, check_pip_install),
    (is_test_run, check_test_run),
    (is_arrival, check_nothing),
]


# --- running ------------------------------------------------------------------------------------------------


def script(block: Block, project: Project) -> str:
    lines = ["set -euo pipefail", *(translated(command, project) for command in commands(block))]
    return "\n".join(lines) + "\n"


def furnish(folder: Path) -> dict[str, str]:
    """Fill the folder in which a block runs; returns the environment that goes with it.

    `dsolver` and `python` mean this checkout and this interpreter, whether or not the project is installed.
    """
    work, tools = folder / "work", folder / "bin"
    work.mkdir()
    tools.mkdir()
    for name in FOR_READERS:
        if (ROOT / name).exists():
            (work / name).symlink_to(ROOT / name)
    for name, arguments in {"python": "", "python3": "", "dsolver": " -m dsolver"}.items():
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n', encoding="utf-8")
        (tools / name).chmod(0o755)
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


def execute(block: Block, folder: Path, project: Project) -> None:
    """Run a block to its end; raises ReadmeError with its output if it fails or takes too long."""
    environment = furnish(folder)
    if block.language == "python":
        file = folder / "block.py"
        file.write_text(block.text, encoding="utf-8")
        typed = f"exec(compile(open({str(file)!r}, encoding='utf-8').read(), {str(file)!r}, 'exec'))"
        command = [sys.executable, *(["-c", typed] if block.session else [str(file)])]
    else:
        command = ["bash", "-c", script(block, project)]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder / "work",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that what a block leaves in the background ends with it
        )
        try:
            status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise ReadmeError(f"{block.name} takes more than {SECONDS} s; so far:\n{shown(log)}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if status != 0:
        text = "" if block.session else block.text  # of a session the traceback shows the line
        raise ReadmeError(f"{block.name} ends with status {status}:\n{text}\n--- output ---\n{shown(log)}")


def shown(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def missing(block: Block, gpus: int) -> str:
    """Why a block cannot run here; empty if it can."""
    match block.needs.split("="):
        case [""]:
            return ""
        case ["gpu", *count]:
            wanted = int(count[0]) if count else 1
            return f"needs {wanted} CUDA GPU(s), there are {gpus}" if gpus < wanted else ""
        case ["jax" | "petsc4py" | "skfem" | "torch" as package]:
            return "" if importlib.util.find_spec(package) else f"needs {package}"
        case ["slurm"]:
            return "" if shutil.which("sbatch") else "needs a SLURM cluster (there is no sbatch)"
    raise ReadmeError(f"{block.name}: `<!-- test: {block.needs} -->` is not known")


# --- tests --------------------------------------------------------------------------------------------------


def readme_blocks() -> list[Block]:
    """Empty without a README: then the test below that asks for its blocks fails, not the collection."""
    found = list(blocks(README.read_text(encoding="utf-8"))) if README.exists() else []
    plain = [
        block for block in found if block.language == "python" and not block.needs and "__main__" not in block.text
    ]
    return [*(block for block in found if block not in plain), *([together(plain)] if plain else [])]


def docs_blocks() -> Iterator[tuple[Path, Block]]:
    """Blocks of the pages in docs/ as they run: Python that needs nothing as one session, the rest block by block."""
    for page in DOCS:
        found = list(blocks(page.read_text(encoding="utf-8")))
        story = [block for block in found if block.language == "python" and not block.needs]
        yield from ((page, block) for block in found if block not in story)
        if story:
            yield page, session(story)


def test_the_readme_has_commands_and_python() -> None:
    languages = {block.language for block in blocks(README.read_text(encoding="utf-8"))}
    assert "python" in languages
    assert languages & SHELLS


@pytest.mark.parametrize("block", readme_blocks(), ids=lambda block: block.name)
def test_block(block: Block, tmp_path: Path, gpu_count: int) -> None:
    if block.language in PICTURES:
        return
    assert block.language in SHELLS | {"python"}, f"{block.name}: say what this block is, ```text if nothing runs"
    if reason := missing(block, gpu_count):
        if block.language in SHELLS:
            script(block, read_project(ROOT))  # its extras and its test command are checked all the same
        pytest.skip(reason)
    execute(block, tmp_path, read_project(ROOT))


@pytest.mark.parametrize(
    "block", [pytest.param(block, id=f"{page.stem}-{block.name}") for page, block in docs_blocks()]
)
def test_docs(block: Block, tmp_path: Path, gpu_count: int) -> None:
    test_block(block, tmp_path, gpu_count)


@pytest.mark.parametrize("page", [README, *DOCS], ids=lambda page: page.name)
def test_links_into_the_repository_exist(page: Path) -> None:
    targets = re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    absent = [target for target in targets if not (page.parent / target).exists()]
    assert not absent


@pytest.mark.parametrize("page", [README, *DOCS], ids=lambda page: page.name)
def test_no_command_writes_a_file_that_one_above_it_wrote(page: Path) -> None:
    """A reader types all of a page in one folder, where the command refuses to replace a file."""
    shell = [block for block in blocks(page.read_text(encoding="utf-8")) if block.language in SHELLS]
    lines = [line for block in shell for line in commands(block) if "--force" not in line]
    written = re.findall(r"(?:-o|--(?:out|json|spans|trace)) (?!- )(\S+)", "\n".join(lines))
    assert sorted(written) == sorted(set(written))


# --- does this test notice a broken README? -----------------------------------------------------------------

PROJECT = Project(extras=frozenset({"test", "zarr"}), test_commands=frozenset({"python -m pytest"}))


def block_of(markdown: str) -> Block:
    (block,) = blocks(markdown)
    return block


def test_blocks_are_found() -> None:
    text = "a\n```python\nx = 1\n```\n\n<!-- test: gpu=2 -->\n```console\n$ true\nout\n```\n   ~~~text\n   b\n   ~~~\n"
    assert list(blocks(text)) == [
        Block(language="python", text="x = 1\n", line=2),
        Block(language="console", text="$ true\nout\n", line=7, needs="gpu=2"),
        Block(language="text", text="b\n", line=11),
    ]


def test_a_session_keeps_names_and_line_numbers(tmp_path: Path) -> None:
    page = "a\n```python\nx = 1\n```\nb\n\n```python\nassert x == 1\nassert x == 2\n```\n"
    whole = session(list(blocks(page)))
    assert whole.text.splitlines() == ["", "", "x = 1", "", "", "", "", "assert x == 1", "assert x == 2"]
    with pytest.raises(ReadmeError, match="line 9"):
        execute(whole, tmp_path, PROJECT)


def test_blocks_that_run_together_share_no_names(tmp_path: Path) -> None:
    found = list(blocks("```python\nx = 1\n```\n```python\nassert __name__ == '__main__'\nx\n```\n"))
    with pytest.raises(ReadmeError, match=r"line 6(.|\n)*NameError"):
        execute(together(found), tmp_path, PROJECT)


def test_commands_are_translated() -> None:
    text = "$ git clone x && cd dsolver\n$ .venv/bin/pip install '.[test]' && .venv/bin/dsolver info 'a b' | cat\nout\n"
    assert script(block_of(f"```console\n{text}```"), PROJECT).splitlines()[1:] == [
        "true && true",
        "true && dsolver info 'a b' | cat",
    ]


def test_a_continued_line_is_one_command() -> None:
    assert commands(block_of("```bash\necho a \\\n  b\n# remark\n```")) == ["echo a    b"]


@pytest.mark.parametrize(
    "text",
    [
        "```python\nraise ValueError\n```",
        "```console\n$ false\n```",
        "```console\n$ false\n$ true\n```",
        "```console\n$ false | cat\n```",
        "```console\n$ no-such-command\n```",
        "```console\nno prompt\n```",
        "```console\n$ python -m pytest tests/one.py\n```",
        "```console\n$ pip install '.[tset]'\n```",
        "```console\n$ pip install another\n```",
        "```console\n$ pip install 'dsolver[test]'\n```",
        "```console\n$ cat\n$ dsolver no-such-subcommand\n```",
    ],
)
def test_a_broken_block_fails(text: str, tmp_path: Path) -> None:
    with pytest.raises(ReadmeError):
        execute(block_of(text), tmp_path, PROJECT)


@pytest.mark.parametrize(
    "text",
    [
        "```python\nimport dsolver\n```",
        "```console\n$ python3 -m venv .v && . .v/bin/activate\n$ pip install .[test,zarr]\n$ python -m pytest\n```",
        "```console\n$ pip install 'dsolver-hpc[zarr]'\n```",
        "```bash\nsleep 600 &\necho done\n```",
    ],
)
def test_a_sound_block_passes(text: str, tmp_path: Path) -> None:
    execute(block_of(text), tmp_path, PROJECT)


def test_a_block_that_never_ends_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SECONDS", 0.5)
    with pytest.raises(ReadmeError, match="takes more than"):
        execute(block_of("```bash\nsleep 600\n```"), tmp_path, PROJECT)


def test_an_unclosed_block_is_refused() -> None:
    with pytest.raises(ReadmeError, match="never ends"):
        list(blocks("```python\nx = 1\n"))


def test_unknown_needs_are_refused() -> None:
    with pytest.raises(ReadmeError, match="not known"):
        missing(replace(block_of("```python\n```"), needs="moon"), 0)
