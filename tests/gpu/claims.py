"""Tests the claims that need a GPU: `python -m tests.gpu.claims FOLDER [ID ...]`.

Without ids, those that neither time nor compile anything.
"""

from __future__ import annotations

import sys
from pathlib import Path

from modescope.bench import claims
from modescope.bench.devices.cuda import find
from modescope.bench.tools.claims.check import CLAIMS


def main(folder: Path, names: list[str]) -> int:
    """Returns the exit status of `bench.claims`."""
    find("cuda")
    quick = [
        claim.id for claim in CLAIMS.values() if "cpu" not in claim.needs.split() and not claim.slow
    ]
    return claims.main([*(names or quick), "--device", "cuda", "--results-dir", str(folder)])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
