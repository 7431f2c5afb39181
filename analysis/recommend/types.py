"""Dataclasses of a recommendation: question, choice, ties, refusals and answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import cast

from modescope.analysis.estimates import high, low
from modescope.analysis.recommend.code import code
from modescope.analysis.recommend.constraints import Wishes
from modescope.analysis.rows import predicates
from modescope.analysis.rows.confirming import contradicted
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.records.caches import CACHES
from modescope.bench.stats.estimates import MARGIN, Estimate


class Outcome(StrEnum):
    """What a recommendation says to do."""

    MODE = "mode"  # a mode is better than the baseline by its interval
    BASELINE = "baseline"  # by their intervals all usable modes are slower than it, or equal
    UNDECIDED = "undecided"  # the intervals are too wide to show a difference
    BETWEEN = "undecided_between_processes"  # two of one mode contradict each other
    NOTHING = "nothing"  # there is no usable run to compare


class RefusalKind(StrEnum):
    """Why a mode is not chosen."""

    SKIPPED = "skipped"
    FAILED = "failed"
    WRONG = "wrong"  # its results are
    UNCHECKED = "unchecked"  # its error is unknown, and nothing says why
    NOT_IN_EFFECT = "not_in_effect"
    SMOKE = "smoke"  # timed with a smoke budget
    NO_BASELINE = "no_baseline"  # its baseline failed, was wrong or not in effect
    GROWS = "grows"  # its calls do more work the more were made before
    SLOW_HOST = "slow_host"
    NO_INTERVAL = "no_interval"
    MEMORY = "memory"  # it exceeds the memory limit
    MEMORY_UNKNOWN = "memory_unknown"
    FIRST_CALL_UNKNOWN = "first_call_unknown"
    START_UNKNOWN = "start_unknown"  # no processes were timed from their start, or fewer than three
    DISTURBED = "disturbed"  # it would win, and the study is too disturbed for a mode that compiles
    LESS = "less"  # it wins, and its gain is surely below that of the best
    OPEN = "open"  # it wins, and may be as good as the best, but is not near it
    SLOWER = "slower"  # surely slower than the baseline
    UNPAID = "unpaid"  # surely faster, but not with its first call over the requested calls
    NOISE = "noise"  # faster, but by no more than the baseline differs from itself
    NO_DIFFERENCE = "no_difference"


@dataclass(frozen=True)
class Question:
    """What a recommendation is for: model, size, precision, machine and baseline.

    Modes are ranked within one question only. The precision, to which fewer bits of weights belong,
    is part of it because the data does not say which error is acceptable, the baseline because
    speedups over different baselines cannot be ranked, and the compiler cache because emptying it
    is no property of a mode. Packages, which are built ahead of time, are ranked apart from modes
    that compile in the process or not at all, because not every program can be shipped with one.
    With `Wishes.starts` caches and packages are one question, as the total time of processes has
    what each of them costs.
    """

    environment: str
    device: str
    device_name: str | None
    cpu_model: str | None
    cpu_capability: str | None
    cpu_instructions: str | None
    threads: int
    model: str
    model_args: str | None
    model_inputs: str | None  # described inputs, canonical JSON
    phase: str
    optimizer: str | None  # None for inference
    training: str | None  # training options, canonical JSON
    shape: str  # canonical JSON
    calls: str | None  # sizes of calls that vary, canonical JSON
    data: str | None  # what is evicted before each call; None: nothing
    dtype: str
    quantize: str | None  # how weights have fewer bits; None: they have all
    baseline_mode: str | None
    baseline_dtype: str | None
    compile_cache: str | None  # None: all, for a number of starts
    of_packages: bool = False  # ranks packages, which are built ahead of time

    @property
    def cache_label(self) -> str:
        """What follows an answer with this compiler cache: `warm cache`; empty for an empty one."""
        return CACHES[self.compile_cache].label if self.compile_cache else ""

    def as_row(self) -> Row:
        """Returns these columns of a row, which name its work and its machine."""
        return cast(Row, asdict(self))


@dataclass(frozen=True)
class Choice:
    """A mode that may be recommended, and the figures to report on it (None: unknown)."""

    run_id: str
    mode: str
    dtype: str
    speedup: Estimate  # paired, without first calls
    gain: Estimate  # the same with first calls, or starts, spread over the calls asked for, if any
    again: Estimate | None  # the speedup in a confirming process
    extra_bytes: float | None  # its peak memory beyond that of the baseline
    row: Row = field(compare=False)  # all of its derived columns

    def __repr__(self) -> str:
        shown = ("mode", "dtype", "speedup", "latency", "first_call_s", "peak_bytes", "run_id")
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__name__}({values})"

    @property
    def speedups(self) -> list[Estimate]:
        """The speedup, and that of the confirming process if the two contradict each other."""
        again = [self.again] if self.again and contradicted(self.row) else []
        return [self.speedup, *again]

    @property
    def chained(self) -> Estimate | None:
        """The speedup of a mode in tf32 over the baseline's mode in fp32; None if not linked."""
        found = self.row["chained_speedup"]
        return None if found is None or found.low is None else found

    @property
    def latency(self) -> Estimate:
        """The time of a call in seconds: the baseline's latency ÷ the paired speedup."""
        return required(self.row["latency_paired_s"])

    @property
    def first_call_s(self) -> float | None:
        """The time of the first call, with compiling, but without what was built ahead of it."""
        return self.row["first_call_s"]

    @property
    def peak_bytes(self) -> float | None:
        """The peak memory of a steady call, above an empty process."""
        return self.row["peak_bytes"]

    @property
    def code(self) -> str:
        """Lines of Python that make a user's program run in this mode."""
        return code(self.row)

    @property
    def name(self) -> str:
        """The mode's name, with a remark if its results could not be checked."""
        return name_with_remark(self.mode, predicates.unchecked(self.row))


