"""`make docs`: the site is complete, all of it lies in its folder, and a broken link fails."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.helpers.browser_tab import DESKTOPS, PHONE, Tab
from tests.helpers.paths import ROOT

for _package in ("sphinx", "myst_parser", "furo"):
    pytest.importorskip(_package, reason="needs pip install -e '.[docs]', as make docs does")

PAGES = sorted((ROOT / "docs").glob("*.md"))


def build(root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """What `make docs` starts, with another source and another place to write to."""
    planned = subprocess.run(
        ["make", "-n", "docs", f"PYTHON={sys.executable}", "CXX=sh"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (line,) = (line for line in planned.stdout.splitlines() if " -m sphinx " in line)
    own = {".venv/bin/python": sys.executable, ".venv/doctrees": f"{folder}/doctrees"}
    command = [own.get(word, word) for word in shlex.split(line)]
    assert command[-2:] == [".", "site"]
    return subprocess.run(
        [*command[:-1], f"{folder}/site"], cwd=root, capture_output=True, text=True
    )


@dataclass
class Page(HTMLParser):
    """The links, anchors and loaded files of an HTML page."""

    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" or "src" in values:
            self.loaded.append(values.get("src") or values.get("href", ""))


def read(file: Path) -> Page:
    page = Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def local(addresses: list[str]) -> Iterator[tuple[str, str]]:
    """Path and anchor of those that do not name another host."""
    for address in addresses:
        parts = urlsplit(address)
        if not parts.scheme and not parts.netloc:
            yield unquote(parts.path), unquote(parts.fragment)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    done = build(ROOT, folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: read(file) for file in sorted(site.rglob("*.html"))}


def test_every_page_is_in_the_navigation(site: Path, pages: dict[Path, Page]) -> None:
    index = site / "docs" / "index.html"
    linked = {(index.parent / path).resolve() for path, _ in local(pages[index].links)}
    shown = {site / "docs" / f"{page.stem}.html" for page in PAGES if page.stem != "index"}
    shown |= {site / f"{name}.html" for name in ("README", "DECISIONS", "results/README")}
    shown |= {site / "docs" / "website" / f"{name}.html" for name in ("api", "reference")}
    assert shown <= linked


def test_every_link_and_file_of_the_site_is_in_the_site(pages: dict[Path, Page]) -> None:
    missing = []
    for file, page in pages.items():
        for path, anchor in local([*page.links, *page.loaded]):
            target = (file.parent / path).resolve() if path else file
            there = target in pages
            if not target.exists() or (anchor and there and anchor not in pages[target].anchors):
                missing.append((file.name, path, anchor))
    assert missing == []
    assert len(pages) > len(PAGES) + 10


def test_nothing_is_loaded_from_another_host(site: Path, pages: dict[Path, Page]) -> None:
    for file, page in pages.items():
        assert [address for address in page.loaded if "//" in address] == [], file
    for file in site.rglob("*.css"):
        text = file.read_text(encoding="utf-8")
        assert re.findall(r"(?:url\(|@import)[\s\"']*(?:https?:)?//[^)\s]*", text) == [], file


def test_the_api_and_the_reference_results_are_there(site: Path) -> None:
    api = (site / "docs/website/api.html").read_text(encoding="utf-8")
    assert 'id="modescope.bench.allocations.watch_allocations"' in api
    reference = read(site / "docs/website/reference.html")
    for name in ("report/index.html", "selfcheck/", "claims/"):
        for machine in ("intel-xeon-2-cores", "amd-epyc-2-cores"):
            assert any(f"{machine}/{name}" in link for link in reference.links), (machine, name)


BROKEN = {
    "[a](nowhere.md)": "nowhere.md",
    "[b](../README.md#nowhere)": "local id not found in doc 'README': 'nowhere'",
    "[c](#nowhere)": "'nowhere'",
    "![d](figures/nowhere.svg)": "figures/nowhere.svg",
    "[e](../conf/nowhere.yaml)": "../conf/nowhere.yaml",
}


def test_a_broken_link_fails(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "docs" / "website", copy / "docs" / "website")
    (copy / "docs" / "website" / "api.md").write_text("# API\n")
    (copy / "results" / "reference").mkdir(parents=True)
    for name in ("README.md", "DECISIONS.md", "results/README.md"):
        (copy / name).write_text("# Page\n")
    index = copy / "docs" / "index.md"
    index.write_text("# Index\n\n[here](#index), [there](../README.md#page)\n")
    done = build(copy, tmp_path / "right")
    assert (done.returncode, done.stderr) == (0, "")

    index.write_text("# Index\n\n" + "\n\n".join(BROKEN))
    done = build(copy, tmp_path / "wrong")
    assert done.returncode != 0
    for message in BROKEN.values():
        assert message in done.stderr


@pytest.mark.parametrize(
    "width", [PHONE, *(pytest.param(each, marks=pytest.mark.full) for each in DESKTOPS)]
)
def test_wide_tables_scroll_by_themselves(tab: Tab, pages: dict[Path, Page], width: int) -> None:
    tab.resize(width)
    for file in pages:
        if "results/reference" in file.as_posix() and file.parent.name == "report":
            continue  # a page with a layout and tests of its own
        tab.open(file)
        assert tab.js("return document.documentElement.scrollWidth") <= width, file
