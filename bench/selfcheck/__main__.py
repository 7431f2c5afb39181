"""How wrong can modescope be on this machine? Reads what is known, and compares.

Ends with status 0 where everything holds that can be checked here, 1 where something falls short.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from bench import pages, publishing
from bench.arguments import INTERRUPTED, Parser, check_folder, command
from bench.records import UsageError
from bench.selfcheck.checks import CHECKS
from bench.selfcheck.outcomes import Outcome, Setting, percent
from bench.selfcheck.races import CHANGES, seen_check
from bench.testbed.sides import ready

PROGRAM = "python -m bench.selfcheck"
EXIT_SHORT = 1
TITLE = "What modescope shows about itself"
HEADERS = ("", "check", "condition", "found", "accepted")
MARKS = {True: "holds", False: "FALLS SHORT", None: "–"}


@dataclass(frozen=True)
class Asked:
    """What is to be checked; names of fields are those of options."""

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
    """Exit status: 0 all holds, 1 something falls short, 2 wrong arguments, 130 by Ctrl-C."""
    asked = _parse(words)
    setting = Setting(ready(asked.device), asked.thorough, asked.seed)
    around = publishing.surroundings(asked.device, 1, PROGRAM, words)
    torch.set_num_threads(1)
    torch.manual_seed(asked.seed)
    gc.collect()
    gc.freeze()  # what was imported: every comparison collects garbage first, which took 0.2 s
    print("\n".join(publishing.heading(around)), end="\n\n")
    found: list[Outcome] = []
    stopped = False
    try:
        for name in asked.checks:
            for outcome in CHECKS[name](setting):
                found.append(outcome)
                print(_line(outcome), flush=True)
    except KeyboardInterrupt:
        print(f"stopped; the {len(found)} rows above are kept")
        stopped = True
    if found:
        print(f"\n{summary(found)}")
        _publish(asked.folder, around, found)
    short = any(outcome.holds is False for outcome in found)
    return INTERRUPTED if stopped else EXIT_SHORT if short else 0


def summary(found: Sequence[Outcome]) -> str:
    """How many checks hold, and what can be seen on this machine today."""
    decided = [outcome for outcome in found if outcome.holds is not None]
    held = sum(bool(outcome.holds) for outcome in decided)
    told = f"{held} of {len(decided)} checks hold"
    if len(found) > len(decided):
        told += f", {len(found) - len(decided)} are not decided here"
    return "\n".join([told + ".", *_seen(found)])


def _seen(found: Sequence[Outcome]) -> list[str]:
    """The smallest change that a planted row shows to be seen where nothing disturbs."""
    times_s = {seen_check(change): change.budget.timed_max_s for change in CHANGES}
    quiet = [o for o in found if o.check in times_s and o.condition == "quiet" and o.holds]
    shares = [(o.value, times_s[o.check]) for o in quiet if o.value is not None]
    if not shares:
        return []
    share, seconds = min(shares)
    return [f"This machine, today: a change of {percent(share)} can be seen in {seconds:g} s."]


def _line(outcome: Outcome) -> str:
    told = f"{MARKS[outcome.holds]:11}  {outcome.check} ({outcome.condition}): {outcome.found}"
    return f"{told}; accepted: {outcome.accepted}" if outcome.accepted else told


def _publish(folder: Path, around: publishing.Surroundings, found: Sequence[Outcome]) -> None:
    rows = [(MARKS[o.holds], o.check, o.condition, o.found, o.accepted) for o in found]
    section = pages.Section("Checks", summary(found), HEADERS, rows)
    text = pages.page(TITLE, publishing.heading(around), [section])
    page, table = publishing.publish(folder, around, text, {Outcome: found})
    print(f"\npage  {page}\nrows  {table}")


def _parse(words: Sequence[str]) -> Asked:
    parser = Parser(PROGRAM, __doc__)
    add = parser.add_argument
    add("--thorough", action="store_true", help="the full counts: about half an hour")
    add("--only", help=f"some checks, with commas: {', '.join(CHECKS)}")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:<index>")
    add("--seed", type=int, default=0, help="decides every order and draw")
    add("--results-dir", type=Path, default=Path("results"), help="files go to selfcheck/ in it")
    asked = Asked(**vars(parser.parse_args(words)))
    unknown = [name for name in asked.checks if name not in CHECKS]
    if unknown:
        raise UsageError(f"--only {asked.only}: allowed are {', '.join(CHECKS)}")
    check_folder(asked.folder)
    return asked


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
