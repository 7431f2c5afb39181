"""Whether many results are read within their limits: `python -m tests.trials.many_results`.

Writes studies of 100,000 and 1,000,000 runs as parts (copies of the reference runs as other works),
and 5,000 files that are compacted and killed. Prints CPU seconds and memory of each command
beside its limit; exits with 1 beyond one. Takes ten minutes and 1 GB of disk; `--fast` leaves out
the million.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from modescope.analysis.format import numbers
from modescope.bench.text.tables import plain
from tests.helpers import large_studies, many_runs
from tests.helpers.paths import ROOT

MANY, MOST, LOOSE = 100_000, 1_000_000, 5_000
MODELS = 200
"""Of each half of the copies: a model of the largest study has 2,500 rows."""

MEMORY = 2 * 2**30
RESUME = (
    "import sys; from pathlib import Path; from modescope.bench.sweep.resume import Earlier; "
    "assert Earlier(Path(sys.argv[1])).last_block is None"
)


@dataclass(frozen=True)
class Use:
    """What a command used."""

    cpu_s: float
    memory_bytes: int
    out: str


@dataclass(frozen=True)
class Line:
    """A figure and its limit."""

    what: str
    figure: str
    limit: str
    is_within: bool


def used(words: Sequence[str], caches: Path) -> Use:
    """Runs Python with these arguments in the checkout."""
    process = subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(caches)},
    )  # fmt: skip
    assert process.stdout is not None
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    return Use(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _RSS_UNIT, out)


_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


def timed(what: str, words: Sequence[str], caches: Path, limit_s: float) -> list[Line]:
    """The CPU time and the memory of a command."""
    use = used(words, caches)
    return [
        Line(what, f"{use.cpu_s:.1f} s", f"{limit_s:g} s", use.cpu_s <= limit_s),
        Line(f"{what}, memory", numbers.size(use.memory_bytes), numbers.size(MEMORY),
             use.memory_bytes <= MEMORY),
    ]  # fmt: skip


def many(folder: Path, runs: int = MANY) -> list[Line]:
    """The commands on `runs` runs: cases of one run, cases of 25, and one work."""
    caches = folder / "caches"
    distinct = many_runs.study(folder / "distinct", runs, MODELS)
    repeated = many_runs.study(folder / "repeated", runs, MODELS, replicates=25)
    one = many_runs.study(folder / "one", runs, 1, replicates=-(-runs // many_runs.RUNS))
    where = ["--where", 'model == "mlp-3"']
    resume = ["-c", RESUME, str(distinct / "runs")]
    count = f"{runs:,} runs"
    return [
        *timed(f"{count}, table", ["-m", "analysis.table", str(distinct)], caches, 5),
        *timed(f"{count}, table of 25 processes a case",
               ["-m", "analysis.table", str(repeated)], caches, 5),
        *timed(f"{count}, table of one work", ["-m", "analysis.table", str(one)], caches, 10),
        *timed(f"{count}, table --where", ["-m", "analysis.table", str(distinct), *where], caches,
               5),
        *timed(f"{count}, report of one work", ["-m", "analysis.report", str(one)], caches, 60),
        *timed(f"{count}, what resume reads", resume, caches, 2),
    ]  # fmt: skip


def most(folder: Path) -> list[Line]:
    """A table of one model of the largest study."""
    study = many_runs.study(folder / "most", MOST, MODELS)
    words = ["-m", "analysis.table", str(study), "--where", 'model == "mlp-3"']
    return timed(f"{MOST:,} runs, table --where", words, folder / "caches", 10)


def killed(folder: Path, runs: int = LOOSE, seeds: Sequence[int] = range(5)) -> list[Line]:
    """Compactions of one study that are killed at random moments; the last one ends."""
    study = large_studies.study(folder / "loose", runs, max(runs // 10, 1), rounds=24)
    words = ["-m", "analysis.table", str(study), "--csv"]
    expected = used(words, folder / "caches").out
    lines, kills = [], 0
    for seed in seeds:
        process = subprocess.Popen(
            [sys.executable, "-m", "analysis.compact", str(study)],
            cwd=ROOT, stdout=subprocess.DEVNULL,
            env={**os.environ, "XDG_CACHE_HOME": str(folder / "caches")},
        )  # fmt: skip
        moment = _moment(study, runs, random.Random(seed))
        while process.poll() is None and not moment():
            time.sleep(0.001)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
        same = used(words, folder / "caches").out == expected
        lines.append(Line(f"killed, seed {seed}, {_left(study):,} files left",
                          "the same" if same else "differs", "the same", same))  # fmt: skip
    used(["-m", "analysis.compact", str(study)], folder / "caches")
    same = used(words, folder / "caches").out == expected and not _left(study)
    lines.append(Line(f"compacted after {kills} kills", "the same" if same else "differs",
                      "the same", same and kills > 0))  # fmt: skip
    return lines


def _left(study: Path) -> int:
    return sum(1 for _ in many_runs.loose_files(study))


def _moment(study: Path, runs: int, draw: random.Random) -> Callable[[], bool]:
    """When to kill: before a part is there, or once a share of the files is removed."""
    share = draw.choice((None, draw.random()))
    end = time.monotonic() + draw.uniform(0.5, 5)
    if share is None:
        return lambda: time.monotonic() > end
    limit = min(_left(study), runs) * share
    return lambda: _left(study) < limit


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; returns 1 beyond a limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="without the study of a million runs")
    options = parser.parse_args(arguments)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(prefix="many-results-") as name:
        folder = Path(name)
        lines = [*many(folder), *killed(folder), *([] if options.fast else most(folder))]
    rows = [(one.what, one.figure, one.limit, "" if one.is_within else "BEYOND") for one in lines]
    print(plain(("what", "figure", "limit", ""), rows))
    return int(not all(one.is_within for one in lines))


if __name__ == "__main__":
    sys.exit(main())
