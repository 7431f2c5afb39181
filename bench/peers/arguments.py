"""The command line of `python -m bench.peers`, checked before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.arguments import Parser, check_folder, check_threads, count, positive, seconds
from bench.peers.harness import Harness
from bench.peers.harnesses import HARNESSES
from bench.records import UsageError
from bench.testbed.workloads import WORKLOADS

PROGRAM = "python -m bench.peers"


@dataclass(frozen=True)
class Chosen:
    """What every row of a run repeats of what was asked for."""

    workload: str
    budget_s: float  # of a comparison, both sides together
    seed: int

    def __str__(self) -> str:
        """Its line above the tables."""
        return f"workload {self.workload}, {self.budget_s:g} s a comparison, seed {self.seed}"


@dataclass(frozen=True)
class Asked:
    """What is to be measured; names of fields are those of options."""

    workload: str
    device: str
    threads: int
    alternations: int
    reading_s: float | None
    trials: int
    budget_s: float
    busy: bool
    only: str | None
    seed: int
    results_dir: Path

    @property
    def harnesses(self) -> Sequence[Harness]:
        """Those whose names begin with one of `only`."""
        starts = ("",) if self.only is None else tuple(self.only.split(","))
        return [each for each in HARNESSES if each.name.startswith(starts)]

    @property
    def chosen(self) -> Chosen:
        """What every row repeats."""
        return Chosen(self.workload, self.budget_s, self.seed)

    @property
    def folder(self) -> Path:
        """Where the files go."""
        return self.results_dir / "peers"


def parse(words: Sequence[str], description: str | None) -> Asked:
    """What `words` ask for; raises UsageError, and SystemExit(0) after --help."""
    asked = Asked(**vars(_parser(description).parse_args(words)))
    check_threads(asked.threads)
    if asked.only is not None:
        _check_names(asked.only)
    check_folder(asked.folder)
    return asked


def _parser(description: str | None) -> Parser:
    parser = Parser(PROGRAM, description)
    add = parser.add_argument
    add("--workload", choices=list(WORKLOADS), default="pointwise", help="step that is measured")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:<index>")
    add("--threads", type=positive, default=1, help="intra-op threads")
    add("--alternations", type=count, default=5, help="readings per harness; 0: no figures")
    add("--reading-s", type=seconds, help="seconds a reading; else each harness's default")
    add("--trials", type=count, default=20, help="comparisons per change; 0: no decisions")
    add("--budget-s", type=seconds, default=0.25, help="seconds a comparison, both sides")
    add("--busy", action="store_true", help="decide once more beside a co-runner on each core")
    add("--only", help="beginnings of the names of the harnesses to use, with commas")
    add("--seed", type=int, default=0, help="decides every order")
    add("--results-dir", type=Path, default=Path("results"), help="files go to peers/ in it")
    return parser


def _check_names(only: str) -> None:
    names = [each.name for each in HARNESSES]
    starts = only.split(",")
    if any(not start or not any(name.startswith(start) for name in names) for start in starts):
        raise UsageError(f"--only {only}: allowed are beginnings of {'; '.join(names)}")
