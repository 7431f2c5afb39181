"""Where a function of the user's is imported from, read in a child process."""

from __future__ import annotations

import sys

from modescope.bench.records.installed import is_installed
from modescope.bench.records.progress import Progress
from modescope.bench.steps.building import find


def read(progress: Progress, key: str, target: str) -> tuple[str | None, tuple[str, ...]]:
    """The file of `target` ("module:function"), the value of setting `key`; imports it.

    And the files of all that was imported with it, without installed packages.
    """
    before = set(sys.modules)
    find(target, key)
    own = getattr(sys.modules[target.partition(":")[0]], "__file__", None)
    names = [name for name in {*sys.modules} - before if not name.startswith("modescope.")]
    files = {getattr(sys.modules[name], "__file__", None) for name in names}
    return own, tuple(sorted(file for file in files if file and not is_installed(file)))
