"""What texts name and link to exists, and a long page begins with its contents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import rooms
from tests.helpers.paths import ROOT

TEXTS = [ROOT / name for name in ("README.md", "DECISIONS.md", "results/README.md")]
TEXTS += sorted((ROOT / "docs").glob("*.md"))
SOURCES = sorted(
    path for top in ("bench", "analysis", "models") for path in (ROOT / top).rglob("*.py")
)

PATH = re.compile(r"(?<![\w/.~-])(?:bench|analysis|conf|models|tests|docs|modescope)/[\w./-]*")
NAME = re.compile(r"(?<![\w/.])(?:modescope\.)?((?:bench|analysis|models|tests)(?:\.\w+)+)")
PLACEHOLDER = "NAME"
FENCED = re.compile(r"^```.*?^```", flags=re.M | re.S)

LINK = re.compile(r"\]\(([^()\s]+)\)|^\[[^\]]+\]: (\S+)|(?:src|href)=\"([^\"]+)\"", flags=re.M)
CODE = re.compile(r"(`+)[^`].*?\1")
HEADING = re.compile(r"^(#{1,6}) +(.+?) *#*$", flags=re.M)
LONG = 130
"""Lines up to which a page needs no contents."""

MODULES = rooms.modules()


def name_of(path: Path) -> str:
    """Where a file lies in the repository."""
    return path.relative_to(ROOT).as_posix()


def text_of(path: Path) -> str:
    """The text of a file; for the page on additions without its blocks, which make files."""
    text = path.read_text(encoding="utf-8")
    return FENCED.sub("", text) if path.name == "adding.md" else text


def missing_paths(text: str) -> Iterator[str]:
    """Paths that do not exist."""
    for path in PATH.findall(text):
        path = path.rstrip(".")
        if PLACEHOLDER not in path and not (ROOT / path).exists():
            yield path


def missing_names(text: str) -> Iterator[str]:
    """Dotted names of ours that are neither a module nor in one."""
    for name in NAME.findall(text):
        parts = name.removesuffix(".py").split(".")
        path = ROOT / "/".join(parts)
        if path.is_dir() or path.with_suffix(".py").exists():
            continue
        module = next((m for n in (len(parts), len(parts) - 1, len(parts) - 2)
                       if (m := ".".join(parts[:n])) in MODULES), None)  # fmt: skip
        attributes = parts[len(module.split(".")) :] if module else [None]
        source = MODULES[module].read_text(encoding="utf-8") if module else ""
        if not module or any(not re.search(rf"\b{each}\b", source) for each in attributes):
            yield name


def anchors(text: str) -> list[str]:
    """The names that GitHub gives to the headings of a page."""
    names: list[str] = []
    for _, title in HEADING.findall(FENCED.sub("", text)):
        shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        before = sum(re.fullmatch(rf"{re.escape(name)}(-\d+)?", each) is not None for each in names)
        names.append(f"{name}-{before}" if before else name)
    return names


def links(text: str) -> list[str]:
    """Links of a page to other files and to its own sections."""
    prose = CODE.sub("", FENCED.sub("", text))
    found = ("".join(each) for each in LINK.findall(prose))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def broken_links(page: Path, text: str) -> Iterator[str]:
    """Links to files that do not exist, or to sections that their page does not have."""
    for link in links(text):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists():
            yield link
        elif anchor and target.suffix == ".md":
            there = text if target == page else target.read_text(encoding="utf-8")
            if anchor not in anchors(there):
                yield link


def not_in_contents(text: str) -> list[str]:
    """Sections (##) to which nothing above the first of them links; none on a short page."""
    top, *rest = re.split(r"^(?=## )", FENCED.sub("", text), flags=re.M)
    linked = links(top)
    names = [anchors(section)[0] for section in rest]
    return [name for name in names if f"#{name}" not in linked] if text.count("\n") > LONG else []


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_every_link_has_its_target(path: Path) -> None:
    assert list(broken_links(path, path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_a_long_page_begins_with_its_contents(path: Path) -> None:
    assert not_in_contents(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_every_path_in_a_text_exists(path: Path) -> None:
    assert list(missing_paths(text_of(path))) == []


@pytest.mark.parametrize("path", [*TEXTS, *SOURCES], ids=name_of)
def test_every_module_in_a_text_exists(path: Path) -> None:
    assert list(missing_names(text_of(path))) == []


def test_a_broken_link_is_reported() -> None:
    text = (
        "[a](#a-b) [b](#b) [a\nlong one](../README.md#none) [c](nowhere.md) `[d](code)`\n"
        "[e](../Makefile) [f](https://there/is#none) ![g](figures/none.svg)\n## A `b`!\n"
        "```\n[h](block)\n## B\n```\n"
    )
    expected = ["#b", "../README.md#none", "nowhere.md", "figures/none.svg"]
    assert list(broken_links(ROOT / "docs" / "adding.md", text)) == expected


def test_headings_have_the_names_that_github_gives_them() -> None:
    text = "# One\n## `a_b` – [two](x.md), 3 × 4?\n### One\n### One\n"
    assert anchors(text) == ["one", "a_b--two-3--4", "one-1", "one-2"]


def test_missing_contents_are_reported() -> None:
    page = "# Page\n\n[One](#one)\n\n## One\n\n### Part\n\n## Two\n"
    assert not_in_contents(page) == []
    assert not_in_contents(page + "\n" * LONG) == ["two"]


def test_a_path_that_does_not_exist_is_reported() -> None:
    assert list(missing_paths("see `bench/nowhere.py` and docs/adding.md.")) == ["bench/nowhere.py"]
    names = "`bench.timing.timers.latency`, `bench.timing.timers.gone`, `bench.gone.at_all`"
    assert list(missing_names(names)) == ["bench.timing.timers.gone", "bench.gone.at_all"]
