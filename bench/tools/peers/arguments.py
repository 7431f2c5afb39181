"""The command line of `python -m bench.peers`, checked before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import program
from modescope.bench.tools import cli
from modescope.bench.tools.peers.harness import Harness
from modescope.bench.tools.peers.harnesses import HARNESSES
from modescope.bench.tools.testbed.workloads import WORKLOADS

PROGRAM = program("bench.peers")


@dataclass(frozen=True)
class Chosen:
    """The options that every row of a run repeats."""

    workload: str
    budget_s: float  # per comparison, for both sides together
    seed: int

    def __str__(self) -> str:
        """The line with these options above the tables."""
        return f"workload {self.workload}, {self.budget_s:g} s per comparison, seed {self.seed}"


@dataclass(frozen=True)
class PeersOptions:
    """The command line: fields are named as its options."""

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
        """The harnesses whose names begin with one of `only`."""
        starts = ("",) if self.only is None else tuple(self.only.split(","))
        return [each for each in HARNESSES if each.name.startswith(starts)]

    @property
    def chosen(self) -> Chosen:
        """The options that every row repeats."""
        return Chosen(self.workload, self.budget_s, self.seed)

    @property
    def folder(self) -> Path:
        """Where the files go."""
        return self.results_dir / "peers"


def parse(words: Sequence[str], description: str | None) -> PeersOptions:
    """The options in `words`; raises UsageError, and SystemExit(0) after --help."""
    options = PeersOptions(**vars(_parser(description).parse_args(words)))
    cli.check_threads(options.threads)
    if options.only is not None:
        _check_names(options.only)
    cli.check_folder(options.folder)
    return options


def _parser(description: str | None) -> cli.ToolParser:
    parser = cli.ToolParser(PROGRAM, description)
    add = parser.add_argument
    add("--workload", choices=list(WORKLOADS), default="pointwise", help="step to measure")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:<index>")
    add("--threads", type=cli.positive, default=1, help="intra-op threads")
    add("--alternations", type=cli.count, default=5, help="readings per harness; 0: none")
    add("--reading-s", type=cli.seconds, help="seconds per reading; else each harness's default")
    add("--trials", type=cli.count, default=20, help="comparisons per change; 0: no decisions")
    add("--budget-s", type=cli.seconds, default=0.25, help="seconds per comparison, both sides")
    add("--busy", action="store_true", help="repeat decisions with a co-runner on each core")
    add("--only", help="use only harnesses whose names begin so, separated by commas")
    add("--seed", type=int, default=0, help="seed of all random orders")
    add("--results-dir", type=Path, default=Path("results"), help="files go to its peers/")
    return parser


def _check_names(only: str) -> None:
    names = [each.name for each in HARNESSES]
    starts = only.split(",")
    if any(not start or not any(name.startswith(start) for name in names) for start in starts):
        raise UsageError(f"--only {only}: must be beginnings of these names: {'; '.join(names)}")
