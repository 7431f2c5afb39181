"""Faults in steps that train, in what judges them and in what is said about them."""

from __future__ import annotations

from tests.mutants.fault import Fault

STEPS = "tests/bench/training/test_trainer.py"
EXAM = "tests/bench/training/test_exam.py"
OVERFLOW = "tests/bench/training/test_overflow.py"
MEMORY = "tests/bench/training/test_memory.py"
RUNS = "tests/bench/training/test_runs.py"

TRAINING = (
    Fault(
        "gradients of the step before not dropped",
        "bench/training/trainer.py",
        "        self.clear()\n",
        "",
        (f"{STEPS}::test_a_step_is_what_a_user_writes",),
    ),
    Fault(
        "scaler's step replaced by the optimizer's",
        "bench/training/trainer.py",
        "            self.scaler.step(self.optimizer)\n",
        "            self.scaler.unscale_(self.optimizer)\n            self.optimizer.step()\n",
        (f"{OVERFLOW}::test_the_step_is_skipped_and_everything_is_as_before",),
    ),
    Fault(
        "scale of the loss not settled",
        "bench/modes.py",
        "                self.trainer.settle_scale(self.step)\n",
        "                pass\n",
        (f"{OVERFLOW}::test_the_record_says_so",),
    ),
    Fault(
        "buffers learn while the scale is settled",
        "bench/modes.py",
        "            with self.kept():\n                self.trainer.settle_scale",
        "            if True:\n                self.trainer.settle_scale",
        (f"{RUNS}::test_everything_ends_as_it_began",),
    ),
    Fault(
        "blocks of steps go on from the block before",
        "bench/race.py",
        "            each.built.restore()\n",
        "            pass\n",
        (f"{STEPS}::test_every_block_trains_from_the_start_in_memory_placed_anew",),
    ),
    Fault(
        "the optimizer's state not restored",
        "bench/training/trainer.py",
        "                tensor.zero_()\n",
        "                pass\n",
        (f"{STEPS}::test_restored_training_is_the_same_again",),
    ),
    Fault(
        "gradients of a captured step forgotten",
        "bench/modes.py",
        "    trained.is_captured()\n",
        "",
        (f"{EXAM}::test_a_live_call_in_between_leaves_a_replay_right",),
    ),
    Fault(
        "the model itself is graphed",
        "bench/modes.py",
        "device.graphed(_Around(model, variant, device.type), subject.inputs.args)",
        "device.graphed(model, subject.inputs.args)",
        (f"{STEPS}::test_forward_and_backward_alone_can_be_graphed",),
    ),
    Fault(
        "first call with the harness's own copies",
        "bench/entrant.py",
        "        start = device.clock()\n",
        "        start = device.clock()\n"
        "        first = start_of(own.module) if case.training else None\n",
        (f"{RUNS}::test_a_first_call_is_the_step_s_alone",),
    ),
    Fault(
        "activations not recomputed",
        "bench/entrant.py",
        "RECOMPUTING[training.checkpoint](own.module)",
        "own.module",
        (f"{MEMORY}::test_an_entrant_recomputes_what_it_is_asked_to",),
    ),
    Fault(
        "the compiler's budget for activations not set",
        "bench/runner.py",
        "        torch._functorch.config.activation_memory_budget = budget\n",
        "        pass\n",
        ("tests/bench/training/test_compiled.py::test_a_small_budget_for_activations_keeps_fewer",),
    ),
    Fault(
        "updates held against whole weights",
        "bench/training/answers.py",
        "by.of_weight * self.weight",
        "self.weight",
        (f"{EXAM}::test_a_step_with_a_fault_is_found",),
    ),
    Fault(
        "gradients of rounding errors held against themselves",
        "bench/training/answers.py",
        "by.share * self.typical, ",
        "",
        (f"{EXAM}::test_eager_learns_rightly",),
    ),
    Fault(
        "updates of adamw count where gradients are unclear",
        "bench/training/answers.py",
        "difference = difference[self.gradients >= by.clear]",
        "pass",
        (f"{EXAM}::test_eager_learns_rightly",),
    ),
    Fault(
        "a fault that comes and goes forgiven, however large",
        "bench/training/exam.py",
        "if not limit < found.error <= jump(variant.dtype):",
        "if not limit < found.error:",
        (f"{EXAM}::test_what_is_wrong_is_wrong_with_other_batches_too",),
    ),
    Fault(
        "only the first step examined",
        "bench/training/exam.py",
        "STEPS = 3\n",
        "STEPS = 1\n",
        (f"{EXAM}::test_a_step_with_a_fault_is_found",),
    ),
    Fault(
        "the same batch for every step of an exam",
        "bench/training/exam.py",
        "            with torch.no_grad():\n                built.subject.inputs.assign(fresh)\n",
        "",
        (f"{EXAM}::test_sgd_in_float64_by_hand",),
    ),
    Fault(
        "targets not redrawn",
        "bench/subject.py",
        "tuple(function(tensor) for tensor in self.targets)",
        "self.targets",
        (f"{EXAM}::test_each_step_has_a_batch_of_its_own",),
    ),
    Fault(
        "an overflow not planted",
        "bench/runner.py",
        "    return _check_scaler(candidate.built, findings)\n",
        "    return findings\n",
        (f"{OVERFLOW}::test_a_scaler_that_lets_it_through_is_a_wrong_result",),
    ),
    Fault(
        "a scale that stays let pass",
        "bench/training/overflow.py",
        "lowered < scale and ",
        "",
        (f"{OVERFLOW}::test_a_scaler_that_does_anything_else_is_found",),
    ),
    Fault(
        "an empty batch dispatched in training",
        "bench/passes.py",
        "    if case.training:\n",
        "    if False:\n",
        (f"{RUNS}::test_an_ok_result_is_complete",),
    ),
    Fault(
        "the harness's copies counted as the mode's memory",
        "bench/memory/reading.py",
        "        resident -= _kept_by_the_harness(trainer)\n",
        "        pass\n",
        (f"{MEMORY}::test_nothing_of_the_harness_is_left_in_the_process",),
    ),
    Fault(
        "backward counted as forward",
        "bench/training/parts.py",
        '("backward_rounds_s", lambda loss: loss.backward())',
        '("forward_rounds_s", lambda loss: loss.backward())',
        ("tests/bench/training/test_parts.py::test_every_part_is_waited_for",),
    ),
    Fault(
        "attention's backward costs what its forward does",
        "bench/roofline/counting.py",
        "sdpa_backward_flop_count(grad_out, query, key, value)",
        "sdpa_flop_count(query, key, value)",
        ("tests/bench/training/test_work.py::test_a_transformer_block",),
    ),
)
