"""Faults in the paired rounds of case and baseline."""

from __future__ import annotations

from tests.mutants.fault import Fault

RACE = "tests/bench/timing/test_rounds.py"
RUNNER = "tests/bench/case/test_runner.py"

ROUNDS = (
    Fault(
        "no warm-up",
        "bench/timing/rounds.py",
        "        if steady or seconds >= budget.warmup_max_s:\n",
        "        if True:\n",
        (f"{RACE}::test_warm_up_lasts_through_a_transient",),
    ),
    Fault(
        "no shuffle: the case always goes first",
        "bench/timing/rounds.py",
        "i % 2 == one_more",
        "True",
        (RACE,),
    ),
    Fault(
        "alternating order instead of random order",
        "bench/timing/rounds.py",
        "    shuffle.shuffle(orders)\n",
        "",
        (RACE,),
    ),
    Fault(
        "labels of case and baseline swapped",
        "bench/timing/rounds.py",
        "tuple(map(median, samples))",
        "tuple(map(median, samples))[::-1]",
        (RACE,),
    ),
    Fault(
        "pairing shuffled away",
        "bench/timing/rounds.py",
        "    return case_s, baseline_s[0] if",
        "    return tuple(sorted(case_s)), baseline_s[0] if",
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
        "range(each.settling_calls)",
        "range(0)",
        (RACE,),
    ),
    Fault(
        "first block of a round may follow its own step",
        "bench/timing/rounds.py",
        "        other.step()\n",
        "",
        (f"{RACE}::test_the_recorded_order_is_the_measured_order",),
    ),
    Fault(
        "memory placed once for a whole round",
        "bench/timing/rounds.py",
        "        placement = redraw()\n",
        "        placement = redraw() if each is turns[0][1] else None\n",
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
        "bench/timing/rounds.py",
        "from statistics import median\n",
        "from statistics import mean as median\n",
        (RACE,),
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
        "bench/timing/rounds.py",
        "return min(needed + needed % 2, ",
        "return min(",
        (RACE,),
    ),
    Fault(
        "stops after the pilot where that is significant",
        "bench/timing/rounds.py",
        "    return min(needed",
        "    ratio = stats.speedup(*_durations(played))\n"
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
        "bench/timing/rounds.py",
        "    gc.disable()\n",
        "",
        (f"{RACE}::test_garbage_is_not_collected_while_timing",),
    ),
    Fault(
        "garbage collector left off after timing",
        "bench/timing/rounds.py",
        "        if was_enabled:\n",
        "        if False:\n",
        (f"{RACE}::test_the_garbage_collector_is_restored",),
    ),
)
