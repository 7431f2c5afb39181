"""Runs the code beside answers as a user would: `python -m tests.gpu.pasted FOLDER`.

Each program runs in a process of its own, in a file with a model in front of it, and is timed call
by call. It has to take as long as its row says, within 5 %.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import indent

from modescope.analysis.recommend.code import EACH_CALL, code
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, required
from modescope.bench.modes import backends
from modescope.bench.records.cases import BUILT_IN, Mode
from tests.gpu.invariants import spoken, studies_in
from tests.gpu.pretending import pretends
from tests.gpu.running import EXIT_SKIPPED
from tests.helpers.derivations import table_of
from tests.helpers.paths import ROOT

WITHIN = 0.05
MOST = 6  # programs
PROGRAM_LIMIT_S = 30.0
TIMED_S, SMOKE_TIMED_S = 1.5, 0.05

MODEL = """\
import json
import statistics
import time

import torch

from {module} import {function}
from modescope.bench.devices.cuda import find

gpu = find("cuda")
torch.manual_seed(0)
model, inputs = {function}(**{sizes})
model, inputs = model.to(gpu.torch_device), tuple(x.to(gpu.torch_device) for x in inputs)
with torch.no_grad():
    target = torch.randn_like(model(*inputs))


def loss_of(output):
    return torch.nn.functional.mse_loss(output, target)


# what was printed
"""
TIMING = """


# its call, again and again
def call():
    global output, loss
{call}


def timed(seconds):
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        gpu.synchronize()
        begin = time.perf_counter()
        call()
        gpu.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


timed({seconds} / 3)
print(json.dumps({{"latency_s": timed({seconds})}}))
"""


@dataclass(frozen=True)
class Pasted:
    """A program, the row that it belongs to, and what both take."""

    run_id: str
    case: str
    is_answer: bool
    row_s: float
    pasted_s: float | None  # None: it failed
    problem: str | None = None

    @property
    def agrees(self) -> bool:
        """Whether it takes as long as its row."""
        return self.pasted_s is not None and abs(self.pasted_s / self.row_s - 1) <= WITHIN


def split(program: str) -> tuple[str, str]:
    """Divides a printed program into what is done once, and the call or step at its end.

    To the call of a captured graph belong the copies of its inputs, which its row has timed, too.
    """
    once, is_captured, each_call = program.rpartition(f"{EACH_CALL}\n")
    if is_captured:
        return once, each_call
    statements = ast.parse(program).body
    begins = [
        each.lineno for each in statements
        if ast.unparse(each).startswith("optimizer.zero_grad")
    ]  # fmt: skip
    first = begins[-1] if begins else statements[-1].lineno
    lines = program.splitlines()
    return "\n".join(lines[: first - 1]), "\n".join(lines[first - 1 :])


def script(row: Row, seconds: float) -> str:
    """The file that a user would have: a model, the printed program, and a loop around its call."""
    target = {"decode": "decoder:decode", "prefill": "decoder:prefill"}.get(
        row["model"], f"{row['model']}:build"
    )
    module, function = f"{BUILT_IN}{target}".split(":")
    sizes = json.loads(row["shape"])
    before, call = split(code(row))
    return "".join(
        (
            MODEL.format(module=module, function=function, sizes=sizes),
            before,
            TIMING.format(call=indent(call, "    "), seconds=seconds),
        )
    )


def candidates(folder: Path) -> Iterator[tuple[Row, bool]]:
    """Yields rows and whether each is an answer: answers, then captured and compiled modes."""
    rest: list[Row] = []
    for study in studies_in(folder):
        table = table_of(study)
        answers = {one.choice.run_id for one in recommend(table) if one.choice}
        for row in as_rows(table):
            if row["status"] != "ok" or row["calls"] or not predicates.on_cuda(row):
                continue
            if row["run_id"] in answers:
                yield row, True
            else:
                rest.append(row)
    yield from ((row, False) for row in sorted(rest, key=_captures, reverse=True))


def _captures(row: Row) -> tuple[bool, bool]:
    mode = Mode(row["mode"], row["grad"], row["autocast"], row["compile_mode"], row["graph"])
    return backends.replays_graphs(mode), mode.compiles


def distinct(rows: Iterable[tuple[Row, bool]]) -> list[tuple[Row, bool]]:
    """The first row of each program."""
    found: dict[str, tuple[Row, bool]] = {}
    for row, is_answer in rows:
        found.setdefault(code(row), (row, is_answer))
    return list(found.values())


def run(row: Row, is_answer: bool, file: Path) -> Pasted:
    """Runs the program of a row in a process of its own."""
    file.write_text(script(row, SMOKE_TIMED_S if pretends() else TIMED_S), encoding="utf-8")
    named = row["run_id"], spoken(row), is_answer, required(row["latency_s"]).value
    command = [sys.executable, str(file)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=PROGRAM_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return Pasted(*named, None, f"still running after {PROGRAM_LIMIT_S:g} s")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return Pasted(*named, None, lines[-1][:200])
    return Pasted(*named, json.loads(done.stdout.splitlines()[-1])["latency_s"])


def line(each: Pasted) -> str:
    """What came of a program."""
    kind = "answer" if each.is_answer else "no answer"
    if each.pasted_s is None:
        return f"{each.case} ({kind}): {each.problem}"
    ratio = each.pasted_s / each.row_s
    return (
        f"{each.case} ({kind}): {each.pasted_s * 1e6:.1f} µs pasted, {each.row_s * 1e6:.1f} µs in "
        f"its row ({ratio:.3f}×)"
    )


def main(folder: Path) -> int:
    """Returns 0 if every program ran and took as long as its row, else 1; 77 without rows."""
    chosen = distinct(candidates(folder))
    place = folder / "pasted"
    place.mkdir(exist_ok=True)
    found: list[Pasted] = []
    with (folder / "pasted.jsonl").open("w", encoding="utf-8") as file:
        for number, (row, is_answer) in enumerate(chosen[:MOST], 1):
            found.append(run(row, is_answer, place / f"{number}.py"))
            file.write(f"{json.dumps(asdict(found[-1]))}\n")
            file.flush()
            print(line(found[-1]), flush=True)
    if not found:
        print("no row has a program")
        return EXIT_SKIPPED
    ran = [each for each in found if each.pasted_s is not None]
    far = [each for each in ran if not each.agrees]
    said = f"{len(ran)} of {len(found)} programs ran, of {len(chosen)} different ones"
    if pretends():
        print(f"{said}; times of a pretended GPU are not compared")
        return 0 if len(ran) == len(found) else 1
    worst = max(ran, key=lambda each: abs(each.pasted_s / each.row_s - 1), default=None)
    print(f"{said}; {len(far)} beyond {WITHIN:.0%}{f'; worst {line(worst)}' if worst else ''}")
    return 1 if far or len(ran) < len(found) else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
