"""Whose a file is, by its path."""

from __future__ import annotations

import json
import sysconfig

import numpy
import pytest

from modescope.bench.records.paths import is_installed, is_of_python

PYTHON = sysconfig.get_path("stdlib")


@pytest.mark.parametrize(
    ("file", "of_python", "installed"),
    [
        (json.__file__, True, True),
        (numpy.__file__, False, True),
        (f"{PYTHON}/site-packages/timm/layers.py", False, True),  # of the Python beneath a venv
        ("/usr/lib/python3/dist-packages/timm/layers.py", False, True),
        ("/home/someone/net.py", False, False),
        ("/home/someone/site-packages.py", False, False),
    ],
)
def test_whose_a_file_is(file: str, of_python: bool, installed: bool) -> None:
    assert (is_of_python(file), is_installed(file)) == (of_python, installed)
