"""Folders of the repository."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
HELPERS = ROOT / "tests" / "helpers"
REFERENCE = ROOT / "results" / "reference"
