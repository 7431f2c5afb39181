"""What analysis.why says of known situations: `python -m tests.situations [STUDY]`.

Exits with 1 where a cause that is there is not named first, or one is named that is not there.
"""

from __future__ import annotations

import argparse
import math
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from modescope.bench.records.errors import UsageError
from tests.helpers.paths import ROOT
from tests.helpers.studies import save
from tests.situations import page, recorded, table
from tests.situations.page import Answer, answers

REFERENCE = ROOT / "results/reference"
KEPT = REFERENCE / "intel-xeon-2-cores/situations"
WITHOUT_BF16 = REFERENCE / "amd-epyc-avx2-2-cores/situations"
SETTINGS = ("budget=quick", "trace_max_mb=0")


def measure(study: Path) -> None:
    """Measures what the study lacks, each sweep by a command like a user's."""
    sweeps = dict.fromkeys(one.sweep for one in (*table.COMPLAINTS, *table.OTHERS))
    folder = (f"results_dir={study.parent}", f"study={study.name}")
    for sweep in sweeps:
        words = ("run.py", "-m", *shlex.split(sweep), *SETTINGS, *folder)
        print(shlex.join(("python", *words)), flush=True)
        subprocess.run([sys.executable, *words], cwd=ROOT, check=False)


def answered(study: Path) -> list[Answer]:
    """The answers of all situations, kept and made-up ones included; complaints by their number."""
    with tempfile.TemporaryDirectory() as folder:
        of_gpu = list(answers(save(recorded.ROWS, Path(folder)), recorded.COMPLAINTS))
    here = answers(study, (*table.COMPLAINTS, *table.OTHERS))
    every = [*here, *of_gpu, *answers(WITHOUT_BF16, table.ELSEWHERE)]
    return sorted(every, key=lambda one: getattr(one.situation, "number", math.inf))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 all are right, 1 one is not, 2 wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.situations", description=__doc__)
    parser.add_argument("study", nargs="?", type=Path, default=KEPT)
    parser.add_argument("--measure", action="store_true", help="measure what the study lacks")
    parser.add_argument("--write", action="store_true", help=f"write the list of {page.PATH.name}")
    options = parser.parse_args(arguments)
    study = options.study.resolve()
    if options.measure:
        measure(study)
    try:
        found = answered(study)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for one in found:
        print(f"{'wrong' if one.fault else 'right'}  {one.situation.title}")
        print(f"       {one.fault or ', '.join(each.code for each in one.causes) or 'no cause'}")
    if options.write:
        before, _, _ = page.PATH.read_text(encoding="utf-8").partition(page.FIRST)
        page.PATH.write_text(before + page.generated(study, found), encoding="utf-8")
    return int(any(one.fault for one in found))


if __name__ == "__main__":
    sys.exit(main())
