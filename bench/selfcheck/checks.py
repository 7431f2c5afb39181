"""All checks, in the order in which they are run and printed; a new one is a line here."""

from __future__ import annotations

from bench.selfcheck import disturbances, exact, races, theory
from bench.selfcheck.outcomes import Check

# name -> check
CHECKS: dict[str, Check] = {
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
