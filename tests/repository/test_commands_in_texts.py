"""Every command in README.md and docs/ runs; long ones are made small, as KINDS says.

Commands are the lines of ```sh blocks, and what a workflow for GitHub starts with Python. A block
that begins with the path of a file, as in `# my_pkg/net.py`, is written to that file first. The
files of docs/adding.md are not: they belong into the repository, and
tests/repository/test_adding.py makes them there.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from modescope import __main__ as modescope_command
from modescope.analysis.compare import command as comparing
from modescope.bench.cluster import worker_process
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep.settings import suggestions
from modescope.bench.versus import arguments as versus_arguments
from tests.helpers.commands import Ask, Cli, last_of_each
from tests.helpers.paths import CONF, REFERENCE, ROOT
from tests.helpers.studies import record, save
from tests.proof import __main__ as proof

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL = re.compile(r"^```sh\n(.*?)^```$", flags=re.M | re.S)
WORKFLOW = re.compile(r"^```yaml\n(# \.github/.*?)^```$", flags=re.M | re.S)
FILE = re.compile(r"^```\w+\n# (\S+\.\w+)\n(.*?)^```$", flags=re.M | re.S)
ASSIGNED = re.compile(r"[A-Z_]+=")

SMALL = ("budget=smoke", "compile_cache=warm", "profile=false", "memory=false")
QUICK_MODES = ("eager", "no_grad", "inference_mode", "amp")
"""Modes that neither compile nor need a GPU."""

SWEEP = ("-m", "experiment=")

OF_COMPILERS = {"mode.compile", "mode.dynamic"}
"""Settings that such a mode does not take."""

OWN_MODELS = ("custom", "mine")
"""Models of the pages, which have no sizes called small."""


@dataclass(frozen=True)
class Reader:
    """Types commands into a folder with a study of two cases and the reference results."""

    run: Cli
    ask: Ask
    markers: list[str]


@dataclass(frozen=True)
class Command:
    """A line of a page."""

    page: str
    words: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.page}: {shlex.join(self.words)}"


def scripts(text: str) -> Iterator[str]:
    """The shell blocks of a page, and what the steps of its workflows start with Python."""
    yield from SHELL.findall(text)
    for block in WORKFLOW.findall(text):
        lines = [line.strip() for line in block.replace("\\\n", " ").splitlines()]
        yield "\n".join(line for line in lines if line.startswith("python "))


def commands(page: str, text: str) -> Iterator[Command]:
    """The commands of the scripts, without comments; `a && b` is two."""
    for block in scripts(text):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            while words:
                end = words.index("&&") if "&&" in words else len(words)
                first = next(n for n, word in enumerate(words) if not ASSIGNED.match(word))
                variables = dict(word.split("=", 1) for word in words[:first])
                yield Command(page, tuple(words[first:end]), variables)
                words = words[end + 1 :]


def every_command() -> list[Command]:
    """The commands of all pages, each as the first page has it."""
    found = (
        command
        for page in PAGES
        for command in commands(page.name, page.read_text(encoding="utf-8"))
    )
    first: dict[tuple[str, ...], Command] = {}
    for command in found:
        first.setdefault((*command.variables, *command.words), command)
    return list(first.values())


COMMANDS = every_command()


def one_value_each(words: tuple[str, ...]) -> tuple[list[str], list[list[str]]]:
    """The command with the first of several values, and once more for each of the others."""
    values = {word: [word] for word in words}
    for word in words:
        key, equals, text = word.partition("=")
        if equals and text[:1] not in ("{", "["):
            values[word] = [f"{key}={value}" for value in text.split(",")]
    first = [each[0] for each in values.values()]
    others = [
        [*first[:place], value, *first[place + 1 :]]
        for place, each in enumerate(values.values())
        for value in each[1:]
    ]
    return first, others


def of_experiment(words: list[str]) -> list[str]:
    """What a prepared sweep varies and the command does not set, with the first value of each."""
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    if "experiment" not in settings:
        return []
    prepared = OmegaConf.load(CONF / "experiment" / f"{settings['experiment']}.yaml")
    varied = [f"{key}={value}" for key, value in prepared.hydra.sweeper.params.items()]
    kept = tuple(word for word in varied if word.partition("=")[0] not in settings)
    return one_value_each(kept)[0]


def made_small(words: list[str]) -> list[str]:
    """The arguments of run.py for one small case: uncompiled, and no sweep with its report."""
    if "--cfg" in words or "--help" in words:
        return words
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    small = [word for word in [*words, *of_experiment(words)] if not word.startswith(SWEEP)]
    if settings.get("mode") not in QUICK_MODES and not settings.keys() & OF_COMPILERS:
        small.append("mode=eager")
    if settings.get("model") not in OWN_MODELS:
        small.append("shape=small")
    if "study" not in settings:
        small.append("study=smoke")  # whose report has next to no figures
    if "replicates" in settings:
        small.append("replicates=2")
    return last_of_each(*small, *SMALL)


def compose(arguments: tuple[str, ...], ask: Ask) -> list[str]:
    """Reads each value of each setting once; returns the arguments with the first of each."""
    first, others = one_value_each(arguments)
    for one in (first, *others):
        ask(*one, *of_experiment(one))
    return first


def run_it(command: Command, reader: Reader) -> None:
    words = compose(command.words[2:], reader.ask)
    if any(word.startswith("hydra/launcher=") for word in words):
        return
    libraries = [each for each in suggestions.libraries() if f"model={each}" in words]
    if not all(map(find_spec, libraries)):
        return
    answer = reader.run(*made_small(words))
    assert answer.status == 0, answer.out + answer.err


def read_it(command: Command, reader: Reader) -> None:
    _, _, module, *arguments = command.words
    package = (ROOT / module.replace(".", "/")).is_dir()
    program = importlib.import_module(f"modescope.{module}{'.__main__' if package else ''}")
    assert program.main(arguments) == 0


def type_it(command: Command, reader: Reader) -> None:
    assert modescope_command.main(command.words[1:]) == 0


def parse_it(command: Command, reader: Reader) -> None:
    name = command.words[2].removeprefix("bench.")
    program = importlib.import_module(f"modescope.bench.tools.{name}.__main__")
    if "--list" in command.words:
        assert program.main(list(command.words[3:])) == 0
    elif name == "selfcheck":
        program._parse(command.words[3:])
    else:
        arguments = importlib.import_module(f"modescope.bench.tools.{name}.arguments")
        arguments.parse(command.words[3:], None)


def parse_worker(command: Command, reader: Reader) -> None:
    worker_process.parse(command.words[3:])


def parse_proof(command: Command, reader: Reader) -> None:
    proof.chosen(proof.parse(command.words[3:]).only)


def parse_versus(command: Command, reader: Reader) -> None:
    """Reads the sides, the options of the comparison and every value of each setting."""
    asked = versus_arguments.parse(command.words[3:])
    comparing.check(asked.options)
    compose(asked.settings, reader.ask)


def bisect(command: Command, reader: Reader) -> None:
    _, _, verb, *words = command.words
    if verb == "run":
        program = Command(command.page, tuple(words))
        kind_of(program)(program, reader)


def start_nothing(command: Command, reader: Reader) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "ARGS"))}
    done = subprocess.run(
        ["make", "-n", *command.words[1:], f"PYTHON={sys.executable}", "CXX=sh"],
        cwd=ROOT, env=environment | command.variables, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        if line.startswith(".venv/bin/python "):
            words = ("python", *shlex.split(line)[1:])
            if words[1] == "run.py":
                compose(words[2:], reader.ask)
            elif words[2].startswith("bench."):
                parse_it(Command(command.page, words), reader)
            elif words[2] == "tests.proof":
                parse_proof(Command(command.page, words), reader)


def install_nothing(command: Command, reader: Reader) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for option, word in pairwise(command.words):
        if option == "-c":
            assert (ROOT / word).is_file()
        if option == "-e":
            assert set(re.findall(r"\w+", word)) <= set(extras)


def look_up_the_marker(command: Command, reader: Reader) -> None:
    known = {marker.partition(":")[0] for marker in reader.markers}
    chosen = [word for option, word in pairwise(command.words) if option == "-m"]
    assert set(chosen) - {"pytest"} <= known


def leave_out(command: Command, reader: Reader) -> None:
    pass


Check = Callable[[Command, Reader], None]

KINDS: dict[str, tuple[Check, str]] = {
    "python run.py": (
        run_it,
        "each value is read once; the first of several is measured, in a small shape, not compiled;"
        " not so where a library is missing, or with a launcher for other machines",
    ),
    "modescope run": (run_it, "the same; results would go to the current folder"),
    "modescope": (type_it, "as it stands, on that study"),
    "eval": (leave_out, "changes the shell; tests/system completes a line by it"),
    "python -m analysis.": (read_it, "as it stands, on that study and on a copy of the reference"),
    "python -m bench.versus": (parse_versus, "measures for minutes: its arguments are read"),
    "python -m modescope.bench.versus": (parse_versus, "the same"),
    "python -m bench.worker": (parse_worker, "needs a sweep: its arguments are read"),
    "git bisect": (
        bisect,
        "searches a repository that is not here: the command it runs is checked",
    ),
    "python -m bench.": (parse_it, "takes minutes and a quiet machine: its arguments are read"),
    "python3 -m tests.proof": (parse_proof, "takes a GPU and minutes: its arguments are read"),
    "make": (start_nothing, "takes minutes or installs: make says what it would start, checked so"),
    "pip install": (install_nothing, "downloads: the names of extras and files are looked up"),
    ".venv/bin/pip install": (install_nothing, "the same"),
    "python -m pytest": (look_up_the_marker, "would run this test again: the marker is looked up"),
    "pytest": (look_up_the_marker, "the same"),
    "python3 -m venv .venv": (leave_out, "makes what the tests run in"),
    ". .venv/bin/activate": (leave_out, "the tests run in it already"),
}
"""How each kind of command is checked, by its first words, and why so."""


def kind_of(command: Command) -> Check:
    """Raises AssertionError for a command of no known kind."""
    line = shlex.join(command.words)
    known = [check for start, (check, _) in KINDS.items() if f"{line} ".startswith(start)]
    assert known, f"{command}: of no kind that KINDS knows; add how it is made small, and why"
    return known[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader types: results of a few cases, the reference, and the files of the pages."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(REFERENCE, folder / "results" / "reference")
    modes = (("no_grad", "fp32"), ("inference_mode", "fp32"), ("compile", "bf16"))
    for model in ("mlp", "transformer"):
        runs = [record(mode, 1e-4, 1.1, dtype=dtype, model=model) for mode, dtype in modes]
        save(runs, folder / "results/main")
    for version in ("2.12", "2.13"):
        save([record("compile", torch_version=version)], folder / f"results/torch-{version}")
    for week in range(1, 5):
        save([record("compile")], folder / f"results/week-{week}")
    for page in PAGES:
        if page.name != "adding.md":
            for path, text in FILE.findall(page.read_text(encoding="utf-8")):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def results(folder: Path) -> Path:
    return folder / "results"


@pytest.fixture
def reader(
    folder: Path, cli: Cli, ask: Ask, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> Reader:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    return Reader(cli, ask, pytestconfig.getini("markers"))


@pytest.mark.full
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(each, marks=() if each.page == "README.md" else pytest.mark.full)
        for each in COMMANDS
    ],
    ids=str,
)
def test_a_command_runs(command: Command, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in command.variables.items():
        monkeypatch.setenv(name, value)
    kind_of(command)(command, reader)


def test_commands_are_found() -> None:
    text = "```sh\nA=. python x 'b c'  # why\nd && e \\\n  f\n```\n```\ng\n```\n"
    found = [(command.words, command.variables) for command in commands("page", text)]
    assert found == [(("python", "x", "b c"), {"A": "."}), (("d",), {}), (("e", "f"), {})]


def test_a_command_of_an_unknown_kind_fails() -> None:
    with pytest.raises(AssertionError, match="frobnicate: of no kind"):
        kind_of(Command("page", ("frobnicate",)))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("python run.py mode=complie", "did you mean compile?"),
        ("python -m bench.claims view-contigous", "did you mean view-contiguous?"),
        ("python -m bench.versus old=dir:a -- mode=eager", "new= is missing"),
        ("git bisect run python -m bench.versus old=a new=b --gate exct", "--gate exct"),
        ("make selfchek", "selfchek"),
        ("make peers ARGS=--buzy", "--buzy"),
        ("pip install -e '.[develop]'", "develop"),
        ("pytest -m cuba", "cuba"),
        ("python -m analysis.table results/nowhere", "nowhere"),
    ],
)
def test_a_wrong_command_fails(
    line: str, fault: str, reader: Reader, capfd: pytest.CaptureFixture[str]
) -> None:
    (command,) = commands("page", f"```sh\n{line}\n```")
    with pytest.raises((UsageError, AssertionError)) as error:
        kind_of(command)(command, reader)
    assert fault in f"{error.value}{capfd.readouterr().err}"
