"""The notebook of docs/ runs, and shows what its text says."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import pytest

from tests.helpers.paths import ROOT

pytestmark = pytest.mark.skipif(
    not (find_spec("nbclient") and find_spec("ipykernel")), reason="needs the extra system"
)

NOTEBOOK = ROOT / "docs" / "comparing.ipynb"
MODES = ("eager", "inference_mode", "compile")


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


def test_the_notebook_shows_three_modes_and_why_and_two_functions(ran: Any) -> None:
    comparison, frame = results(ran)
    assert comparison["text/html"].startswith("<pre")
    assert "compile" in frame["text/plain"]
    text = printed(ran)
    assert all(f"\n{mode} fp32 · " in text for mode in MODES)
    assert re.search(r"^approximate is [\d.]+× \[", text, flags=re.M)


def test_the_kept_outputs_are_those_of_its_cells() -> None:
    import nbformat

    kept = nbformat.read(NOTEBOOK, as_version=4)
    assert NOTEBOOK.stat().st_size < 100_000
    assert len(results(kept)) == 2
    assert [cell.execution_count for cell in kept.cells if cell.cell_type == "code"] == [
        *range(1, 6)
    ]
    assert "/tmp" not in NOTEBOOK.read_text(encoding="utf-8")
