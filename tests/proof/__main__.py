"""Proves on a GPU what a CPU cannot show, in steps of at most 9 minutes: `make prove-on-gpu`.

Each step continues where it was stopped, also on another day and from the archive that every step
leaves. Steps that have ended are not repeated unless --only names a failed one. Exit status: 0
unless a step failed; steps that are open are listed.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from modescope.bench.records.errors import UsageError
from modescope.bench.tools.cli import ToolParser, command, seconds
from tests.helpers.paths import ROOT
from tests.proof import records, running, wheels
from tests.proof.records import Machine, Record, Records
from tests.proof.step import Setting, Step
from tests.proof.table import STEPS

PROGRAM = "python -m tests.proof"
DONE, FAILED, OPEN = "done", "failed", "open"
ENVIRONMENT = ".venv-offline"
PRETENDED = "a pretended GPU"

ASK = """
import json, platform, torch
gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
found = {"gpu": gpu, "torch": str(torch.__version__), "python": platform.python_version()}
print(json.dumps(found))
"""


@dataclass(frozen=True)
class ProofOptions:
    """The command line: fields are named as its options."""

    only: str | None
    listing: bool  # --list
    minutes: float | None
    folder: Path
    archive: Path | None
    start_from: Path | None
    wheels: Path | None
    rehearse: bool


def parse(words: Sequence[str]) -> ProofOptions:
    """What `words` ask for; raises UsageError, and SystemExit(0) after --help."""
    parser = ToolParser(PROGRAM, __doc__)
    parser.formatter_class = argparse.HelpFormatter
    add = parser.add_argument
    add("--only", metavar="1,2", help="numbers of steps; failed ones among them are repeated")
    add("--list", dest="listing", action="store_true", help="print the steps and run nothing")
    add("--minutes", type=minutes, help="end this call after so many; another one goes on")
    add("--folder", type=Path, default=Path("results/proof"), help="of records, rows and output")
    add("--archive", type=Path, help="default: <folder>.tar.gz, written after every step")
    add("--start-from", type=Path, metavar="ARCHIVE", help="fills a new folder from an archive")
    add("--wheels", type=Path, metavar="FOLDER", help="of make gpu-wheels: use no network")
    add("--rehearse", action="store_true", help="every step, small, on a GPU that is pretended")
    return ProofOptions(**vars(parser.parse_args(words)))


def minutes(text: str) -> float:
    """A positive, finite number."""
    try:
        return seconds(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text} is not a number of minutes above 0") from None


def chosen(only: str | None) -> dict[int, Step]:
    """The steps by their numbers, from 1; raises UsageError."""
    every = dict(enumerate(STEPS, 1))
    if only is None:
        return every
    numbers = [int(each) if each.isdecimal() else 0 for each in only.split(",")]
    if not set(numbers) <= set(every):
        raise UsageError(f"--only {only}: allowed are numbers from 1 to {len(every)} with commas")
    return {number: every[number] for number in numbers}


def machine(python: str, rehearsal: bool) -> Machine:
    """What torch sees by this interpreter; raises UsageError where it has none."""
    asked = subprocess.run([python, "-c", ASK], cwd=ROOT, capture_output=True, text=True)
    if asked.returncode:
        reason = (asked.stderr.splitlines() or ["no output"])[-1]
        raise UsageError(f"{python} cannot import torch ({reason}); install it, from 2.11 on")
    found = Machine(**json.loads(asked.stdout))
    return replace(found, gpu=PRETENDED) if rehearsal else found


def state(step: Step, record: Record, setting: Setting) -> tuple[str, str]:
    """Done, failed or open, and why so."""
    asked = [command for command in step.commands if command.chosen(setting)]
    ended = {each: known for each in asked if (known := record.commands.get(each.name(setting)))}
    wrong = sum(not each.is_fine(known.status, setting) for each, known in ended.items())
    failed = f"{wrong} of {len(asked)} commands failed: output/{step.name}.txt" if wrong else ""
    if record.stopped:
        return OPEN, "; ".join(filter(None, (record.stopped, failed)))
    if not asked:
        return OPEN, "left out of rehearsals, as it needs a real GPU"
    if len(ended) < len(asked):
        return OPEN, f"{len(ended)} of {len(asked)} commands have ended" if ended else ""
    if failed:
        return FAILED, failed
    return DONE, f"{record.seconds:.0f} s"


def obstacle(step: Step, here: Machine, folder: Path) -> str | None:
    """Why the step cannot run now, or None."""
    if step.needs_gpu and here.gpu is None:
        return "needs a GPU"
    return step.lacks(folder)


def line(number: int, step: Step, told: tuple[str, str], reached: str) -> str:
    """A step in the list."""
    word, why = told
    details = "; ".join(filter(None, (why, reached)))
    return f"{number:3} {word:6} {step.title}{f' ({details})' if details else ''}"


def listing(
    steps: dict[int, Step], known: Records, here: Machine, setting: Setting
) -> Iterator[tuple[str, str]]:
    """The state of each step, and its line."""
    for number, step in steps.items():
        record = known.of(step, here)
        word, why = state(step, record, setting)
        if word == OPEN:
            why = "; ".join(filter(None, (obstacle(step, here, setting.folder), why)))
        yield word, line(number, step, (word, why), record.reached)


def prove(
    steps: dict[int, Step], known: Records, here: Machine, setting: Setting, options: ProofOptions
) -> None:
    """Runs what is open, and of the steps that --only names what failed; packs after each."""
    limit = math.inf if options.minutes is None else options.minutes
    deadline = time.monotonic() + 60 * limit
    for number, step in steps.items():
        record = known.of(step, here)
        word, _ = state(step, record, setting)
        again = word == FAILED and options.only is not None
        due = word == OPEN or again or step.repeats
        empty = not any(command.chosen(setting) for command in step.commands)
        if not due or empty or obstacle(step, here, setting.folder):
            continue
        if time.monotonic() >= deadline:
            break
        say(f"{number:3} …      {step.title}")
        keep = partial(known.keep, step)
        try:
            record = running.run(step, record, setting, deadline, keep, say, again)
        finally:
            pack(setting.folder, options)
        say(line(number, step, state(step, record, setting), record.reached))


def say(text: str) -> None:
    """Prints at once, also into a pipe."""
    print(text, flush=True)


def pack(folder: Path, options: ProofOptions) -> Path:
    """Writes the archive, and says what is too large for it."""
    archive = options.archive or folder.with_name(f"{folder.name}.tar.gz")
    for name in records.pack(folder, archive.resolve()):
        say(f"    left out of the archive, too large: {name}")
    return archive


@command
def main(words: Sequence[str]) -> int:
    """Exit status: 0 no step failed, 1 one failed, 2 wrong arguments, 130 by Ctrl-C."""
    options = parse(words)
    steps = chosen(options.only)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # inherited from a shell's background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = options.folder.resolve()
    if options.rehearse:
        folder = folder.with_name(f"{folder.name}-rehearsed")
    if options.start_from:
        records.unpack(options.start_from, folder)
    python = sys.executable
    if options.wheels:
        python = str(wheels.environment(options.wheels.resolve(), ROOT / ENVIRONMENT))
    here = machine(python, options.rehearse)
    setting = Setting(python, folder, options.rehearse, str(here))
    known = Records(folder)
    say(f"{here}\n")
    if not options.listing:
        folder.mkdir(parents=True, exist_ok=True)
        prove(steps, known, here, setting, options)
        say("")
    told = list(listing(steps, known, here, setting))
    say("\n".join(text for _, text in told))
    counts = {word: [each for each, _ in told].count(word) for word in (DONE, FAILED, OPEN)}
    say("\n" + ", ".join(f"{count} {word}" for word, count in counts.items()))
    if not options.listing:
        archive = pack(folder, options)
        say(f"folder   {folder}\narchive  {archive}, {archive.stat().st_size / 1e6:.2f} MB")
    return int(counts[FAILED] > 0 and not options.listing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
