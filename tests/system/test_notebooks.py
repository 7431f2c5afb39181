"""The notebook of docs/ runs, and shows what its text says."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not (find_spec("nbclient") and find_spec("ipykernel")), reason="needs the extra system"
)


def test_the_notebook_shows_three_modes_and_why_and_two_functions(tmp_path: Path) -> None:
    from tests.helpers.notebooks import NOTEBOOK, executed, outputs

    ran = outputs(executed(NOTEBOOK, tmp_path))
    comparison, frame = (one.data for one in ran if one.output_type == "execute_result")
    assert comparison["text/html"].startswith("<pre")
    assert "compile" in frame["text/plain"]
    printed = "".join(one.text for one in ran if one.get("name") == "stdout")
    for mode in ("eager", "inference_mode", "compile"):
        assert f"\n{mode} fp32 · " in printed
    assert re.search(r"^approximate is [\d.]+× \[", printed, flags=re.M)


def test_the_kept_outputs_are_those_of_its_cells() -> None:
    import nbformat

    from tests.helpers.notebooks import NOTEBOOK, outputs

    kept = nbformat.read(NOTEBOOK, as_version=4)
    code = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [*range(1, 1 + len(code))]
    assert sum(one.output_type == "execute_result" for one in outputs(kept)) == 2
    assert NOTEBOOK.stat().st_size < 100_000
    assert "/tmp" not in NOTEBOOK.read_text(encoding="utf-8")
