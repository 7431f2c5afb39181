"""Faults in the checks of results."""

from __future__ import annotations

from tests.mutants.fault import Fault

RUNNER = "tests/bench/case/test_runner.py"

CORRECTNESS = (
    Fault(
        "output check skipped",
        "bench/case/judge_correctness.py",
        "        if not error <= accepted:\n",
        "        if False:\n",
        (f"{RUNNER}::test_a_replay_that_ignores_its_inputs_is_a_wrong_result",),
    ),
    Fault(
        "output check on another callable than the timed one",
        "bench/steps/correctness/output_check.py",
        "deviation(self, built.subject, built.step)",
        "deviation(self, built.subject, built.live)",
        (f"{RUNNER}::test_a_replay_that_ignores_its_inputs_is_a_wrong_result",),
    ),
    Fault(
        "output check before timing only",
        "bench/case/runner.py",
        '    progress("check again")\n    findings = judge.judge(candidate, findings)\n',
        "",
        (f"{RUNNER}::test_a_result_that_turns_wrong_while_timed_is_a_wrong_result",),
    ),
    Fault(
        "only one fresh input examined",
        "bench/steps/correctness/output_check.py",
        "FRESH_INPUTS = 2\n",
        "FRESH_INPUTS = 1\n",
        (
            "tests/bench/steps/correctness/test_output_check.py::test_a_replay_that_ignores_its_inputs_is_caught",
        ),
    ),
    Fault(
        "an error that is not a number passes",
        "bench/case/judge_correctness.py",
        "        if not error <= accepted:\n",
        "        if error > accepted:\n",
        (f"{RUNNER}::test_a_result_that_is_not_a_number_is_a_wrong_result",),
    ),
    Fault(
        "nan lost in a maximum of errors",
        "bench/steps/correctness/output_check.py",
        "key=lambda each: each[:2]",
        "key=lambda each: each[1]",
        (
            "tests/bench/steps/correctness/test_output_check.py::test_nan_in_any_output_is_the_error",
            "tests/bench/steps/correctness/test_output_check.py::test_the_error_is_the_worst_over_fresh_inputs",
        ),
    ),
    Fault(
        "case and baseline share their weights",
        "bench/steps/model_and_inputs.py",
        "copy.deepcopy(self.module)._apply",
        "self.module._apply",
        (f"{RUNNER}::test_case_and_baseline_share_nothing",),
    ),
    Fault(
        "one input in two places copied twice",
        "bench/steps/trees.py",
        "            if id(node) not in done:\n",
        "            if True:\n",
        ("tests/bench/steps/test_trees.py::test_one_tensor_in_two_places_stays_one",),
    ),
    Fault(
        "baseline given the case's step",
        "bench/case/paired_timing.py",
        "baseline.built.step if baseline else None",
        "candidate.built.step if baseline else None",
        (f"{RUNNER}::test_the_timed_step_is_the_checked_step",),
    ),
)