@dataclass(frozen=True)
class Tie:
    """A mode that is as fast as the chosen mode by their intervals, and why it is not preferred."""

    row: Choice
    reason: str


@dataclass(frozen=True)
class Refusal:
    """A mode that is not chosen, and why."""

    run_id: str
    mode: str
    kind: RefusalKind
    host_slower: str | None = None  # how many times its usual time the host took, of SLOW_HOST


@dataclass(frozen=True)
class Recommendation:
    """The answer to one question.

    `choice` is what to use: a mode if the outcome is MODE, or the baseline if the outcome is
    BASELINE and the baseline has a usable run against itself; else None. `processes` is the least
    number of processes of a usable row. `process_spread` is the largest relative standard deviation
    of a row's speedup between its processes (0.02: 2 %); `mde` is relative, too.
    """

    question: Question
    wishes: Wishes
    outcome: Outcome
    choice: Choice | None
    tied: tuple[Tie, ...]
    refused: tuple[Refusal, ...]
    floor: Estimate | None  # the baseline against itself
    processes: int  # of the usable row that has fewest
    process_spread: float | None  # the largest difference of a row's processes; None: unknown
    mde: float | None  # largest of the rows: the true change that even the least certain detects
    is_disturbed: bool  # a mode that is no clear loss, or the floor, has a wide interval
    baseline_fits: bool | None  # into the memory limit; None: unknown
    baseline_unchecked: str  # why the baseline's results could not be judged
    rival: Choice | None  # the best other mode, neither tied nor slower than the baseline
    disputed: Choice | None = None  # the mode whose processes contradict each other
    link: Estimate | None = None  # the baseline in tf32 over the same in fp32, if a row links both
    within: Recommendation | None = None  # if only the link is faster: the answer over eager tf32
    tf32_off: bool = False  # the baseline is in fp32 without tf32, which the GPU has and no row

    @property
    def detectable(self) -> float | None:
        """The smallest true gain (0.02: 2 %) that would be recommended in 80 % of such runs.

        A recommendation needs an interval that lies above `hurdle`, not only above 1. None if
        unknown.
        """
        return None if self.mde is None else self.mde + hurdle(self.floor) - 1


def name_with_remark(mode: str, unchecked: str) -> str:
    """The name of a mode, with a remark if `unchecked` says why its results were not checked."""
    return f"{mode} (results not checked)" if unchecked else mode


def hurdle(floor: Estimate | None) -> float:
    """The speedup above which the whole interval of a mode must lie for a recommendation.

    It is 1 + MARGIN, or more if the noise floor (the baseline against itself) excludes 1.
    """
    if floor is None or low(floor) <= 1 <= high(floor):
        return 1 + MARGIN
    return max(1 + MARGIN, high(floor), 1 / low(floor))
