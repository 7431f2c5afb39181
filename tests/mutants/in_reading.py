"""Faults in reading studies, and in recommendations."""

from __future__ import annotations

from tests.mutants.fault import Fault

DECISIONS = "tests/analysis/recommend/test_decide.py"
MERGING = "tests/analysis/recommend/test_merge_sizes.py"
COMPACTING = "tests/analysis/compact/test_compaction.py"
CACHE = "tests/analysis/load/test_cache.py"
LOADING = "tests/analysis/load/test_files.py"
RECOMMENDING = "analysis/recommend"
MODE_RATIOS = "tests/analysis/metrics/test_mode_ratios.py"
AGAINST = "tests/analysis/metrics/test_against.py"
THREAD_GAIN = "tests/analysis/metrics/test_thread_gain.py"

READ = (
    Fault(
        "two modes compared as if processes of the same code did not differ",
        "analysis/metrics/mode_ratios.py",
        "return intervals.product(worst_case, _WIDENING)",
        "return worst_case",
        (
            f"{MODE_RATIOS}::test_single_processes_have_the_worst_case_widened_by_the_spread_between_"
            "them",
        ),
    ),
    Fault(
        "two processes are enough for an interval over processes",
        "analysis/metrics/mode_ratios.py",
        "processes(row, other) < LEAST_PROCESSES",
        "processes(row, other) < 2",
        (f"{MODE_RATIOS}::test_too_few_processes_on_either_side_are_widened",),
    ),
    Fault(
        "processes without a speedup count",
        "analysis/metrics/replicates.py",
        'list(map(len, known["_ratio"]))',
        "good",
        (f"{MODE_RATIOS}::test_processes_without_a_speedup_do_not_count",),
    ),
    Fault(
        "an interval over processes of which one has none",
        "analysis/metrics/mode_ratios.py",
        "worst_case if without_interval else _over_processes(row, other)",
        "_over_processes(row, other)",
        (f"{MODE_RATIOS}::test_a_process_without_an_interval_leaves_the_ratio_without_one",),
    ),
    Fault(
        "a ratio to the baseline of a smoke run",
        "analysis/metrics/mode_ratios.py",
        "if phrases.is_smoke(row) or phrases.is_smoke(other):",
        "if False:",
        (f"{MODE_RATIOS}::test_a_smoke_run_has_no_ratio_even_of_the_baseline",),
    ),
    Fault(
        "the faster of two modes is the slower one",
        "analysis/metrics/mode_ratios.py",
        "welch.total(_mean(row), welch.negative(_mean(other)))",
        "welch.total(_mean(other), welch.negative(_mean(row)))",
        (f"{MODE_RATIOS}::test_three_processes_of_both_have_welchs_interval",),
    ),
    Fault(
        "the noise of the baseline's own run enters ratios to it",
        "analysis/metrics/mode_ratios.py",
        "        return one\n",
        "        return intervals.quotient(one, two)\n",
        (f"{MODE_RATIOS}::test_ratios_with_the_baseline_are_paired",),
    ),
    Fault(
        "compared with the mode at another precision than the baseline's",
        "analysis/metrics/against.py",
        'if each["dtype"] == row["baseline_dtype"]',
        'if each["dtype"] != row["baseline_dtype"]',
        (f"{AGAINST}::test_without_a_precision_it_is_that_of_the_baseline",),
    ),
    Fault(
        "a first call that pays against that of the baseline, not of the other mode",
        "analysis/metrics/against.py",
        ".assign(baseline_first_call_s=first_s)",
        ".assign()",
        (f"{AGAINST}::test_the_first_call_pays_against_that_of_the_other_mode",),
    ),
    Fault(
        "the gain of further threads is over the most",
        "analysis/metrics/thread_gain.py",
        "_, fewest = min(",
        "_, fewest = max(",
        (f"{THREAD_GAIN}::test_the_gain_is_over_the_fewest_threads",),
    ),
    Fault(
        "the gain of further threads is upside down",
        "analysis/metrics/thread_gain.py",
        "intervals.of_clock(fewest, clock), intervals.of_clock(row, clock)",
        "intervals.of_clock(row, clock), intervals.of_clock(fewest, clock)",
        (f"{THREAD_GAIN}::test_the_gain_is_over_the_fewest_threads",),
    ),
    Fault(
        "threads gain over the fewest of each mode, whatever the title says",
        "analysis/metrics/thread_gain.py",
        "least = self.counts[0]",
        "least = line.sizes[0]",
        (f"{THREAD_GAIN}::test_gains_of_a_series_are_over_its_fewest_threads",),
    ),
    Fault(
        "what threads gain by another clock than their latencies",
        "analysis/metrics/thread_gain.py",
        "gain(row, fewest, self.clock)",
        "gain(row, fewest, equal_pace.clock(row, fewest))",
        (f"{THREAD_GAIN}::test_a_series_has_one_clock",),
    ),
    Fault(
        "what threads gain beside other programs",
        "analysis/metrics/thread_gain.py",
        "if not equal_pace.is_comparable(row, fewest):",
        "if False:",
        (f"{THREAD_GAIN}::test_beside_other_programs_there_is_no_gain",),
    ),
    Fault(
        "recommended by the middle of its interval",
        f"{RECOMMENDING}/choose.py",
        "if low(option.gain) > least_gain",
        "if option.gain.value > least_gain",
        (f"{DECISIONS}::test_each_decision_by_hand",),
    ),
    Fault(
        "a gain within the noise floor is recommended",
        f"{RECOMMENDING}/ends.py",
        "return max(1 + MARGIN, high(floor), 1 / low(floor))",
        "return 1 + MARGIN",
        (f"{DECISIONS}::test_each_decision_by_hand",),
    ),
    Fault(
        "the most expensive of tied modes is recommended",
        f"{RECOMMENDING}/ties.py",
        "most = max(min(known) * factor",
        "most = max(max(known) * factor",
        (f"{DECISIONS}::test_each_decision_by_hand",),
    ),
    Fault(
        "a first call that costs nothing",
        f"{RECOMMENDING}/amortized.py",
        "total / (spent_s + ",
        "total / (baseline_first_s + ",
        (f"{DECISIONS}::test_each_decision_by_hand",),
    ),
    Fault(
        "a first call that needs no memory",
        f"{RECOMMENDING}/exclusions.py",
        '(float(sum(first)), "the first call")',
        '(0.0, "the first call")',
        (f"{DECISIONS}::test_each_decision_by_hand",),
    ),
    Fault(
        "a mode of unknown error is recommended",
        f"{RECOMMENDING}/exclusions.py",
        'return row["error"] is None and not phrases.unchecked(row)',
        "return False",
        (f"{DECISIONS}::test_each_decision_by_hand",),
    ),
    Fault(
        "sizes with different answers in one span",
        f"{RECOMMENDING}/merge_sizes.py",
        "return one.outcome, mode, bool(unchecked)",
        "return one.outcome, bool(unchecked)",
        (MERGING,),
    ),
    Fault(
        "a file that changed is not read again",
        "analysis/load/study.py",
        "[key in now for key in keys]",
        "[key[0] in {name for name, *_ in now} for key in keys]",
        (f"{CACHE}::test_changed_files_are_read_again",),
    ),
    Fault(
        "a cache of another reader is used",
        "analysis/load/cache.py",
        '"reader": reader()',
        '"reader": ""',
        (f"{CACHE}::test_a_cache_of_another_reader_is_ignored",),
    ),
    Fault(
        "a damaged cache is used",
        "analysis/load/cache.py",
        '"content": digest}',
        '"content": ""}',
        (f"{CACHE}::test_an_invalid_cache_is_ignored",),
    ),
    Fault(
        "a damaged Parquet page is used",
        "analysis/load/files.py",
        "page_checksum_verification=True",
        "page_checksum_verification=False",
        (f"{LOADING}::test_invalid_files_are_skipped_with_a_warning",),
    ),
    Fault(
        "a copy of a run counts as another run",
        "analysis/load/merge.py",
        "if len(names) > 1:",
        "if not names:",
        (f"{LOADING}::test_of_copies_the_file_named_after_the_run_is_read",),
    ),
    Fault(
        "a run in a file and in a part counts twice",
        "analysis/load/merge.py",
        "if again.any():",
        "if not len(again):",
        (f"{COMPACTING}::test_a_run_in_a_file_and_in_a_part_counts_once",),
    ),
    Fault(
        "a file is removed although the part holds another row of its run",
        "analysis/compact/compaction.py",
        "for name in same]",
        "for name in same | differing]",
        (f"{COMPACTING}::test_a_copy_is_removed_only_if_it_is_equal",),
    ),
    Fault(
        "rows of two schema versions in one part",
        "analysis/compact/loose.py",
        " and _footer(table) == footer",
        "",
        (f"{COMPACTING}::test_rows_of_other_schemas_are_kept_as_they_were_written",),
    ),
    Fault(
        "--where reads rows without those that they are compared with",
        "analysis/load/keys.py",
        "for groups in (family, case):",
        "for groups in (case,):",
        ("tests/analysis/test_works.py::test_the_rows_are_those_of_the_whole_study",),
    ),
    Fault(
        "the fastest pace of the rows that --where reads",
        "analysis/metrics/formulas.py",
        'if "_environment_pace_s" in rows:',
        'if "_environment_pace_s" in rows and rows.empty:',
        ("tests/analysis/test_works.py::test_the_rows_are_those_of_the_whole_study",),
    ),
)
