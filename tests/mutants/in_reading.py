"""Faults in what is read of a study, and in what is recommended from it."""

from __future__ import annotations

from tests.mutants.fault import Fault

DECISIONS = "tests/analysis/recommending/test_decide.py"
FOLDING = "tests/analysis/recommending/test_folding.py"
CACHE = "tests/analysis/test_cache.py"
LOADING = "tests/analysis/test_load.py"
RECOMMENDING = "analysis/recommending"

READ = (
    Fault(
        "recommended by the middle of its interval",
        f"{RECOMMENDING}/choosing.py",
        "if low(option.gain) > least_gain",
        "if option.gain.value > least_gain",
        (f"{DECISIONS}::test_decisions",),
    ),
    Fault(
        "a gain that the baseline has over itself",
        f"{RECOMMENDING}/ends.py",
        "return max(1 + MARGIN, high(floor), 1 / low(floor))",
        "return 1 + MARGIN",
        (f"{DECISIONS}::test_decisions",),
    ),
    Fault(
        "the dearest of those that are tied",
        f"{RECOMMENDING}/ties.py",
        "most = max(min(known) * factor",
        "most = max(max(known) * factor",
        (f"{DECISIONS}::test_decisions",),
    ),
    Fault(
        "a first call that costs nothing",
        f"{RECOMMENDING}/gains.py",
        "total / (spent_s + ",
        "total / (baseline_first_s + ",
        (f"{DECISIONS}::test_decisions",),
    ),
    Fault(
        "a first call that needs no memory",
        f"{RECOMMENDING}/refusals.py",
        '(float(sum(first)), "the first call")',
        '(0.0, "the first call")',
        (f"{DECISIONS}::test_decisions",),
    ),
    Fault(
        "an error that nobody knows is recommended",
        f"{RECOMMENDING}/refusals.py",
        'lambda row: row["error"] is None',
        "lambda row: False",
        (f"{DECISIONS}::test_decisions",),
    ),
    Fault(
        "sizes in a span that have not the same answer",
        f"{RECOMMENDING}/folding.py",
        "return one.outcome, mode, one.baseline_fits",
        "return one.outcome, one.baseline_fits",
        (FOLDING,),
    ),
    Fault(
        "a file that changed is not read again",
        "analysis/study.py",
        "[key in now for key in keys]",
        "[key[0] in {name for name, *_ in now} for key in keys]",
        (f"{CACHE}::test_what_changed_is_read_again",),
    ),
    Fault(
        "what other code kept is believed",
        "analysis/cache.py",
        '"reader": reader()',
        '"reader": ""',
        (f"{CACHE}::test_another_reader_believes_nothing",),
    ),
    Fault(
        "a damaged cache is believed",
        "analysis/cache.py",
        '"content": digest}',
        '"content": ""}',
        (f"{CACHE}::test_a_spoiled_cache_is_as_good_as_none",),
    ),
    Fault(
        "a damaged page is believed",
        "analysis/files.py",
        "page_checksum_verification=True",
        "page_checksum_verification=False",
        (f"{LOADING}::test_a_file_that_is_not_a_run_is_named_once_and_left_out",),
    ),
    Fault(
        "a copy of a run counts as another run",
        "analysis/load.py",
        "if len(names) > 1:",
        "if not names:",
        (f"{LOADING}::test_of_copies_the_file_named_after_its_run_is_the_run",),
    ),
)
