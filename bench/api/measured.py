"""The result of `modescope.measure`."""

from __future__ import annotations

from dataclasses import dataclass

from modescope.bench.text.tables import seconds as duration


@dataclass(frozen=True)
class Measured:
    """How fast a candidate is against its baseline. Fields are named as columns of a study."""

    baseline: str  # names of the functions
    candidate: str
    speedup: float  # time of the baseline ÷ time of the candidate: above 1, the candidate is faster
    speedup_ci_low: float | None  # 95 % interval; None where there were fewer than 12 rounds
    speedup_ci_high: float | None
    verdict: str | None  # faster | slower | equivalent | inconclusive, of the candidate
    mde: float | None  # smallest change that such a measurement detects in 80 % of cases; 0.02: 2 %
    latency_s: float  # median time of a call of the candidate
    baseline_latency_s: float
    flags: tuple[str, ...]  # what disturbed the measurement
    device: str  # cpu | cuda
    seconds: float  # that all of it took
    ratios: tuple[float, ...]  # by round, in order: the speedup without its correction for order

    def __str__(self) -> str:
        low, high = self.speedup_ci_low, self.speedup_ci_high
        interval = "without an interval" if low is None else f"[{low:.3f}, {high:.3f}]"
        times = (
            f"{self.baseline} {duration(self.baseline_latency_s)}, "
            f"{self.candidate} {duration(self.latency_s)}"
        )
        detects = "" if self.mde is None else f", detects changes of {100 * self.mde:.2g} %"
        return "\n".join(
            [
                f"{self.candidate} is {self.speedup:.3f}× {interval} as fast as {self.baseline}: "
                f"{self.verdict or 'unknown, as there were too few rounds; allow more seconds'}",
                f"{times}; {len(self.ratios)} rounds in {duration(self.seconds)}{detects}",
                *([f"flags: {', '.join(self.flags)}"] if self.flags else []),
            ]
        )
