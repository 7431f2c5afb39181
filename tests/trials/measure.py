"""How often `modescope.measure` is right on this machine: `python -m tests.trials.measure`.

Each trial builds two functions of about 50 µs, equal ones or one 2 % longer, and compares them by
modescope and by torch.utils.benchmark, for the same 0.3 s and in random order. Prints how often
each calls equal ones different and sees the longer one; exits with 1 where modescope does either
worse than promised. Takes five minutes and needs a quiet machine; no test runs it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from torch.utils import benchmark
from tqdm import tqdm

import modescope
from modescope.bench.devices.devices import Cpu
from modescope.bench.text.tables import plain
from modescope.bench.tools.peers import rules
from modescope.bench.tools.peers.rules import FASTER, SAME, SLOWER
from modescope.bench.tools.testbed.corunners import CONDITIONS
from modescope.bench.tools.testbed.workloads import Workload, built, planted

STEP = "pointwise"  # about 50 µs
LONGER = 0.02
SECONDS = 0.3  # for a comparison, however it is made
OVERHEAD_S = 0.08  # of it in modescope: before the first call, and to collect garbage

MOST_WRONG, LEAST_SEEN = 12, 93
"""Of 100 trials. Rates of 5 % and 98 % pass in more than 99 % of such runs."""

Pair = tuple[Workload, Workload]
"""The baseline, and the candidate that may be longer."""

Answers = dict[str, str]
"""What each rule calls the candidate: slower, faster or same."""


@dataclass(frozen=True)
class Trial:
    """The answers of all rules about one pair."""

    answers: Answers
    seconds: dict[str, float]  # by harness
    flags: tuple[str, ...]


def by_modescope(pair: Pair, seed: int) -> tuple[Answers, tuple[str, ...]]:
    """The interval and the verdict of `measure`, and its flags."""
    baseline, candidate = pair
    tensors = [*baseline.tensors, *candidate.tensors]
    found = modescope.measure(
        baseline, candidate, seconds=SECONDS - OVERHEAD_S, tensors=tensors, seed=seed
    )
    low, high = found.speedup_ci_low, found.speedup_ci_high
    assert low is not None
    assert high is not None
    interval = FASTER if low > 1 else SLOWER if high < 1 else SAME
    verdict = found.verdict if found.verdict in (FASTER, SLOWER) else SAME
    return {"measure, interval": interval, "measure, verdict": verdict}, found.flags


def by_torch(pair: Pair, seed: int) -> tuple[Answers, tuple[str, ...]]:
    """What users of Timer read from two measurements, which torch's docs leave to them."""
    taken = {}
    for name, step in random.Random(seed).sample(
        [("baseline", pair[0]), ("candidate", pair[1])], 2
    ):
        timer = benchmark.Timer(
            "step()",
            globals={"step": step},
            label="trial",
            sub_label=name,
            description="time",
        )
        taken[name] = timer.blocked_autorange(min_run_time=SECONDS / 2)
    both = [taken["baseline"], taken["candidate"]]
    baseline_s, candidate_s = (tuple(each.times) for each in both)
    answers = {
        "Timer, quartiles apart": rules.quartiles_apart(candidate_s, baseline_s),
        "Timer, medians by 1 % (the colours of Compare)": rules.more_than_a_percent(median)(
            candidate_s, baseline_s
        ),
        "Compare, trimmed figures": _answer(*compared_figures(both)),
    }
    return answers, ()


def compared_figures(both: Sequence[benchmark.Measurement]) -> tuple[float, float]:
    """The figures that Compare prints of baseline and candidate."""
    table = benchmark.Compare(list(both))
    table.trim_significant_figures()
    cells = [line.rpartition("  |  ")[2] for line in str(table).splitlines() if "  |  " in line]
    baseline, candidate = map(float, cells[1:])
    return baseline, candidate


def _answer(baseline: float, candidate: float) -> str:
    return SAME if baseline == candidate else SLOWER if candidate > baseline else FASTER


HARNESSES: dict[str, Callable[[Pair, int], tuple[Answers, tuple[str, ...]]]] = {
    "measure": by_modescope,
    "torch": by_torch,
}


def pair_of(longer: float) -> Pair:
    """Two functions of one kind, with the same wrapper; the second takes `longer` more."""
    device = Cpu()
    baseline, candidate = (planted(built(STEP, device), share, device) for share in (0.0, longer))
    return baseline, candidate


def trial(longer: float, seed: int) -> Trial:
    """One pair, and all harnesses in random order."""
    answers: Answers = {}
    seconds: dict[str, float] = {}
    flags: tuple[str, ...] = ()
    pair = pair_of(longer)
    for name in random.Random(seed).sample(list(HARNESSES), len(HARNESSES)):
        begin = time.perf_counter()
        said, up = HARNESSES[name](pair, seed)
        seconds[name] = time.perf_counter() - begin
        answers |= said
        flags = up or flags
    return Trial(answers, seconds, flags)


def lines(condition: str, equal: Sequence[Trial], longer: Sequence[Trial]) -> Iterator[list[str]]:
    """A row for each rule."""
    for rule in sorted(equal[0].answers, key=lambda rule: not rule.startswith("measure")):
        wrong = sum(each.answers[rule] != SAME for each in equal)
        seen = sum(each.answers[rule] == SLOWER for each in longer)
        reverse = sum(each.answers[rule] == FASTER for each in longer)
        harness = "measure" if rule.startswith("measure") else "torch"
        taken_s = median(each.seconds[harness] for each in (*equal, *longer))
        yield [
            condition, rule, f"{wrong} of {len(equal)}", f"{seen} of {len(longer)}",
            f"{reverse}", f"{taken_s:.2f} s",
        ]  # fmt: skip


HEADERS = (
    "condition",
    "rule",
    "equal: different",
    f"+{100 * LONGER:g} %: seen",
    "reversed",
    "each",
)


def promised(condition: str, equal: Sequence[Trial], longer: Sequence[Trial]) -> Iterator[str]:
    """Sentences on what modescope does worse than promised."""
    rule, n = "measure, interval", len(equal)
    wrong = sum(each.answers[rule] != SAME for each in equal)
    seen = sum(each.answers[rule] == SLOWER for each in longer)
    if wrong > MOST_WRONG * n / 100:
        yield f"{condition}: {wrong} of {n} intervals of equal functions exclude 1"
    if seen < LEAST_SEEN * n / 100:
        yield f"{condition}: +2 % was seen in {seen} of {n}"


def main() -> int:
    """Prints the table; the exit status is 1 where a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.trials.measure", description=__doc__)
    parser.add_argument("--trials", type=int, default=100, help="of each kind and condition")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    table, broken = [], []
    for condition in ("quiet", "one co-runner"):
        found: dict[float, list[Trial]] = {0.0: [], LONGER: []}
        with CONDITIONS[condition]():
            for number in tqdm(range(options.trials), desc=condition, disable=None):
                for longer, trials in found.items():  # in turns: both see the same machine
                    trials.append(trial(longer, options.seed * 10_000 + number))
        equal, longer_ones = found[0.0], found[LONGER]
        flagged = sum(bool(each.flags) for each in (*equal, *longer_ones))
        print(f"{condition}: {flagged} of {2 * options.trials} trials of measure had flags")
        table += list(lines(condition, equal, longer_ones))
        broken += list(promised(condition, equal, longer_ones))
    print(f"\n{plain(HEADERS, table)}\n")
    print("\n".join(broken) or "as promised: at most 12 of 100, and at least 93 of 100")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
