"""The releases of torch that modescope was tested with. Imports no torch."""

from __future__ import annotations

import re

OLDEST, NEWEST = (2, 11), (2, 15)
"""By `make test-oldest`, `make test` (the one in constraints.txt) and `make test-newest`.

pyproject.toml has the same lower bound and no upper one, which would replace a user's newer torch.
"""


def warning(torch_version: str | None) -> str | None:
    """One line if `torch_version`, as torch writes it, is outside the tested range; else None.

    Pre-releases and local builds of a tested release count as tested.
    """
    release = re.match(r"(\d+)\.(\d+)", torch_version or "")
    if release and OLDEST <= (int(release[1]), int(release[2])) <= NEWEST:
        return None
    oldest, newest = (".".join(map(str, each)) for each in (OLDEST, NEWEST))
    return (
        f"warning: modescope has not been tested with torch {torch_version or '(unknown version)'} "
        f"(tested: {oldest} to {newest}). Times are probably right, but counts and the checks that "
        "a mode took effect read torch's internals: run `make test` and `make selfcheck` before "
        "you rely on them"
    )
