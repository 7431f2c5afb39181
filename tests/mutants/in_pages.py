"""Faults in the pages of a report and in its figures."""

from __future__ import annotations

from tests.mutants.fault import Fault

REPORT = "tests/analysis/report/test_report.py"
CANVAS = "tests/analysis/figures/draw/test_canvas.py"
GRIDS = "tests/analysis/metrics/test_speedup_grid.py"
HEATMAP = "tests/analysis/figures/test_heatmap.py"
FACTS = "tests/analysis/report/test_certainty.py"
WHY_LINES = "tests/analysis/report/test_why_lines.py"

PAGES = (
    Fault(
        "the first call as the reason for slow calls",
        "analysis/report/why_lines.py",
        "if is_loser(row) and not (found and found[0].kind in EXPLAINING):",
        "if is_loser(row) and not found:",
        (f"{WHY_LINES}::test_the_first_call_is_no_reason_for_slow_calls",),
    ),
    Fault(
        "a mode that is not in effect is called slow",
        "analysis/report/why_lines.py",
        "return is_loser(row) and not phrases.not_in_effect(row)",
        "return is_loser(row)",
        (f"{WHY_LINES}::test_a_slow_mode_that_is_not_in_effect_is_no_loser",),
    ),
    Fault(
        "undecided ratios of two modes in bold",
        "analysis/report/ratios.py",
        "verdict(found) in _DECIDED",
        "verdict(found) is not None",
        ("tests/analysis/report/test_ratios.py::test_both_pages_mark_what_is_decided",),
    ),
    Fault(
        "user text is not escaped in HTML",
        "bench/text/markup.py",
        "_engine(packages, autoescape=True)",
        "_engine(packages, autoescape=False)",
        (f"{REPORT}::test_a_script_in_a_name_is_text",),
    ),
    Fault(
        "user text ends a cell of a Markdown table",
        "bench/text/markup.py",
        "return _SPECIAL.sub(",
        "return html.escape(text) or _SPECIAL.sub(",
        (f"{REPORT}::test_a_script_in_a_name_is_text",),
    ),
    Fault(
        "a link to a row that is not on the page",
        "analysis/report/study.py",
        'if row["run_id"] in self._listed_ids else None',
        "",
        (f"{REPORT}::test_a_large_study_lists_the_best_of_each_work_and_says_how_to_see_the_rest",),
    ),
    Fault(
        "omitted figures are not counted",
        "analysis/report/figures.py",
        "    if silent:\n",
        "    if False:\n",
        (f"{REPORT}::test_sizes_that_are_not_drawn_are_told_too",),
    ),
    Fault(
        "only the first process of a case is linked",
        "analysis/report/runs.py",
        'str(row["process_run_ids"]).split(";")',
        '[row["run_id"]]',
        (f"{REPORT}::test_every_process_of_a_case_is_linked",),
    ),
    Fault(
        "the narrowest noise floor of several sizes",
        "analysis/report/certainty.py",
        "[{min(lows):.3f}",
        "[{max(lows):.3f}",
        (f"{FACTS}::test_the_noise_floor_is_the_widest_of_all_sizes",),
    ),
    Fault(
        "a heatmap upside down",
        "analysis/figures/heatmap.py",
        "0.5 + 0.5 * _strength",
        "0.5 - 0.5 * _strength",
        (f"{HEATMAP}::test_twice_and_half_as_fast_have_equally_strong_colours",),
    ),
    Fault(
        "a cold and a warm cache in one row of a heatmap",
        "analysis/metrics/speedup_grid.py",
        'caches = len({row["compile_cache"] for row in rows}) > 1',
        "caches = False",
        (f"{GRIDS}::test_precisions_and_caches_are_never_mixed",),
    ),
    Fault(
        "numbers written over names",
        "analysis/figures/draw/canvas.py",
        "lines = 2 if any(",
        "lines = 1 if any(",
        (CANVAS,),
    ),
    Fault(
        "one figure's patterns in another",
        "analysis/figures/draw/canvas.py",
        'style.RC | {"svg.hashsalt": name}',
        "style.RC",
        (CANVAS,),
    ),
)
