"""Tests the claims that need a GPU: `python -m tests.gpu.claims FOLDER [ID ...]`.

Without ids, those that neither time nor compile anything.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from modescope.bench import claims
from modescope.bench.tools.claims.check import CLAIMS
from modescope.bench.tools.claims.claim import REFUTED, UNDECIDED


def main(folder: Path, names: list[str]) -> int:
    """Returns the exit status of `bench.claims`."""
    quick = [
        claim.id for claim in CLAIMS.values() if "cpu" not in claim.needs.split() and not claim.slow
    ]
    before = {*(folder / "claims").glob("*.parquet")}
    status = claims.main([*(names or quick), "--device", "cuda", "--results-dir", str(folder)])
    written = {*(folder / "claims").glob("*.parquet")} - before
    if not written:
        print("no page was written")
        return status
    verdicts = pq.read_table(written.pop(), columns=["claim", "verdict"]).to_pylist()
    found = {each["claim"]: each["verdict"] for each in verdicts if each["verdict"]}
    counts = Counter(found.values())
    refuted = [name for name, verdict in found.items() if verdict in (REFUTED, UNDECIDED)]
    named = f": {', '.join(refuted)}" if refuted else ""
    print(f"{', '.join(f'{n} {what}' for what, n in counts.items())}{named}")
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
