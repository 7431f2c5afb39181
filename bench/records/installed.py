"""Whether a file is a user's own, or came with Python or an installed package."""

from __future__ import annotations

import os
import re
import sysconfig

_PACKAGE = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
"""Of this environment, and of the Python that it was made with, whose packages it may share."""

_PYTHON = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))


def is_of_python(file: str) -> bool:
    """Whether a file belongs to Python's own library."""
    return file.startswith(_PYTHON) and not _PACKAGE.search(file)


def is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    return is_of_python(file) or _PACKAGE.search(file) is not None
