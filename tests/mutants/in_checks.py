"""Faults in whether a result is right, and whose result it is."""

from __future__ import annotations

from tests.mutants.fault import Fault

RUNNER = "tests/bench/test_runner.py"

CORRECTNESS = (
    Fault(
        "output check skipped",
        "bench/runner.py",
        "    _judge(findings, case, accepted)\n",
        "",
        (f"{RUNNER}::test_a_replay_that_ignores_its_inputs_is_a_wrong_result",),
    ),
    Fault(
        "output check on another callable than the timed one",
        "bench/examination.py",
        "accuracy.examine(exam, built.subject, built.step)",
        "accuracy.examine(exam, built.subject, built.live)",
        (f"{RUNNER}::test_a_replay_that_ignores_its_inputs_is_a_wrong_result",),
    ),
    Fault(
        "output check before timing only",
        "bench/runner.py",
        '    progress("check again")\n'
        "    findings = _check(exam, candidate, case, findings, accepted)\n",
        "",
        (f"{RUNNER}::test_a_result_that_turns_wrong_while_it_is_timed_is_noticed",),
    ),
    Fault(
        "only one fresh input examined",
        "bench/accuracy.py",
        "FRESH_INPUTS = 2\n",
        "FRESH_INPUTS = 1\n",
        ("tests/bench/test_accuracy.py::test_a_replay_that_ignores_its_inputs_is_caught",),
    ),
    Fault(
        "an error that is not a number passes",
        "bench/runner.py",
        "    if not error <= accepted:\n",
        "    if error > accepted:\n",
        (f"{RUNNER}::test_a_result_that_is_not_a_number_is_a_wrong_result",),
    ),
    Fault(
        "nan lost in a maximum of errors",
        "bench/accuracy.py",
        "key=lambda each: each[:2]",
        "key=lambda each: each[1]",
        (
            "tests/bench/test_accuracy.py::test_nan_in_any_output_is_kept",
            "tests/bench/test_accuracy.py::test_an_error_on_any_fresh_input_counts",
        ),
    ),
    Fault(
        "case and baseline share their weights",
        "bench/subject.py",
        "copy.deepcopy(self.module)._apply",
        "self.module._apply",
        (f"{RUNNER}::test_case_and_baseline_share_nothing",),
    ),
    Fault(
        "baseline given the case's step",
        "bench/race.py",
        "steps[1] if len(steps) > 1 else None",
        "steps[0] if len(steps) > 1 else None",
        (f"{RUNNER}::test_what_is_timed_is_what_was_examined",),
    ),
)
