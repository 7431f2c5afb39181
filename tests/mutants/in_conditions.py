"""Faults in the conditions of a measurement: flags and calibration."""

from __future__ import annotations

from tests.mutants.fault import Fault

DIAGNOSTICS = "tests/bench/stats/test_diagnostics.py"
CONTENTION = "tests/bench/timing/test_contention.py"
PACE = "tests/bench/devices/test_clock_rate.py"
RULES = "tests/bench/stats/test_conditions.py"
ESTIMATES = "tests/bench/stats/test_estimates.py"
CLOCKS = "tests/bench/timing/test_clock_rounds.py"
FLAGS = "tests/analysis/rows/test_conditions.py"
DESERVED = "tests/analysis/rows/test_flags_deserved.py"

CONDITIONS = (
    Fault(
        "flags judged on durations although there is a baseline",
        "bench/stats/diagnostics.py",
        "LogRounds(result, ratios, RATIO_DRIFT, case_first)",
        "LogRounds(case, case, RATIO_DRIFT, case_first)",
        (f"{DIAGNOSTICS}::test_what_slows_both_sides_is_not_flagged",),
    ),
    Fault(
        "an effect of the order that is taken off the speedup is called two levels of it",
        "bench/stats/diagnostics.py",
        "result = orders.without_order_effect(ratios, case_first)",
        "result = ratios",
        (
            f"{DIAGNOSTICS}::test_an_effect_of_the_order_raises_no_flag_about_the_speedup",
            f"{DESERVED}::test_a_row_with_a_remark_misses_the_truth_more_often",
        ),
    ),
    Fault(
        "every significant drift is flagged, however small",
        "bench/stats/diagnostics.py",
        "DRIFT_P, rounds.least_drift",
        "DRIFT_P, 0.0",
        (f"{DIAGNOSTICS}::test_significant_but_tiny_effects_raise_no_flag",),
    ),
    Fault(
        "every significant order effect is flagged, however small",
        "bench/stats/diagnostics.py",
        "ORDER_P, ORDER_DIFFERENCE",
        "ORDER_P, 0.0",
        (f"{DIAGNOSTICS}::test_significant_but_tiny_effects_raise_no_flag",),
    ),
    Fault(
        "order effect with its sides swapped",
        "bench/stats/orders.py",
        "first = np.asarray(case_first",
        "first = ~np.asarray(case_first",
        (f"{DIAGNOSTICS}::test_order_effect_by_hand",),
    ),
    Fault(
        "order effect left in the speedup",
        "bench/stats/orders.py",
        "half = effect.difference / 2",
        "half = 0.0",
        (f"{ESTIMATES}::test_an_order_effect_is_taken_off",),
    ),
    Fault(
        "order effect taken off although it is noise",
        "bench/stats/orders.py",
        "if effect is None or effect.p >= ORDER_P:",
        "if effect is None:",
        (f"{ESTIMATES}::test_rounds_without_an_order_effect_stay_as_they_are",),
    ),
    Fault(
        "speedup of stored rounds without their order",
        "analysis/load/run_stats.py",
        'estimates.speedup(*rounds, run["case_ran_first"])',
        "estimates.speedup(*rounds)",
        ("tests/analysis/load/test_run_stats.py::test_the_speedup_knows_the_order_of_the_rounds",),
    ),
    Fault(
        "bimodality without a correction for choosing the best split",
        "bench/stats/diagnostics.py",
        "Groups(separation * (1 - SEPARATION_ERROR / math.sqrt(n)), ",
        "Groups(separation, ",
        (
            f"{DIAGNOSTICS}::test_bimodality_by_hand",
            f"{DIAGNOSTICS}::test_a_single_flat_mode_is_not_bimodal",
        ),
    ),
    Fault(
        "alternation taken for autocorrelation",
        "bench/stats/diagnostics.py",
        "r = float(np.sum(ranks[1:] * ranks[:-1]) / np.sum(ranks**2))",
        "r = abs(float(np.sum(ranks[1:] * ranks[:-1]) / np.sum(ranks**2)))",
        (f"{DIAGNOSTICS}::test_alternation_is_not_flagged_as_autocorrelation",),
    ),
    Fault(
        "never contended",
        "bench/stats/conditions.py",
        "return max(waits_s) / watch.watched_s > WAIT_SHARE or others_cores > allowed_cores",
        "return False",
        (f"{RULES}::test_contention_begins_at_its_thresholds",),
    ),
    Fault(
        "own CPU time taken for that of others",
        "bench/timing/contention.py",
        " - idle_s - (after.own_s - before.own_s))",
        " - idle_s)",
        (f"{CONTENTION}::test_contention_is_the_difference_of_counters",),
    ),
    Fault(
        "clock compared with the last reading instead of the highest",
        "bench/stats/conditions.py",
        "accumulate(readings, max)",
        "accumulate(readings[:1] + readings[:-1], lambda _, last: last)",
        (f"{RULES}::test_a_clock_rate_that_falls_by_3_percent_is_throttled",),
    ),
    Fault(
        "throttle reasons that ended instead of those that began",
        "bench/devices/clock_rate.py",
        "_grown(counts[0], counts[-1])",
        "_grown(counts[-1], counts[0])",
        (f"{PACE}::test_throttle_reasons_are_collected",),
    ),
    Fault(
        "a block that overfills the queue becomes a single call",
        "bench/timing/clock_rounds.py",
        "max(1, calls // FEWER)",
        "1",
        (f"{CLOCKS}::test_fewer_calls_are_queued_until_they_fit",),
    ),
    Fault(
        "as many calls wanted as the queue took",
        "bench/timing/clock_rounds.py",
        "device_calls_wanted=blocks[0].wanted",
        "device_calls_wanted=blocks[0].calls",
        (f"{CLOCKS}::test_fewer_calls_are_queued_until_they_fit",),
    ),
    Fault(
        "a full queue is not reported",
        "analysis/rows/conditions.py",
        "bool(calls < wanted)",
        "bool(calls > wanted)",
        (f"{FLAGS}::test_each_condition_is_raised_by_its_columns",),
    ),
    Fault(
        "clocks read in the same order by every replicate",
        "bench/case/clocks.py",
        "    seed = plan.seed + plan.replicate\n",
        "    seed = plan.seed\n",
        (
            "tests/bench/case/test_runner.py::test_each_replicate_reads_its_clocks_in_an_order_of_its_own",
        ),
    ),
    Fault(
        "marks of the calibration not behind a held device",
        "bench/timing/calibration.py",
        "    device.hold(MARKS_HOLD_S)\n"
        "    marks = [device.mark() for _ in range(MARKS)]\n"
        "    all_issued_ahead = not marks[0].reached()\n",
        "    marks = [device.mark() for _ in range(MARKS)]\n    all_issued_ahead = True\n",
        ("tests/bench/timing/test_calibration.py::test_marks_are_read_behind_a_held_device",),
    ),
    Fault(
        "a drift is planted in too few rounds to be seen",
        "bench/tools/selfcheck/disturbances.py",
        "(SURE / 1.5 / tau) ** 2",
        "(SURE / 3 / tau) ** 2",
        (
            "tests/bench/tools/test_selfcheck.py::"
            "test_a_drift_is_planted_in_as_many_rounds_as_show_it",
        ),
    ),
    Fault(
        "a disturbance of the case alone reaches the baseline, too",
        "bench/tools/selfcheck/disturbances.py",
        "lengthened(other, _nothing if each.case_alone else blocks.slowdown, device)",
        "lengthened(other, blocks.slowdown, device)",
        ("tests/bench/tools/test_selfcheck.py::test_a_disturbance_of_the_case_alone_is_flagged",),
    ),
    Fault(
        "a condition of the machine is simulated",
        "bench/tools/selfcheck/disturbances.py",
        "if each.condition is not nullcontext:",
        'if each.flag == "contended":',
        ("tests/bench/tools/test_selfcheck.py::test_conditions_of_the_machine_are_not_simulated",),
    ),
    Fault(
        "no wait where nothing is planted",
        "bench/tools/testbed/workloads.py",
        "(clock() - start + WAIT_S)",
        "(clock() - start)",
        ("tests/bench/tools/test_selfcheck.py::test_a_call_is_longer_by_the_planted_share",),
    ),
    Fault(
        "a planted wait includes the time to compute it",
        "bench/tools/testbed/workloads.py",
        "end = start + factor * (clock() - start + WAIT_S)",
        "end = start + (clock() - start) * (1 + share())",
        ("tests/bench/tools/test_selfcheck.py::test_a_call_is_longer_by_the_planted_share",),
    ),
)
