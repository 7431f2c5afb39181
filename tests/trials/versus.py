"""How often `bench.versus` is right on this machine: `python -m tests.trials.versus`.

Each round measures two folders with a small model of forty equal operators, of which one side runs
two more (5 %) in some modes. Prints, for each experiment, in how many rounds the exit status and
the rows that failed were the expected ones. Takes an hour and a quiet machine; no test runs it.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.paths import ROOT

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        for _ in range(40):
            y = torch.sin(x)
        if {slowed}:
            for _ in range(2):  # whose results nothing uses
                torch.sin(x)
        return y


def build(width=64):
    return Net(), (torch.randn(8, width),)
"""

NEVER, IN_EAGER, IN_MODE, ALWAYS = (
    "False", "torch.is_grad_enabled()", "torch.is_inference_mode_enabled()", "True",
)  # fmt: skip
MODES = ("eager", "no_grad", "inference_mode")

CHANGES = ("against_eager_change", "latency_change")


@dataclass(frozen=True)
class Experiment:
    """Two sides, and what a round has to find: the verdicts of the modes that fail."""

    old: str
    new: str
    replicates: int
    rounds: int
    fails: dict[str, str]
    settings: tuple[str, ...] = (f"mode={','.join(MODES)}",)


FOUR_ROWS = ("mode=eager,no_grad", "+shape.width=64,96")

EXPERIMENTS = {
    "same code": Experiment(NEVER, NEVER, 3, 20, {}, FOUR_ROWS),
    "one mode +5 %": Experiment(NEVER, IN_MODE, 5, 10, {"inference_mode": "slower"}),
    "eager alone +5 %": Experiment(NEVER, IN_EAGER, 5, 3, {"eager": "slower"}),
    "both +5 %": Experiment(NEVER, ALWAYS, 5, 3, dict.fromkeys(MODES, "slower")),
    "one mode -5 %": Experiment(IN_MODE, NEVER, 5, 3, {}),
}


@dataclass(frozen=True)
class Round:
    """What one versus answered."""

    status: int
    sentence: str
    fails: dict[str, str]  # by mode
    mirrored: bool  # whether the exchanged comparison has the same figures in reverse
    seconds: float


def measured(experiment: Experiment, number: int, folder: Path) -> Round:
    """One versus with its own results, and the comparison of its sides in reverse."""
    for side, slowed in (("old", experiment.old), ("new", experiment.new)):
        (folder / side).mkdir(parents=True, exist_ok=True)
        (folder / side / "net.py").write_text(NET.format(slowed=slowed))
    begin = time.monotonic()
    words = [f"old=dir:{folder / 'old'}", f"new=dir:{folder / 'new'}"]
    settings = [
        *("-m", "model=custom", "model.target=net:build", "budget=quick"),
        *("profile=false", "memory=false", f"replicates={experiment.replicates}"),
        *(f"seed={number}", f"results_dir={folder / 'results'}", *experiment.settings),
    ]
    there = _run("bench.versus", folder / "there.json", *words, settings=settings)
    seconds = time.monotonic() - begin
    sides = [str(folder / "results" / f"main-{side}") for side in ("new", "old")]
    back = _run("analysis.compare", folder / "back.json", *sides, "--allow", "versus_side")
    fails = {row["mode"]: ", ".join(row["failures"]) for row in there["rows"] if row["failures"]}
    return Round(there["status"], there["sentence"], fails, are_mirrored(there, back), seconds)


def _run(module: str, answer: Path, *words: str, settings: Sequence[str] = ()) -> dict[str, Any]:
    rest = ["--", *settings] if settings else []
    command = [sys.executable, "-m", module, *words, "--json", str(answer), *rest]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    answered: dict[str, Any] = json.loads(answer.read_text())
    return answered


def are_mirrored(there: dict[str, Any], back: dict[str, Any]) -> bool:
    """Whether each change of one is that of the other in reverse, with its interval."""
    pairs = [
        (row[name], other[name])
        for row, other in zip(_by_name(there), _by_name(back), strict=True)
        for name in CHANGES
    ]
    return all(
        math.isclose((1 + one[near]) * (1 + other[far]), 1, rel_tol=1e-9)
        for one, other in pairs
        for near, far in (("value", "value"), ("low", "high"), ("high", "low"))
    )


def _by_name(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(answer["rows"], key=lambda row: str(row["case_id"]))


def lines(name: str, experiment: Experiment, rounds: Sequence[Round]) -> Iterator[str]:
    """The counts of an experiment, and the sentences of rounds that were not as expected."""
    right = [one for one in rounds if one.fails == experiment.fails]
    mirrored = sum(one.mirrored for one in rounds)
    mean_s = sum(one.seconds for one in rounds) / len(rounds)
    yield (
        f"{name}, R = {experiment.replicates}: {len(right)} of {len(rounds)} as expected, "
        f"{sum(one.status == 1 for one in rounds)} failed, {mirrored} mirrored, {mean_s:.0f} s each"
    )
    for one in rounds:
        if one not in right:
            yield f"    {one.sentence} {one.fails}"


def main() -> None:
    """Prints the counts of each experiment when it is done."""
    parser = argparse.ArgumentParser(prog="python -m tests.trials.versus", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder for the models and the results")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="experiments with it in the name"
    )
    parser.add_argument("--rounds", type=int, help="rounds of each; default: 20, 10 or 3")
    options = parser.parse_args()
    for name, experiment in EXPERIMENTS.items():
        if options.only not in name:
            continue
        folder = options.folder.resolve() / name.replace(" ", "-").replace("%", "percent")
        numbers = range(options.rounds or experiment.rounds)
        rounds = [measured(experiment, n, folder / f"round-{n}") for n in numbers]
        print("\n".join(lines(name, experiment, rounds)), flush=True)


if __name__ == "__main__":
    main()
