"""The page that says what came of each step: proof.md. Imports the standard library alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.gpu.log import STOPPED, Log, Machine
from tests.gpu.pretending import NOTE
from tests.gpu.running import CRASHED, FAILED, PASSED, SKIPPED, TIMEOUT
from tests.gpu.steps import STEPS, Step

PAGE = "proof.md"
NOT_RUN = "not run"
ORDER = (PASSED, FAILED, CRASHED, TIMEOUT, SKIPPED, STOPPED, NOT_RUN)

TITLES = {
    1: "the tests marked cuda",
    2: "the self-check",
    3: "duty cycle and power",
    4: "replays: input, caches, workspaces",
    5: "studies",
    6: "claims about GPUs",
    7: "the printed code, pasted",
    8: "invariants of all rows",
    9: "further, for a larger budget",
}
"""What each number of a step shows."""


def verdicts(steps: Sequence[Step], log: Log) -> dict[str, str]:
    """The verdict of each step, by name; NOT_RUN for one without a line."""
    last = log.last()
    return {step.name: last[step.name].verdict if step.name in last else NOT_RUN for step in steps}


def summary(steps: Sequence[Step], log: Log) -> str:
    """How many steps have which verdict."""
    counts = Counter(verdicts(steps, log).values())
    return ", ".join(f"{counts[each]} {each}" for each in ORDER if counts[each])


def shown(steps: Sequence[Step], log: Log) -> list[Step]:
    """`steps`, which a call has chosen, and those that earlier calls have run, in order."""
    chosen, known = {step.name for step in steps}, log.last()
    earlier = [step for step in STEPS if step.name in known and step.name not in chosen]
    return sorted([*steps, *earlier], key=lambda step: (step.last, step.number))


def page(steps: Sequence[Step], log: Log, reasons: dict[str, str]) -> str:
    """The page. `reasons` says of a step that was not run why."""
    assert log.machine
    return "\n".join(_lines(steps, log, log.machine, reasons)) + "\n"


def _lines(
    steps: Sequence[Step], log: Log, machine: Machine, reasons: dict[str, str]
) -> Iterator[str]:
    yield f"# What {machine.gpu} has shown"
    yield ""
    if machine.pretended:
        yield f"**{NOTE}.**"
        yield ""
    cuda = f", CUDA {machine.cuda}" if machine.cuda else ""
    driver = f", driver {machine.driver}" if machine.driver else ""
    yield f"- torch {machine.torch}{cuda}{driver}, Python {machine.python}"
    commits = dict.fromkeys(line.commit for line in log.lines if line.commit)
    yield f"- code: {', '.join(commits) or 'no git here'}"
    yield f"- {summary(steps, log)}; {log.spent_s():.0f} s in all"
    yield ""
    yield "| | step | verdict | seconds | what it said |"
    yield "|---|---|---|---|---|"
    last = log.last()
    for step in steps:
        line = last.get(step.name)
        verdict, seconds, said = NOT_RUN, "", reasons.get(step.name, "")
        if line:
            verdict, seconds, said = line.verdict, f"{line.seconds:.1f}", line.said
        yield f"| {step.number} | {step.name} | {verdict} | {seconds} | {_cell(said)} |"
    yield ""
    yield from (f"{number}. {title}" for number, title in TITLES.items())
    yield ""
    yield "What each step printed is in output/, a file per step."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def write(folder: Path, steps: Sequence[Step], log: Log, reasons: dict[str, str]) -> Path:
    """Writes the page as a whole, and returns its path."""
    path = folder / PAGE
    partial = path.with_suffix(".partial")
    partial.write_text(page(shown(steps, log), log, reasons), encoding="utf-8")
    partial.replace(path)
    return path
