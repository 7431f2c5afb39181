"""Faults in training steps, in their checks and in statements about them."""

from __future__ import annotations

from tests.mutants.fault import Fault

STEPS = "tests/bench/steps/training/test_trainer.py"
EXAM = "tests/bench/steps/training/test_training_check.py"
OVERFLOW = "tests/bench/steps/training/test_overflow.py"
MEMORY = "tests/bench/case/test_training_memory.py"
RUNS = "tests/bench/case/test_training_runs.py"

TRAINING = (
    Fault(
        "gradients of the step before not dropped",
        "bench/steps/training/trainer.py",
        "        self.clear()\n",
        "",
        (f"{STEPS}::test_a_step_equals_a_hand_written_training_step",),
    ),
    Fault(
        "scaler's step replaced by the optimizer's",
        "bench/steps/training/trainer.py",
        "            self.scaler.step(self.optimizer)\n",
        "            self.scaler.unscale_(self.optimizer)\n            self.optimizer.step()\n",
        (f"{OVERFLOW}::test_an_overflowing_step_is_skipped_and_leaves_no_trace",),
    ),
    Fault(
        "scale of the loss not settled",
        "bench/steps/built_step.py",
        "            self.state.settle(self.step)\n",
        "            pass\n",
        (f"{OVERFLOW}::test_the_record_has_the_result_of_the_overflow_check",),
    ),
    Fault(
        "buffers change while the scale is settled",
        "bench/steps/built_step.py",
        "        with self.kept():\n            self.state.settle",
        "        if True:\n            self.state.settle",
        (f"{RUNS}::test_a_run_restores_parameters_and_optimizer_state",),
    ),
    Fault(
        "blocks of steps continue from the block before",
        "bench/case/paired_timing.py",
        "            each.built.state.restore()\n",
        "            pass\n",
        (f"{STEPS}::test_every_block_trains_from_the_start_in_memory_placed_anew",),
    ),
    Fault(
        "the optimizer's state not restored",
        "bench/steps/training/trainer.py",
        "                tensor.zero_()\n",
        "                pass\n",
        (f"{STEPS}::test_restored_training_is_the_same_again",),
    ),
    Fault(
        "gradients of a captured step forgotten",
        "bench/steps/training/phase.py",
        "        trained.note_capture()\n",
        "",
        (f"{EXAM}::test_a_replay_is_right_after_a_live_call",),
    ),
    Fault(
        "the model itself is graphed",
        "bench/steps/modes.py",
        "device.graphed(_Around(target, variant, device.type), ",
        "device.graphed(target, ",
        (f"{STEPS}::test_forward_and_backward_can_be_graphed_without_the_optimizer",),
    ),
    Fault(
        "first call includes the harness's own copies",
        "bench/case/first_call.py",
        "        start = device.clock()\n",
        "        start = device.clock()\n        first = phase.start(own.module)\n",
        (f"{RUNS}::test_the_first_call_includes_the_step_only",),
    ),
    Fault(
        "activations not recomputed",
        "bench/steps/training/phase.py",
        "recomputing(subject.module, subject.random)",
        "subject.module",
        (f"{MEMORY}::test_a_timed_variant_recomputes_as_configured",),
    ),
    Fault(
        "the compiler's budget for activations not set",
        "bench/steps/training/phase.py",
        "            torch._functorch.config.activation_memory_budget = budget\n",
        "            pass\n",
        (
            "tests/bench/steps/training/test_compiled.py::test_a_small_budget_for_activations_keeps_fewer",
        ),
    ),
    Fault(
        "errors of updates relative to whole weights",
        "bench/steps/training/reference.py",
        "scale.of_weight * self.weight",
        "self.weight",
        (f"{EXAM}::test_a_step_with_a_fault_is_found",),
    ),
    Fault(
        "errors of tiny gradients relative to themselves",
        "bench/steps/training/reference.py",
        "scale.share * self.typical, ",
        "",
        (f"{EXAM}::test_eager_passes_the_training_check",),
    ),
    Fault(
        "updates of adamw count where gradients are unclear",
        "bench/steps/training/reference.py",
        "difference, value = difference[clear], value[clear]",
        "pass",
        (f"{EXAM}::test_eager_passes_the_training_check",),
    ),
    Fault(
        "only the first step examined",
        "bench/steps/training/training_check.py",
        "STEPS = 3\n",
        "STEPS = 1\n",
        (f"{EXAM}::test_a_step_with_a_fault_is_found",),
    ),
    Fault(
        "the same batch for every step of a check",
        "bench/steps/training/training_check.py",
        "            built.subject.inputs.assign(fresh)\n",
        "",
        (f"{EXAM}::test_sgd_in_float64_by_hand",),
    ),
    Fault(
        "targets not redrawn",
        "bench/steps/subject.py",
        "(function, (self.args, self.kwargs, self.targets)))",
        "(function, (self.args, self.kwargs)), self.targets)",
        (f"{EXAM}::test_each_step_has_its_own_batch",),
    ),
    Fault(
        "an overflow not planted",
        "bench/steps/training/training_check.py",
        "        if trainer.scaler is None:\n",
        "        if True:\n",
        (f"{OVERFLOW}::test_a_scaler_that_applies_an_overflow_is_a_wrong_result",),
    ),
    Fault(
        "a loss scale that stays after an overflow accepted",
        "bench/steps/training/overflow.py",
        "lowered < scale and ",
        "",
        (f"{OVERFLOW}::test_a_faulty_scaler_is_found",),
    ),
    Fault(
        "an empty batch dispatched in training",
        "bench/case/clocks.py",
        "    if reason := phase_of(case.options).no_dispatch:\n",
        "    if reason := None:\n",
        (f"{RUNS}::test_an_ok_result_is_complete",),
    ),
    Fault(
        "the harness's copies counted as the mode's memory",
        "bench/case/memory.py",
        "        resident -= state.copies_bytes() + ",
        "        resident -= ",
        (f"{MEMORY}::test_only_model_and_training_state_are_in_memory",),
    ),
    Fault(
        "backward counted as forward",
        "bench/steps/training/trainer.py",
        '("backward_rounds_s", lambda loss: loss.backward())',
        '("forward_rounds_s", lambda loss: loss.backward())',
        ("tests/bench/case/test_step_parts.py::test_the_device_is_synchronised_after_every_part",),
    ),
    Fault(
        "attention's backward costs what its forward does",
        "bench/case/roofline/counting.py",
        "sdpa_backward_flop_count(grad, q, k, v)",
        "sdpa_flop_count(q, k, v)",
        ("tests/bench/case/roofline/test_training_work.py::test_a_transformer_block",),
    ),
)
