"""How a case is measured: `Plan`, with its `Budget`. Standard library only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from modescope.bench.records.cases import canonical_json


@dataclass(frozen=True)
class Budget:
    """How long and how precisely a case is measured. Times are in seconds."""

    name: str
    rank: int  # order of the budgets; a row may be reused where a smaller rank is asked for
    warmup_min_s: float
    warmup_max_s: float
    block_s: float  # length of one timed block
    pilot_rounds: int
    min_rounds: int
    max_rounds: int
    half_width: float  # target for the relative half-width of the speedup's interval
    timed_max_s: float  # longest time for the paired rounds
    clock_rounds: int  # rounds in which all clocks are read
    slow_half_width: float | None = (
        None  # target where the pilot shows a clear loss; None: half_width
    )

    @property
    def settings(self) -> str:
        """The budget's settings as canonical JSON, without its name and rank."""
        others = ("name", "rank", "slow_half_width")
        return canonical_json({k: v for k, v in asdict(self).items() if k not in others})


@dataclass(frozen=True)
class Plan:
    """How a case is measured. Nothing here is part of `case_id`."""

    budget: Budget
    seed: int
    replicate: int  # number, from 0, of this process among those that measure the case
    compile_cache: str  # a key of bench.records.caches.CACHES
    timeout_s: float
    study: str
    results_dir: str
    profile: bool  # run the passes that profile the case and count its work
    memory: bool  # run the memory passes
    explain: str  # of the steps from eager to the mode: false, true, fusion, or best of a sweep
    trace_max_bytes: int  # of one profiler trace or memory snapshot; 0: none is kept
    traces_max_bytes: int  # of all traces and snapshots of the study
    max_error: float | None = None  # relative error that the user accepts; None: the usual limit
    starts: int = 0  # new processes that are timed from their start to the first right result
    fills_cache: bool = False  # end after the first call if it had to fill the compiler's cache
    latency_alone: bool = False  # time the paired rounds only: no other clocks, no first call

    @property
    def study_folder(self) -> Path:
        """The folder of the study's results."""
        return Path(self.results_dir) / self.study
