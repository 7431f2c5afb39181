"""Faults in rounds: of case and baseline, and of all clocks."""

from __future__ import annotations

from tests.mutants.fault import Fault

ENGINE = "tests/bench/timing/test_rounds.py"
RACE = "tests/bench/timing/test_paired.py"
WARM_UP = "tests/bench/timing/test_warm_up.py"
CLOCKS = "tests/bench/timing/test_clock_rounds.py"
RUNNER = "tests/bench/case/test_runner.py"

ROUNDS = (
    Fault(
        "no warm-up",
        "bench/timing/warm_up.py",
        "        if steady or seconds >= budget.warmup_max_s:\n",
        "        if True:\n",
        (f"{WARM_UP}::test_warm_up_lasts_through_a_transient",),
    ),
    Fault(
        "no shuffle: the case always goes first",
        "bench/timing/rounds.py",
        "    return both\n",
        "    return [tuple(sorted(order)) for order in both]\n",
        (RACE,),
    ),
    Fault(
        "alternating order instead of random order",
        "bench/timing/rounds.py",
        "    shuffle.shuffle(both)\n",
        "",
        (RACE,),
    ),
    Fault(
        "orders without their mirror images",
        "bench/timing/rounds.py",
        "for order in (each, each[::-1])]",
        "for order in (each, _drawn(clocks, shuffle))]",
        (ENGINE,),
    ),
    Fault(
        "clocks read one after the other",
        "bench/timing/clock_rounds.py",
        "        played = play(clocks, planned[: budget.pilot_rounds], "
        "device, begun + patience_s)\n"
        "        rest = planned[budget.pilot_rounds :]\n"
        "        played += play(clocks, rest, device, begun + budget.timed_max_s)\n",
        "        each_alone = [\n"
        "            play([clock], orders([clock], len(planned), random), device, math.inf)\n"
        "            for clock in clocks\n"
        "        ]\n"
        "        played = [\n"
        "            Round((), tuple(each.timings[0] for each in turns), ())\n"
        "            for turns in zip(*each_alone, strict=True)\n"
        "        ]\n",
        (f"{CLOCKS}::test_ratios_of_clocks_withstand_a_machine_that_changes_its_pace",),
    ),
    Fault(
        "ratios of clocks from different rounds",
        "bench/timing/rounds.py",
        "    timings = (each.timings[clock][side] for each in played)\n",
        "    from_other = [*played[clock:], *played[:clock]]\n"
        "    timings = (each.timings[clock][side] for each in from_other)\n",
        (f"{CLOCKS}::test_ratios_of_clocks_withstand_a_machine_that_changes_its_pace",),
    ),
    Fault(
        "a round in which a clock failed counts for the other clocks",
        "bench/timing/clock_rounds.py",
        "medians(complete, place, side) if",
        "medians([o for o in played if _read(o, (place, side))], place, side) if",
        (f"{CLOCKS}::test_a_round_in_which_a_clock_failed_is_left_out_of_all",),
    ),
    Fault(
        "pace read outside the rounds",
        "bench/timing/paired.py",
        "medians(played, 1, 0) if pace",
        "medians(play([pace], [((0, 0),)] * len(played), device, 1e99), 0, 0) if pace",
        (f"{RACE}::test_the_pace_is_read_in_every_round",),
    ),
    Fault(
        "the machine's pace not read beside the speedup",
        "bench/timing/comparison.py",
        "expected_s, redraw, pace.clock())",
        "expected_s, redraw)",
        ("tests/bench/timing/test_comparison.py",),
    ),
    Fault(
        "labels of case and baseline swapped",
        "bench/timing/rounds.py",
        "timings[place][turn] = replace",
        "timings[place][-1 - turn] = replace",
        (RACE,),
    ),
    Fault(
        "pairing shuffled away",
        "bench/timing/paired.py",
        "    return medians(played, 0, 0), ",
        "    return tuple(sorted(medians(played, 0, 0))), ",
        (RACE,),
    ),
    Fault(
        "first round reused as the sample of all others",
        "bench/timing/rounds.py",
        "        played.append(",
        "        played.append(played[0] if played else ",
        (RACE,),
    ),
    Fault(
        "untimed calls after a switch dropped",
        "bench/timing/rounds.py",
        "range(side.settling_calls)",
        "range(0)",
        (RACE,),
    ),
    Fault(
        "first block of a round may follow its own step",
        "bench/timing/rounds.py",
        "        other.step()\n",
        "",
        (f"{ENGINE}::test_the_recorded_order_is_the_played_one",),
    ),
    Fault(
        "memory placed once for a whole round",
        "bench/timing/rounds.py",
        "        placement = clock.redraw()\n",
        "        placement = clock.redraw() if (place, turn) == order[0] else None\n",
        (RACE,),
    ),
    Fault(
        "memory never placed anew",
        "bench/timing/memory_layout.py",
        "            tensor.data = tensor.data.clone()\n",
        "            tensor.data.clone()\n",
        ("tests/bench/timing/test_memory_layout.py",),
    ),
    Fault(
        "mean instead of median over the calls of a round",
        "bench/timing/timers.py",
        "return statistics.median(self.samples_s) if",
        "return statistics.mean(self.samples_s) if",
        (f"{RACE}::test_a_round_is_the_median_of_its_calls",),
    ),
    Fault(
        "single calls thinned by taking the front",
        "bench/timing/rounds.py",
        "samples[i * len(samples) // kept]",
        "samples[i]",
        (f"{RACE}::test_single_calls_are_thinned_evenly",),
    ),
    Fault(
        "pilot ignored: always as many rounds as allowed",
        "bench/timing/paired.py",
        "return min(needed + needed % 2, ",
        "return min(",
        (RACE,),
    ),
    Fault(
        "stops after the pilot where that is significant",
        "bench/timing/paired.py",
        "    return min(needed",
        "    ratio = estimates.speedup(*_durations(played))\n"
        "    if ratio and ratio.low and ratio.high and not ratio.low <= 1 <= ratio.high:\n"
        "        return len(played)\n"
        "    return min(needed",
        (f"{RACE}::test_a_significant_difference_does_not_end_the_rounds",),
    ),
    Fault(
        "replicates repeat the same order",
        "bench/case/paired_timing.py",
        "    seed = plan.seed + plan.replicate\n",
        "    seed = plan.seed\n",
        (f"{RUNNER}::test_each_replicate_draws_an_order_of_its_own",),
    ),
    Fault(
        "garbage collector left on while timing",
        "bench/devices/garbage.py",
        "    gc.disable()\n",
        "",
        (f"{RACE}::test_garbage_is_not_collected_while_timing",),
    ),
    Fault(
        "garbage collector left off after timing",
        "bench/devices/garbage.py",
        "        if was_enabled:\n",
        "        if False:\n",
        (f"{ENGINE}::test_the_garbage_collector_is_restored",),
    ),
)
