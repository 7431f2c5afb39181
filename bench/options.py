"""Tries options of torch.compile one at a time on a model, against the same mode without them.

Each option is timed in paired rounds with `mode=compile` in one process. Freezing is set for a
whole process, so it and `mode=compile` are each paired with eager, and their speedups divided. The
fastest option is measured in further processes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from modescope.analysis import load
from modescope.analysis.derive import against
from modescope.analysis.format import numbers
from modescope.analysis.recommend.code import code
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, required
from modescope.analysis.snapshot import Snapshot
from modescope.bench.command_line import collect
from modescope.bench.modes import freezing
from modescope.bench.records.errors import UsageError
from modescope.bench.records.outcomes import Status
from modescope.bench.records.paths import program
from modescope.bench.resolve import Request
from modescope.bench.stats.estimates import Estimate, Verdict, verdict
from modescope.bench.sweep import isolation, prepare, sweep
from modescope.bench.text import plain
from modescope.bench.tools.cli import ToolParser, command

PROGRAM = program("bench.options")

OPTIONS = {
    "cpu": (
        "cpp.simdlen=1", "epilogue_fusion=false", "combo_kernels=true", "max_autotune_gemm=true",
        "layout_optimization=false", "conv_1x1_as_mm=true", "max_fusion_size=8",
    ),
    "cuda": (
        "triton.cudagraphs=true", "coordinate_descent_tuning=true", "max_autotune_gemm=true",
        "max_autotune_pointwise=true", "epilogue_fusion=false", "combo_kernels=true",
        "shape_padding=false", "layout_optimization=false", "conv_1x1_as_mm=true",
    ),
}  # fmt: skip
"""What is tried by default beside freezing, by type of the device."""

FREEZE = f"{freezing.NAME}=true"

PROCESSES = 3
"""How many processes measure the fastest option."""

EQUAL_CODE = "changes nothing here (equal code)"

FAILED = 1


@dataclass(frozen=True)
class Trial:
    """An option, and the modes that are measured to judge it."""

    option: str  # name=value
    mode: str  # the value of mode=
    words: tuple[str, ...]  # further settings

    @property
    def baseline(self) -> str:
        """The mode that it is timed in turns with."""
        return "eager" if self.option == FREEZE else "compile"


def trial(option: str) -> Trial:
    """Returns the trial of an option written `name=value`; raises UsageError for another text."""
    name, equals, value = option.partition("=")
    if not (name and equals and value):
        raise UsageError(f"--option {option}: write name=value, such as cpp.simdlen=1")
    if option == FREEZE:
        return Trial(option, "freezing", ())
    return Trial(option, "compile", (f"mode.options={{{name}: {value}}}",))


@command
def main(words: Sequence[str]) -> int:
    """Runs the command. Returns 0, or 1 if a case failed, 2 for a mistake, 130 for Ctrl-C."""
    parser = ToolParser(PROGRAM, __doc__)
    add = parser.add_argument
    add("model", help="as in model=MODEL of modescope run")
    add("settings", nargs="*", help="further settings of modescope run, such as shape.batch=1")
    add("--option", action="append", metavar="NAME=VALUE", help="try this instead of the usual")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:<index>")
    options = parser.parse_intermixed_args(words)
    asked = [trial(each) for each in options.option or ()]
    common = [
        f"model={options.model}", f"device={options.device}", f"study=options-{options.model}",
        "budget=standard", "profile=false", "memory=false",
    ]  # fmt: skip
    given = {word.partition("=")[0] for word in options.settings}
    common = [word for word in common if word.partition("=")[0] not in given]
    common += options.settings
    _request(common, "compile", "eager")  # whose mistakes are told before anything is started
    isolation.start(True)
    kind = prepare.host(options.device).device.type
    return _run(asked or [trial(each) for each in (FREEZE, *OPTIONS[kind])], common)


def _run(trials: Sequence[Trial], common: Sequence[str]) -> int:
    plain_of = dict.fromkeys(each.baseline for each in trials)
    requests = [_request(common, "compile", baseline) for baseline in plain_of]
    asked = {each: _request(common, each.mode, each.baseline, *each.words) for each in trials}
    rows = _measure([*requests, *asked.values()])
    judged = {each: _judge(_find(rows, request), rows) for each, request in asked.items()}
    faster = {each: ratio for each, (text, ratio) in judged.items() if ratio and text == "faster"}
    best = max(faster, key=lambda each: required(faster[each].low), default=None)
    if best is not None:
        once = (word for word in common if not word.startswith("replicates="))
        more = [*once, f"replicates={PROCESSES}"]
        again = [_request(more, best.mode, best.baseline, *best.words)]
        if best.option == FREEZE:
            again.append(_request(more, "compile", "eager"))
        rows = [*_measure(again), *rows]
        judged[best] = _judge(_find(rows, asked[best]), rows)
    print()
    table = [
        (each.option, numbers.ratio(ratio) if ratio else numbers.UNKNOWN, said)
        for each, (said, ratio) in judged.items()
    ]
    print(plain(("option", "over compile [95 %]", "verdict"), table))
    if any(each.option == FREEZE for each in trials):
        print(f"{FREEZE}: the quotient of two speedups over eager, in processes of their own")
    if best is None or judged[best][0] != "faster":
        print("\nno option is faster than mode=compile without it")
    else:
        print(f"\n{best.option} was fastest, in {PROCESSES} processes:\n")
        print(code(_find(rows, asked[best])))
    return FAILED if any(row["status"] not in (Status.OK, Status.SKIPPED) for row in rows) else 0


def _request(common: Sequence[str], mode: str, baseline: str, *words: str) -> Request:
    made = collect(["-m", *common, f"mode={mode}", f"baseline.mode={baseline}", *words])
    if len(made) > 1:
        raise UsageError(f"{' '.join(common)}: {len(made)} cases; options are tried on one case")
    return made[0]


def _measure(requests: Sequence[Request]) -> list[Row]:
    """Measures `requests` as a sweep; returns their derived rows."""
    submission = sweep.submit(requests)
    if submission is None:
        raise UsageError("dry_run: this command has nothing to print without rows")
    run_ids = list(submission.finished)
    return as_rows(Snapshot(load.read(submission.study_folder)).of(run_ids).rows)


def _find(rows: Sequence[Row], request: Request) -> Row:
    name, against_mode = request.settings.mode.name, required(request.baseline).name
    return next(row for row in rows if (row["mode"], row["baseline_mode"]) == (name, against_mode))


def _judge(row: Row, rows: Sequence[Row]) -> tuple[str, Estimate | None]:
    """Returns the verdict on an option in words, and its speedup over the mode without it."""
    if row["status"] != Status.OK:
        return f"{row['status']}: {row['reason']}", None
    if not row["in_effect"]:
        return f"not in effect: {row['in_effect_note']}", None
    if row["options_changed_code"] is False:
        return EQUAL_CODE, None
    ratio = row["speedup"]
    if row["baseline_mode"] == "eager":
        without = (each for each in rows if each["mode"] == "compile")
        plain_row = next(each for each in without if each["baseline_mode"] == "eager")
        ratio = against.ratio(row, plain_row)
    said = verdict(ratio)
    return "undecided" if said in (None, Verdict.INCONCLUSIVE) else str(said), ratio


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
