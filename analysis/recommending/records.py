"""What is asked, what is chosen, and what is said of the rest."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.recommending.ends import hurdle
from analysis.recommending.wishes import Wishes
from bench.stats import Estimate

MODE = "mode"
BASELINE = "baseline"
UNDECIDED = "undecided"
NOTHING = "nothing"

OUTCOMES = {
    MODE: "a mode is shown to be better than the baseline",
    BASELINE: "every mode that counts is shown to be slower than the baseline, or equal to it",
    UNDECIDED: "no difference that this data can show: the intervals leave it open",
    NOTHING: "no run that counts to compare",
}


@dataclass(frozen=True)
class Question:
    """One work at one size, at one output precision, in one place, against one baseline.

    The precision belongs to the question because which error is acceptable is not in the data. So
    does the baseline, as speedups over different ones cannot be ranked, and whether the compiler's
    cache was emptied, as that is no property of a mode.
    """

    environment: str
    device: str
    device_name: str | None
    cpu_capability: str | None
    cpu_instructions: str | None
    threads: int
    model: str
    model_args: str | None
    phase: str
    optimizer: str | None  # of training, as are its options
    training: str | None  # canonical JSON
    shape: str  # canonical JSON
    dtype: str
    baseline_mode: str | None
    baseline_dtype: str | None
    compile_cache: str


@dataclass(frozen=True)
class Choice:
    """A row that counts, as far as a choice depends on it; what is unknown is None."""

    run_id: str
    mode: str
    dtype: str
    speedup: Estimate  # paired, calls alone
    gain: Estimate  # the same with the first call spread over the calls asked for, if any were
    latency: Estimate
    error: float  # relative RMS error against float64
    first_call_s: float | None
    cache: str  # cold | warm: of the compiler, before the first call
    break_even_calls: float | None
    peak_bytes: float | None  # of a steady call, above an empty process
    extra_bytes: float | None  # beyond the peak of the baseline
    processes: int  # whose results are combined; the spread between them is unknown of one
    flags: tuple[str, ...]  # those that bear on the speedup
    accepted: str = ""  # `error accepted up to 0.05`, where only max_error accepts its error


@dataclass(frozen=True)
class Tie:
    """A row that cannot be told apart from the chosen one, and why that one is preferred."""

    row: Choice
    reason: str


@dataclass(frozen=True)
class Refusal:
    """A row that is not chosen: `kind` is a key of `refusals.KINDS`."""

    run_id: str
    mode: str
    kind: str
    reason: str  # a clause


@dataclass(frozen=True)
class Recommendation:
    """The answer to one question.

    `choice` is the row to use: a mode (outcome MODE), or the baseline (BASELINE, if a run of it
    against itself counts); None where nothing is decided.
    """

    question: Question
    wishes: Wishes
    outcome: str  # a key of OUTCOMES
    choice: Choice | None
    tied: tuple[Tie, ...]
    refused: tuple[Refusal, ...]
    floor: Estimate | None  # the baseline against itself
    mde: float | None  # the least certain row would have shown a true change of this size
    baseline_fits: bool | None  # into the memory that is allowed; None: unknown
    headline: str  # the answer, without naming the work
    remarks: tuple[str, ...]  # sentences on ties, on doubts, and on what was refused
    baseline_accepted: str = ""  # `baseline's error accepted up to 0.7`, as of Choice

    @property
    def detectable(self) -> float | None:
        """The least true gain (0.02: 2 %) that 80 % of such runs would have recommended.

        An interval has to lie above `ends.hurdle` for that, not only to exclude 1.
        """
        return None if self.mde is None else self.mde + hurdle(self.floor) - 1
