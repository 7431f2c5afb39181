"""Faults in what is said about rounds: statistics, which rows count, words."""

from __future__ import annotations

from tests.mutants.fault import Fault

STATISTICS = "tests/bench/test_stats.py"
PROCESSES = "tests/analysis/test_replicates.py"
METRICS = "tests/analysis/test_metrics.py"
SELECTION = "tests/analysis/filters/test_selection.py"
ROWS = "tests/analysis/test_rows.py"

STATED = (
    Fault(
        "mean instead of median over rounds",
        "bench/stats.py",
        "float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2",
        "float(np.mean(ordered))",
        (STATISTICS,),
    ),
    Fault(
        "interval one rank too narrow",
        "bench/stats.py",
        "float(ordered[k - 1]), float(ordered[n - k])",
        "float(ordered[k]), float(ordered[n - k - 1])",
        (STATISTICS,),
    ),
    Fault(
        "speedup upside down",
        "bench/stats.py",
        "np.log(baseline / case)",
        "np.log(case / baseline)",
        (STATISTICS,),
    ),
    Fault(
        "margin of a verdict ignored",
        "bench/stats.py",
        "upper = 1 + margin",
        "upper = 1.0",
        (STATISTICS,),
    ),
    Fault(
        "detectable change of zero where there is no interval",
        "bench/stats.py",
        "None if half_width is None else math.expm1",
        "0.0 if half_width is None else math.expm1",
        (STATISTICS,),
    ),
    Fault(
        "interval from single calls instead of rounds",
        "analysis/answers.py",
        '_median_of("latency_rounds_s")',
        '_median_of("latency_calls_s")',
        (f"{METRICS}::test_latency_and_its_order_statistic_interval",),
    ),
    Fault(
        "the first of several processes speaks for all",
        "analysis/replicates.py",
        "stats.combine(estimates)",
        "stats.combine(estimates[:1])",
        (f"{PROCESSES}::test_three_processes_have_the_interval_between_them",),
    ),
    Fault(
        "a wrong result keeps its speedup",
        "analysis/answers.py",
        'ok = run["status"] == "ok"',
        'ok = run["status"] in ("ok", "wrong_result")',
        (f"{METRICS}::test_only_ok_rows_get_figures",),
    ),
    Fault(
        "a mode that was not in effect is recommended",
        "analysis/rows.py",
        '(rows["in_effect"].eq(True))',
        '(rows["in_effect"].notna())',
        (f"{ROWS}::test_only_runs_that_count_are_trusted",),
    ),
    Fault(
        "a failed run hidden by an older one that went well",
        "analysis/rows.py",
        'runs.drop_duplicates(process, keep="last")',
        'runs.drop_duplicates(process, keep="first")',
        (f"{ROWS}::test_the_newest_run_counts_even_if_it_failed",),
    ),
    Fault(
        "a gain that may be none pays back the first call",
        "analysis/formulas.py",
        'gains = rows["speedup_ci_low"] > 1',
        'gains = rows["speedup"] > 1',
        (f"{METRICS}::test_break_even",),
    ),
    Fault(
        "the chance of one reading has to be paid back",
        "analysis/first_calls.py",
        "    if builds(row):\n",
        "    if True:\n",
        (f"{METRICS}::test_break_even_counts_what_is_built_and_not_the_chance_of_one_reading",),
    ),
    Fault(
        "two rows that differ in an option look the same",
        "analysis/words.py",
        'if row["apart"] else str(row["mode"])',
        'if False else str(row["mode"])',
        ("tests/analysis/test_identity.py::test_no_two_lines_of_a_table_are_the_same",),
    ),
    Fault(
        "text without quotes is taken for a column",
        "analysis/filters/selection.py",
        "        quotes.check(tree, quotes.Scope(kinds, expression, source))\n",
        "",
        (f"{SELECTION}::test_text_without_quotes_is_an_error_with_what_was_meant",),
    ),
    Fault(
        "no row has that flag, and nothing says so",
        "analysis/filters/reading.py",
        'self._note(column, f"no row has {absent}", one.data)',
        "pass",
        (f"{SELECTION}::test_a_name_or_a_value_that_no_row_has_is_noted",),
    ),
    Fault(
        "a smoke run gets a verdict",
        "analysis/formulas.py",
        "None if rank == 0 else stats.verdict",
        "stats.verdict",
        (f"{METRICS}::test_smoke_rows_get_figures_but_no_verdict",),
    ),
    Fault(
        "milliseconds printed for microseconds",
        "analysis/numbers.py",
        '(1e-6, "µs")',
        '(1e-6, "ms")',
        ("tests/analysis/test_numbers.py",),
    ),
)
