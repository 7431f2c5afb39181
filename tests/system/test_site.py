"""`make docs`: the site is complete, and all of it lies in its folder."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.helpers.browser_tab import PHONE, Tab
from tests.helpers.paths import ROOT

for _package in ("sphinx", "myst_parser", "furo"):
    pytest.importorskip(_package, reason="needs pip install -e '.[docs]', as make docs does")


class Page:
    """The addresses that an HTML page links to or loads, and its anchors."""

    def __init__(self, file: Path) -> None:
        text = file.read_text(encoding="utf-8")
        self.addresses = list(map(unescape, re.findall(r'\s(?:href|src)="([^"]*)"', text)))
        self.anchors = set(re.findall(r'\s(?:id|name)="([^"]*)"', text))


def local(addresses: list[str]) -> Iterator[tuple[str, str]]:
    """Path and anchor of those that do not name another host."""
    for address in addresses:
        parts = urlsplit(address)
        if not parts.scheme and not parts.netloc:
            yield unquote(parts.path), unquote(parts.fragment)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` builds, in another folder; a broken link of a page is a warning there."""
    folder = tmp_path_factory.mktemp("built")
    planned = subprocess.run(
        ["make", "-n", "docs", f"PYTHON={sys.executable}", "CXX=sh"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (line,) = (line for line in planned.stdout.splitlines() if " -m sphinx " in line)
    own = {".venv/bin/python": sys.executable, ".venv/doctrees": f"{folder}/doctrees"}
    *command, source, target = (own.get(word, word) for word in shlex.split(line))
    assert ("-W" in command, source, target) == (True, ".", "site")
    done = subprocess.run(
        [*command, source, str(folder / target)], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / target


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in sorted(site.rglob("*.html"))}


def test_the_api_and_the_reference_results_have_their_pages(
    site: Path, pages: dict[Path, Page]
) -> None:
    api = pages[site / "docs/website/api.html"]
    assert "modescope.bench.allocations.watch_allocations" in api.anchors
    reference = " ".join(pages[site / "docs/website/reference.html"].addresses)
    for machine in ("intel-xeon-2-cores", "amd-epyc-2-cores"):
        for name in ("report/index.html", "selfcheck/", "claims/"):
            assert f"{machine}/{name}" in reference


def test_every_link_and_file_of_the_site_is_in_the_site(pages: dict[Path, Page]) -> None:
    missing = []
    for file, page in pages.items():
        for path, anchor in local(page.addresses):
            target = (file.parent / path).resolve() if path else file
            there = target in pages
            if not target.exists() or (anchor and there and anchor not in pages[target].anchors):
                missing.append((file.name, path, anchor))
    assert missing == []
    assert len(pages) > len([*(ROOT / "docs").glob("*.md")])


def test_wide_tables_scroll_by_themselves(tab: Tab, site: Path, pages: dict[Path, Page]) -> None:
    tab.resize(PHONE)
    for file in pages:
        if "results/reference" in file.as_posix() and file.parent.name == "report":
            continue  # a page with a layout and tests of its own
        if file == site / "index.html":
            continue  # leads on to docs/index.html
        tab.open(file)
        assert tab.js("return document.documentElement.scrollWidth") <= PHONE, file
