"""Faults in what is said about the conditions of a measurement: its flags and its calibration."""

from __future__ import annotations

from tests.mutants.fault import Fault

DIAGNOSTICS = "tests/bench/test_diagnostics.py"
CONTENTION = "tests/bench/test_contention.py"
PACE = "tests/bench/test_pace.py"
CLOCKS = "tests/bench/test_clocks.py"
FLAGS = "tests/analysis/test_conditions.py"

CONDITIONS = (
    Fault(
        "any drift that is significant is told, however small",
        "bench/diagnostics.py",
        "DRIFT_P, DURATION_DRIFT",
        "DRIFT_P, 0.0",
        (f"{DIAGNOSTICS}::test_significant_but_tiny_raises_nothing",),
    ),
    Fault(
        "any effect of the order that is significant is told, however small",
        "bench/diagnostics.py",
        "ORDER_P, ORDER_DIFFERENCE",
        "ORDER_P, 0.0",
        (f"{DIAGNOSTICS}::test_significant_but_tiny_raises_nothing",),
    ),
    Fault(
        "effect of the order with its sides swapped",
        "bench/diagnostics.py",
        "first = np.asarray(case_first",
        "first = ~np.asarray(case_first",
        (f"{DIAGNOSTICS}::test_order_effect_by_hand",),
    ),
    Fault(
        "two modes without a correction for choosing the best split",
        "bench/diagnostics.py",
        "Modes(separation * (1 - SEPARATION_ERROR / math.sqrt(n)), ",
        "Modes(separation, ",
        (
            f"{DIAGNOSTICS}::test_bimodality_by_hand",
            f"{DIAGNOSTICS}::test_a_single_flat_mode_is_not_two",
        ),
    ),
    Fault(
        "alternation taken for autocorrelation",
        "bench/diagnostics.py",
        "r = float(np.sum(ranks[1:] * ranks[:-1]) / np.sum(ranks**2))",
        "r = abs(float(np.sum(ranks[1:] * ranks[:-1]) / np.sum(ranks**2)))",
        (f"{DIAGNOSTICS}::test_alternation_is_no_positive_autocorrelation",),
    ),
    Fault(
        "never contended",
        "bench/contention.py",
        "return max(shares) > WAIT_SHARE or others_cores > allowed_cores",
        "return False",
        (f"{CONTENTION}::test_how_much_is_too_much",),
    ),
    Fault(
        "own CPU time taken for that of others",
        "bench/contention.py",
        " - idle_s - (after.own_s - before.own_s))",
        " - idle_s)",
        (f"{CONTENTION}::test_what_happened_is_a_difference",),
    ),
    Fault(
        "clock compared with the last reading instead of the highest",
        "bench/pace.py",
        "accumulate(readings, max)",
        "accumulate(readings[:1] + readings[:-1], lambda _, last: last)",
        (f"{PACE}::test_how_far_a_clock_may_fall",),
    ),
    Fault(
        "reasons of a slowdown that went away instead of those that came up",
        "bench/pace.py",
        "_grown(counts[0], counts[-1])",
        "_grown(counts[-1], counts[0])",
        (f"{PACE}::test_reasons_that_came_up",),
    ),
    Fault(
        "a block that overfills the queue becomes a single call",
        "bench/clocks.py",
        "max(1, calls // FEWER)",
        "1",
        (f"{CLOCKS}::test_fewer_calls_are_queued_until_they_fit",),
    ),
    Fault(
        "as many calls wanted as the queue took",
        "bench/clocks.py",
        "device_calls_wanted=block.wanted",
        "device_calls_wanted=block.calls",
        (f"{CLOCKS}::test_fewer_calls_are_queued_until_they_fit",),
    ),
    Fault(
        "a full queue never told",
        "analysis/conditions.py",
        "bool(calls < wanted)",
        "bool(calls > wanted)",
        (f"{FLAGS}::test_what_a_run_was_under",),
    ),
    Fault(
        "clocks read in the same order by every replicate",
        "bench/race.py",
        "    seed = plan.seed + plan.replicate\n",
        "    seed = plan.seed\n",
        (
            "tests/bench/test_runner.py::test_each_replicate_reads_its_clocks_in_an_order_of_its_own",
        ),
    ),
    Fault(
        "marks of the calibration not behind a held device",
        "bench/calibration.py",
        "    device.hold(MARKS_HOLD_S)\n"
        "    marks = [device.mark() for _ in range(MARKS)]\n"
        "    all_issued_ahead = not marks[0].reached()\n",
        "    marks = [device.mark() for _ in range(MARKS)]\n    all_issued_ahead = True\n",
        ("tests/bench/test_calibration.py::test_marks_are_read_behind_a_held_device",),
    ),
    Fault(
        "every machine is said to keep its pace",
        "bench/selfcheck/witness.py",
        "return bool(far.mean() < FEW and max(levels) - min(levels) <= WANDERS)",
        "return True",
        ("tests/bench/test_witness.py",),
    ),
    Fault(
        "nobody watches equal steps",
        "bench/selfcheck/races.py",
        "asked = witness if witnessed else None",
        "asked = None",
        (
            "tests/bench/test_selfcheck.py::test_a_third_copy_stands_beside_equal_steps_where_it_is_quiet",
        ),
    ),
    Fault(
        "what is injected reaches the witness, too",
        "bench/selfcheck/disturbances.py",
        "witness = planted(built(STEP, device), 0.0, device)",
        "witness = lengthened(built(STEP, device), blocks.slowdown, device)",
        ("tests/bench/test_selfcheck.py::test_a_disturbance_follows_the_rounds",),
    ),
    Fault(
        "no wait where nothing is planted",
        "bench/testbed/workloads.py",
        "(clock() - start + WAIT_S)",
        "(clock() - start)",
        ("tests/bench/test_selfcheck.py::test_a_call_is_longer_by_the_share_that_was_asked_for",),
    ),
    Fault(
        "a wait that pays for being worked out",
        "bench/testbed/workloads.py",
        "end = start + factor * (clock() - start + WAIT_S)",
        "end = start + (clock() - start) * (1 + share())",
        ("tests/bench/test_selfcheck.py::test_a_call_is_longer_by_the_share_that_was_asked_for",),
    ),
)
