"""Faults in statements about rounds: statistics, selection of rows, wording."""

from __future__ import annotations

from tests.mutants.fault import Fault

STATISTICS = "tests/bench/stats/test_estimates.py"
PROCESSES = "tests/analysis/metrics/test_replicates.py"
METRICS = "tests/analysis/metrics/test_registry.py"
ROUNDS = "tests/analysis/rows/test_round_ratios.py"
PROFILES = "tests/analysis/rows/test_profiler_agreement.py"
TURNS = "tests/bench/case/profiler/test_turns.py"
SELECTION = "tests/analysis/filters/test_selection.py"
ROWS = "tests/analysis/rows/test_select.py"

STATED = (
    Fault(
        "mean instead of median over rounds",
        "bench/stats/estimates.py",
        "float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2",
        "float(np.mean(ordered))",
        (STATISTICS,),
    ),
    Fault(
        "interval one rank too narrow",
        "bench/stats/estimates.py",
        "float(ordered[k - 1]), float(ordered[n - k])",
        "float(ordered[k]), float(ordered[n - k - 1])",
        (STATISTICS,),
    ),
    Fault(
        "speedup upside down",
        "bench/stats/estimates.py",
        "np.log(baseline / case)",
        "np.log(case / baseline)",
        (STATISTICS,),
    ),
    Fault(
        "margin of a verdict ignored",
        "bench/stats/estimates.py",
        "upper = 1 + margin",
        "upper = 1.0",
        (STATISTICS,),
    ),
    Fault(
        "detectable change of zero where there is no interval",
        "bench/stats/estimates.py",
        "None if half_width is None else math.expm1",
        "0.0 if half_width is None else math.expm1",
        (STATISTICS,),
    ),
    Fault(
        "interval from single calls instead of rounds",
        "analysis/load/run_stats.py",
        '_median_of(f"{clock}{_ROUNDS}")',
        '_median_of("latency_calls_s")',
        (f"{METRICS}::test_latency_and_its_order_statistic_interval",),
    ),
    Fault(
        "a share from values of different rounds",
        "analysis/rows/round_ratios.py",
        'estimates.ratio(run[f"{top}_rounds_s"], run[f"{bottom}_rounds_s"])',
        'estimates.ratio(run[f"{top}_rounds_s"], run["latency_rounds_s"])',
        (f"{ROUNDS}::test_a_share_withstands_a_machine_that_changes_its_pace",),
    ),
    Fault(
        "a profile compared with one call before it",
        "bench/case/profiler/turns.py",
        "_means(alone) if alone else None",
        "tuple(alone[:1] * len(latencies_s)) if alone else None",
        (f"{TURNS}::test_a_profile_that_agrees_raises_no_flag_while_the_pace_jumps",),
    ),
    Fault(
        "a split that disagrees by the value of a wide interval",
        "analysis/rows/profiler_agreement.py",
        "max(low - 1, 1 - high) > TOLERANCE",
        "abs(share.value - 1) > TOLERANCE",
        (f"{PROFILES}::test_the_whole_interval_must_lie_beyond_the_limit",),
    ),
    Fault(
        "on CUDA a fusion gain without the baselines of both rows",
        "analysis/metrics/fusion.py",
        'intervals.quotient(row["_device_gain"], reference["_device_gain"])',
        'row["_device_gain"]',
        ("tests/analysis/metrics/test_fusion.py::test_work_on_cuda_is_device_time",),
    ),
    Fault(
        "only the first of several processes counts",
        "analysis/metrics/replicates.py",
        "Cases(cases)",
        "Cases([case[:1] for case in cases])",
        (f"{PROCESSES}::test_three_processes_combine_to_the_interval_of_their_means",),
    ),
    Fault(
        "a wrong result keeps its speedup",
        "analysis/load/run_stats.py",
        'ok = run["status"] == "ok"',
        'ok = run["status"] in ("ok", "wrong_result")',
        (f"{METRICS}::test_only_ok_rows_have_derived_values",),
    ),
    Fault(
        "a mode that was not in effect is recommended",
        "analysis/rows/select.py",
        '(rows["in_effect"].eq(True))',
        '(rows["in_effect"].notna())',
        (f"{ROWS}::test_only_runs_that_count_are_trusted",),
    ),
    Fault(
        "a failed run hidden by an older successful one",
        "analysis/rows/select.py",
        'drop_duplicates(process, keep="last")',
        'drop_duplicates(process, keep="first")',
        (f"{ROWS}::test_the_newest_run_is_selected_even_if_it_failed",),
    ),
    Fault(
        "an uncertain gain pays back the first call",
        "analysis/metrics/formulas.py",
        'gains = rows["speedup_ci_low"] > 1',
        'gains = rows["speedup"] > 1',
        (f"{METRICS}::test_break_even",),
    ),
    Fault(
        "a mode that was not in effect pays for its first call",
        "analysis/metrics/formulas.py",
        "not (phrases.is_control(row) or phrases.not_in_effect(row))",
        "not phrases.is_control(row)",
        (f"{METRICS}::test_a_mode_that_is_not_in_effect_does_not_pay_or_fail_to_pay",),
    ),
    Fault(
        "noise of the first call has to be paid back",
        "analysis/metrics/first_calls.py",
        "    if builds(row):\n",
        "    if True:\n",
        (f"{METRICS}::test_break_even_counts_the_first_call_of_modes_that_build_something",),
    ),
    Fault(
        "two rows that differ in an option look the same",
        "analysis/format/phrases.py",
        'if row["apart"] else str(row["mode"])',
        'if False else str(row["mode"])',
        ("tests/analysis/rows/test_identity.py::test_all_lines_of_a_table_differ",),
    ),
    Fault(
        "text without quotes is taken for a column",
        "analysis/filters/selection.py",
        "        quotes.check(tree, quotes.Scope(kinds, expression, source))\n",
        "",
        (f"{SELECTION}::test_text_without_quotes_is_an_error_with_a_suggestion",),
    ),
    Fault(
        "an unknown flag in --where is not noted",
        "analysis/filters/reading.py",
        'self._note(column, f"no row has {absent}", one.data)',
        "pass",
        (f"{SELECTION}::test_a_name_or_a_value_that_no_row_has_is_noted",),
    ),
    Fault(
        "a smoke run gets a verdict",
        "analysis/metrics/formulas.py",
        "None if rank == 0 else stats.verdict",
        "stats.verdict",
        (f"{METRICS}::test_smoke_rows_have_values_but_no_verdict",),
    ),
    Fault(
        "milliseconds printed for microseconds",
        "analysis/format/numbers.py",
        '(1e-6, "µs")',
        '(1e-6, "ms")',
        ("tests/analysis/format/test_numbers.py",),
    ),
)
