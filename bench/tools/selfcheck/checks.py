"""All checks, in the order in which they run; a new one is a line here."""

from __future__ import annotations

from modescope.bench.tools.selfcheck import disturbances, exact, races, theory
from modescope.bench.tools.selfcheck.outcomes import SelfCheck

# name -> check
CHECKS: dict[str, SelfCheck] = {
    "clock": exact.clock_itself,
    "delays": exact.planted_delays,
    "spins": exact.planted_spins,
    "separation": exact.separation,
    "torch-timer": exact.torch_timer,
    "triton": exact.triton_bench,
    "coverage": theory.coverage,
    "planted-ratio": theory.planted_ratio,
    "equal": races.equal_steps,
    "planted": races.planted_changes,
    "disturbed-simulated": disturbances.simulated_disturbances,
    "disturbed": disturbances.disturbances,
}
