"""Faults in the checks of results."""

from __future__ import annotations

from tests.mutants.fault import Fault

RUNNER = "tests/bench/case/test_runner.py"
PLANTED = "tests/bench/case/correctness/test_planted.py"
DRAWS = "tests/bench/steps/correctness/test_draws.py"
SHIFTS = "tests/bench/case/correctness/test_randomness.py"
CACHE = "tests/bench/case/correctness/test_planted_cache.py"
OUTPUTS = "tests/bench/steps/correctness/test_output_check.py"
PLAIN = "tests/bench/steps/test_plain_call.py"
BUFFERS = "tests/bench/steps/correctness/test_written_buffers.py"

CORRECTNESS = (
    Fault(
        "output check skipped",
        "bench/case/correctness/exact.py",
        "        if not self._accepted(found):\n",
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
        '    progress("check again")\n    findings = judge.judge(candidate.built, findings)\n',
        "",
        (f"{RUNNER}::test_a_result_that_turns_wrong_while_timed_is_a_wrong_result",),
    ),
    Fault(
        "only one fresh input examined",
        "bench/steps/correctness/output_check.py",
        "FRESH_INPUTS = 2\n",
        "FRESH_INPUTS = 1\n",
        (f"{OUTPUTS}::test_a_replay_that_ignores_its_inputs_is_caught",),
    ),
    Fault(
        "an error that is not a number passes",
        "bench/steps/check.py",
        "return found.error <= self.error and",
        "return not found.error > self.error and",
        (f"{RUNNER}::test_a_result_that_is_not_a_number_is_a_wrong_result",),
    ),
    Fault(
        "nan lost in a maximum of errors",
        "bench/steps/check.py",
        "key=lambda each: each[:2]",
        "key=lambda each: each[1]",
        (
            f"{OUTPUTS}::test_nan_in_any_output_is_the_error",
            f"{OUTPUTS}::test_the_error_is_the_worst_over_fresh_inputs",
        ),
    ),
    Fault(
        "case and baseline share their weights",
        "bench/steps/subject.py",
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
    Fault(
        "the factor of gradients not compared",
        "bench/steps/check.py",
        " and self.worst_scale(found).share <= 1",
        "",
        (f"{PLANTED}::test_a_gradient_off_by_two_percent_is_told_from_such_a_relu",),
    ),
    Fault(
        "eager's error the only limit",
        "bench/case/correctness/exact.py",
        "if not (self._accepted(found) or known):",
        "if False:",
        ("tests/bench/case/correctness/test_exact.py::test_rounding_explains_what_eager_does_not",),
    ),
    Fault(
        "eager's errors not explained by rounding",
        "bench/case/correctness/exact.py",
        "    if eager and not eager_is_sane(eager.error, variant.dtype):\n",
        "    if False:\n",
        (f"{PLANTED}::test_a_relu_that_rounding_switches_off_is_no_fault",),
    ),
    Fault(
        "sums perturbed as single results",
        "bench/steps/correctness/rounding.py",
        'EPS["fp32"] * (math.sqrt(summed) - 1)',
        "0.0",
        (
            "tests/bench/steps/correctness/test_rounding.py::test_a_sum_is_perturbed_by_the_root_of_its_length",
        ),
    ),
    Fault(
        "a batch norm perturbed as one operator",
        "bench/steps/correctness/rounding.py",
        "        if func in DECOMPOSED:\n",
        "        if False:\n",
        (
            "tests/bench/steps/correctness/test_rounding.py::test_the_sums_inside_a_batch_norm_are_perturbed_too",
        ),
    ),
    Fault(
        "a mode without randomness accepted",
        "bench/case/correctness/randomness.py",
        "if differs(seen) and differs(seen, self._shift_by_rounding(usual)):",
        "if False:",
        (f"{PLANTED}::test_a_fault_is_found[recurrent-dropout that does not drop-0]",),
    ),
    Fault(
        "another mean of random results accepted",
        "bench/steps/correctness/draws.py",
        "2 * min(by_spread, by_shift)",
        "2 * by_spread",
        (f"{DRAWS}::test_other_randomness_is_found",),
    ),
    Fault(
        "another spread of random results accepted",
        "bench/steps/correctness/draws.py",
        "2 * min(by_spread, by_shift)",
        "2 * by_shift",
        (f"{DRAWS}::test_other_randomness_is_found",),
    ),
    Fault(
        "a shift of means that rounding causes taken for a fault",
        "bench/case/correctness/randomness.py",
        "max(LEAST_SHIFT, by_rounding)",
        "LEAST_SHIFT",
        (f"{SHIFTS}::test_a_shift_that_rounding_alone_causes_is_no_fault",),
    ),
    Fault(
        "rounding explains any shift of means",
        "bench/case/correctness/randomness.py",
        "return ROUNDING_SHIFT * seen.shift if seen.p_value <= DOUBT else 0.0",
        'return float("inf")',
        (f"{SHIFTS}::test_a_larger_shift_than_rounding_causes_is_a_fault",),
    ),
    Fault(
        "no check on a copy without randomness",
        "bench/case/correctness/randomness.py",
        "        return without_randomness\n",
        "        return None\n",
        (f"{PLANTED}::test_a_fault_is_found[recurrent-backward-0]",),
    ),
    Fault(
        "the copy without randomness runs in eager",
        "bench/case/correctness/randomness.py",
        "enter(subject, case.variant, case",
        "enter(subject, replace(case.variant, mode=case.variant.mode.in_eager()), case",
        (f"{PLANTED}::test_a_forward_that_is_wrong_only_when_compiled_is_found",),
    ),
    Fault(
        "a batch norm in eval() in the copy without randomness",
        "bench/steps/correctness/silencing.py",
        "if not isinstance(part, (_NormBase, nn.RNNBase)):",
        "if True:",
        (
            "tests/bench/steps/correctness/test_silencing.py::test_norms_and_recurrent_networks_go_on_training",
        ),
    ),
    Fault(
        "what could not be checked counts as checked",
        "bench/case/correctness/randomness.py",
        'checked="not", checked_note=messages.NO_SWITCH',
        'checked="without_randomness", checked_note=messages.NO_SWITCH',
        (
            "tests/bench/case/test_training_runs.py::test_randomness_without_a_switch_is_timed_and_not_checked",
        ),
    ),
    Fault(
        "what a call writes into buffers not compared",
        "bench/steps/correctness/output_check.py",
        "            **written_buffers.errors(self.writes, references.writes),\n",
        "",
        (f"{CACHE}::test_a_fault_is_found[not updated-1]",),
    ),
    Fault(
        "a stale cache accepted",
        "bench/steps/correctness/written_buffers.py",
        "                reference.change[~there],\n",
        "",
        (f"{CACHE}::test_a_fault_is_found[not updated-1]",),
    ),
    Fault(
        "a write to another place accepted",
        "bench/steps/correctness/written_buffers.py",
        "                self.change[~here],\n",
        "",
        (f"{BUFFERS}::test_errors_are_relative_to_what_the_reference_wrote",),
    ),
    Fault(
        "inputs that give no numbers accepted",
        "bench/steps/plain_call.py",
        "        if last or not finite or recipe.finite(plain):\n",
        "        if True:\n",
        (f"{PLAIN}::test_inputs_are_the_freest_that_plain_eager_takes",),
    ),
    Fault(
        "any copy in float64 a reference",
        "bench/steps/plain_call.py",
        "        if jumps or eager_is_sane(error, own):\n",
        "        if True:\n",
        (f"{PLAIN}::test_the_reference_is_the_most_precise_that_computes_what_plain_eager_does",),
    ),
    Fault(
        "state taken for randomness",
        "bench/steps/plain_call.py",
        "depends, is_random = repeats or not drew, drew and not repeats",
        "depends, is_random = False, True",
        (f"{PLAIN}::test_results_that_depend_on_earlier_calls_are_told_from_random_ones",),
    ),
    Fault(
        "a copy that was not called before in place of one that was",
        "bench/steps/plain_call.py",
        "        again = used.results(inputs, seed)\n",
        "        again = recipe.copy(REFERENCES[against]).results(inputs, seed)\n",
        (f"{PLAIN}::test_results_that_depend_on_earlier_calls_are_told_from_random_ones",),
    ),
    Fault(
        "infinities of either sign equal",
        "bench/steps/outputs.py",
        "(result == reference) |",
        "(result.abs() == reference.abs()) |",
        (f"{OUTPUTS}::test_equal_is_equal_even_if_it_is_no_number",),
    ),
    Fault(
        "buffers compared with what the call left there",
        "bench/steps/subject.py",
        "else buffer.clone()",
        "else buffer",
        (f"{BUFFERS}::test_a_write_that_no_output_shows_is_checked",),
    ),
    Fault(
        "buffers not restored before the second call of a check",
        "bench/steps/subject.py",
        "                    buffer.copy_(value)  # in place",
        "                    pass  # in place",
        (f"{OUTPUTS}::test_a_counter_is_restored_after_every_call",),
    ),
)
