"""Runs notebooks: `python -m tests.helpers.notebooks` runs those in docs/ and keeps the outputs."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from tests.helpers.paths import ROOT

NOTEBOOKS = sorted((ROOT / "docs").glob("*.ipynb"))
TIMEOUT_S = 300  # for a cell


def executed(notebook: Path, folder: Path) -> Any:
    """The notebook with the outputs of a new kernel, started in `folder`.

    Raises `nbclient.exceptions.CellExecutionError` where a cell does.
    """
    content = nbformat.read(notebook, as_version=4)
    client = NotebookClient(
        content,
        timeout=TIMEOUT_S,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    return asyncio.run(client.async_execute(env=variables))


def outputs(content: Any) -> Iterator[Any]:
    """What the cells have put out."""
    for cell in content.cells:
        yield from cell.get("outputs", ())


def main() -> None:
    for notebook in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            content = executed(notebook, Path(folder))
        for cell in content.cells:  # without progress bars
            if cell.cell_type == "code":
                cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
        content.metadata.pop("language_info", None)  # which names the version of Python
        nbformat.write(content, notebook)


if __name__ == "__main__":
    main()
