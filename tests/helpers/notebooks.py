"""Runs the notebook in docs/; `python -m tests.helpers.notebooks` also saves its outputs."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from tests.helpers.paths import ROOT

NOTEBOOK = ROOT / "docs" / "comparing.ipynb"
TIMEOUT_S = 300  # for a cell


def executed(notebook: Path, folder: Path) -> Any:
    """Runs `notebook` in a new kernel in `folder`; returns its content with the new outputs.

    Raises `nbclient.exceptions.CellExecutionError` if a cell raises.
    """
    content = nbformat.read(notebook, as_version=4)
    place = {"metadata": {"path": str(folder)}}
    client = NotebookClient(content, timeout=TIMEOUT_S, record_timing=False, resources=place)
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    return asyncio.run(client.async_execute(env=variables))


def outputs(content: Any) -> list[Any]:
    """The outputs of all cells, in order."""
    return [one for cell in content.cells for one in cell.get("outputs", ())]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        ran = executed(NOTEBOOK, Path(home))
    for cell in ran.cells:  # without progress bars
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    ran.metadata.pop("language_info", None)  # which names the version of Python
    nbformat.write(ran, NOTEBOOK)
