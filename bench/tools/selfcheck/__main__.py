"""Checks modescope's accuracy on this machine, with quantities whose true values are known.

Exit status: 0 if every check that can run here passes, 1 if one fails.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import program
from modescope.bench.text import tables
from modescope.bench.tools import publish
from modescope.bench.tools.cli import INTERRUPTED, ToolParser, check_folder, command
from modescope.bench.tools.selfcheck.checks import CHECKS
from modescope.bench.tools.selfcheck.outcomes import CheckRow, Setting, percent
from modescope.bench.tools.selfcheck.races import CHANGES, detection_check
from modescope.bench.tools.testbed.sides import ready

PROGRAM = program("bench.selfcheck")
EXIT_FAILED = 1
TITLE = "Self-check of modescope"
HEADERS = ("", "check", "condition", "result", "accepted")
MARKS = {True: "pass", False: "FAIL", None: "–"}


@dataclass(frozen=True)
class SelfcheckOptions:
    """The command line: fields are named as its options."""

    thorough: bool
    only: str | None
    device: str
    seed: int
    results_dir: Path

    @property
    def checks(self) -> list[str]:
        """Names of the checks."""
        return list(CHECKS) if self.only is None else self.only.split(",")

    @property
    def folder(self) -> Path:
        """Where the files go."""
        return self.results_dir / "selfcheck"


@command
def main(words: Sequence[str]) -> int:
    """Exit status: 0 all checks pass, 1 one fails, 2 wrong arguments, 130 by Ctrl-C."""
    options = _parse(words)
    setting = Setting(ready(options.device), options.thorough, options.seed)
    context = publish.run_context(options.device, 1, PROGRAM, words)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    gc.collect()
    gc.freeze()  # excludes imported objects from the collection before each comparison (0.2 s)
    print("\n".join(publish.heading(context)), end="\n\n")
    rows: list[CheckRow] = []
    stopped = False
    try:
        for name in options.checks:
            for row in CHECKS[name](setting):
                rows.append(row)
                print(_line(row), flush=True)
    except KeyboardInterrupt:
        print(f"stopped; the {len(rows)} rows above are saved")
        stopped = True
    if rows:
        print(f"\n{summary(rows)}")
        _publish(options.folder, context, rows)
    failed = any(row.holds is False for row in rows)
    return INTERRUPTED if stopped else EXIT_FAILED if failed else 0


def summary(rows: Sequence[CheckRow]) -> str:
    """The number of passed checks, and the smallest change that this run can detect."""
    decided = [row for row in rows if row.holds is not None]
    passed = sum(bool(row.holds) for row in decided)
    text = f"{passed} of {len(decided)} checks pass"
    if len(rows) > len(decided):
        text += f"; {len(rows) - len(decided)} are reported only or cannot run on this machine"
    return "\n".join([text + ".", *_smallest_change(rows)])


def _smallest_change(rows: Sequence[CheckRow]) -> list[str]:
    """The smallest change that is detectable on the quiet machine, as a sentence."""
    times_s = {detection_check(change): change.budget.timed_max_s for change in CHANGES}
    quiet = [o for o in rows if o.check in times_s and o.condition == "quiet" and o.holds]
    shares = [(o.value, times_s[o.check]) for o in quiet if o.value is not None]
    if not shares:
        return []
    share, seconds = min(shares)
    return [f"Smallest detectable change in this run: {percent(share)} within {seconds:g} s."]


def _line(row: CheckRow) -> str:
    text = f"{MARKS[row.holds]:11}  {row.check} ({row.condition}): {row.found}"
    return f"{text}; accepted: {row.accepted}" if row.accepted else text


def _publish(folder: Path, context: publish.RunContext, rows: Sequence[CheckRow]) -> None:
    lines = [(MARKS[o.holds], o.check, o.condition, o.found, o.accepted) for o in rows]
    section = tables.Section("Checks", summary(rows), HEADERS, lines)
    text = tables.page(TITLE, publish.heading(context), [section])
    page, table = publish.publish(folder, context, text, {CheckRow: rows})
    print(f"\npage  {page}\nrows  {table}")


def _parse(words: Sequence[str]) -> SelfcheckOptions:
    parser = ToolParser(PROGRAM, __doc__)
    add = parser.add_argument
    add("--thorough", action="store_true", help="more trials: about half an hour")
    add("--only", help=f"run only these checks, separated by commas: {', '.join(CHECKS)}")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:<index>")
    add("--seed", type=int, default=0, help="seed of all random orders and draws")
    add("--results-dir", type=Path, default=Path("results"), help="files go to its selfcheck/")
    options = SelfcheckOptions(**vars(parser.parse_args(words)))
    unknown = [name for name in options.checks if name not in CHECKS]
    if unknown:
        raise UsageError(f"--only {options.only}: allowed are {', '.join(CHECKS)}")
    check_folder(options.folder)
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
