"""Writes the files of a made-up system, such as /proc and /sys, to a folder."""

from __future__ import annotations

from pathlib import Path


def machine(root: Path, files: dict[str, str]) -> Path:
    """Writes files (path below `root` -> text) and returns `root`."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root
