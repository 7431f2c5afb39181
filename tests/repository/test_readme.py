"""The commands of README.md run, and every link of a page has its target."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from modescope.analysis import table, why
from tests.helpers.commands import QUICKLY, Ask, Cli, last_of_each
from tests.helpers.paths import ROOT
from tests.helpers.studies import record, save

PAGES = [ROOT / name for name in ("README.md", "DECISIONS.md", "CHANGELOG.md", "results/README.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
Main = Callable[[Sequence[str]], int]

README = PAGES[0].read_text(encoding="utf-8")

FENCED = re.compile(r"^```.*?^```", flags=re.M | re.S)
CODE = re.compile(r"(`+)[^`].*?\1")
LINK = re.compile(r"\]\(([^()\s]+)\)|^\[[^\]]+\]: (\S+)|(?:src|href)=\"([^\"]+)\"", flags=re.M)
HEADING = re.compile(r"^(#{1,6}) +(.+?) *#*$", flags=re.M)


def commands(program: str) -> list[list[str]]:
    """The arguments of a program in the shell blocks of the README."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", README, flags=re.M | re.S)
    lines = (shlex.split(line, comments=True) for line in "".join(blocks).splitlines())
    start = program.split()
    return [line[len(start) :] for line in lines if line[: len(start)] == start]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the README's model, in which its commands are typed."""
    ((path, text),) = re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```$", README, flags=re.M | re.S)
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.full
@pytest.mark.usefixtures("folder")
def test_its_model_is_measured(cli: Cli, ask: Ask) -> None:
    typed = commands("modescope run")
    assert typed
    for words in typed:
        assert (len(ask(*words)) > 10) is any(word.startswith("experiment=") for word in words)
        settings = [word for word in words if word != "-m" and not word.startswith("experiment=")]
        answer = cli(*last_of_each(*settings, *QUICKLY, "mode=eager"))  # without every mode
        assert answer.status == 0, answer


@pytest.mark.parametrize(("program", "main"), [("table", table.main), ("why", why.main)])
def test_its_study_is_read(
    program: str, main: Main, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = commands(f"modescope {program}")
    assert typed
    for words in typed:
        save([record("compile", 1e-4, 1.1, model="custom:my_pkg.net:build")], folder / words[0])
        assert main(words) == 0
        assert "compile" in capsys.readouterr().out


def anchors(text: str) -> list[str]:
    """The names that GitHub gives to the headings of a page."""
    names: list[str] = []
    for _, title in HEADING.findall(FENCED.sub("", text)):
        shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        before = sum(re.fullmatch(rf"{re.escape(name)}(-\d+)?", each) is not None for each in names)
        names.append(f"{name}-{before}" if before else name)
    return names


def broken_links(page: Path, text: str) -> Iterator[str]:
    """Links to files that do not exist, or to sections that their page does not have."""
    for link in map("".join, LINK.findall(CODE.sub("", FENCED.sub("", text)))):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if re.match(r"[a-z]+:", link):
            continue
        if not target.exists():
            yield link
        elif anchor and target.suffix == ".md":
            there = text if target == page else target.read_text(encoding="utf-8")
            if anchor not in anchors(there):
                yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_has_its_target(page: Path) -> None:
    assert list(broken_links(page, page.read_text(encoding="utf-8"))) == []
