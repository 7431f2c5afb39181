"""Folders of the repository, and the files of a made-up system."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
HELPERS = ROOT / "tests" / "helpers"
REFERENCE = ROOT / "results" / "reference"


def machine(root: Path, files: dict[str, str]) -> Path:
    """Writes files (path below `root` -> text) and returns `root`."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root
