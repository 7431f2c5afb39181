"""The notebook of docs/ runs, shows what its text says, and can be read on any page."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.browser_tab import DESKTOPS, PHONE, Tab
from tests.helpers.paths import ROOT

pytestmark = pytest.mark.skipif(
    not (find_spec("nbclient") and find_spec("ipykernel")), reason="needs the extra system"
)

NOTEBOOK = ROOT / "docs" / "comparing.ipynb"
MODES = ("eager", "inference_mode", "compile")

PAGE = """<!doctype html><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<style>
body {{ margin: 8px; font-family: sans-serif; color: #222; background: #fff }}
@media (prefers-color-scheme: dark) {{ body {{ color: #ddd; background: #111 }} }}
</style>{shown}"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from tests.helpers.notebooks import executed

    return executed(NOTEBOOK, tmp_path_factory.mktemp("notebook"))


def results(content: Any) -> list[Any]:
    """The data of each cell's value, by type."""
    return [
        one.data
        for cell in content.cells
        for one in cell.get("outputs", ())
        if one.output_type == "execute_result"
    ]


def printed(content: Any) -> str:
    return "".join(
        one.text
        for cell in content.cells
        for one in cell.get("outputs", ())
        if one.output_type == "stream" and one.name == "stdout"
    )


def test_the_notebook_shows_table_and_figure_of_three_modes(ran: Any) -> None:
    comparison, frame = results(ran)
    page = comparison["text/html"]
    assert page.count("<svg") == 1
    assert page.count("<tr>") == 1 + len(MODES)
    assert all(f">{mode}</td>" in page for mode in MODES)
    assert "failed" not in page
    assert page.startswith("<div")
    assert "compile" in frame["text/plain"]


def test_the_notebook_says_why_and_measures_two_functions(ran: Any) -> None:
    assert re.search(r"^\[\w+\] compile (is|gains)", printed(ran), flags=re.M)
    assert re.search(r"^approximate is [\d.]+× \[", printed(ran), flags=re.M)


def test_the_kept_outputs_are_those_of_its_cells() -> None:
    import nbformat

    kept = nbformat.read(NOTEBOOK, as_version=4)
    assert NOTEBOOK.stat().st_size < 100_000
    assert len(results(kept)) == 2
    assert [cell.execution_count for cell in kept.cells if cell.cell_type == "code"] == [
        *range(1, 6)
    ]
    assert "/tmp" not in NOTEBOOK.read_text(encoding="utf-8")


LEAST = 34 * 16  # pixels: narrower, a figure scrolls


@pytest.mark.parametrize("width", [*DESKTOPS[:1], PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_page_and_has_its_colours(
    ran: Any, tab: Tab, tmp_path: Path, width: int, scheme: str
) -> None:
    (tmp_path / "page.html").write_text(PAGE.format(shown=results(ran)[0]["text/html"]))
    tab.look(scheme=scheme)
    tab.resize(width)
    tab.open(tmp_path / "page.html")
    assert tab.js("return document.documentElement.scrollWidth") <= width
    figure, room = (
        tab.js(f"return document.querySelector('{one}').getBoundingClientRect().width")
        for one in ("svg", "div[role=img]")
    )
    assert 300 < figure <= max(room, LEAST)
    ink = tab.js("return getComputedStyle(document.querySelector('svg text')).fill")
    assert ink == {"light": "rgb(34, 34, 34)", "dark": "rgb(221, 221, 221)"}[scheme]
