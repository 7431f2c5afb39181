"""Faults in steps that train in CUDA graphs, found on emulated graphs."""

from __future__ import annotations

from tests.mutants.fault import Fault

CAPTURED = "tests/bench/steps/training/test_captured.py"

CAPTURES = (
    Fault(
        "the contexts left out of graphed forwards",
        "bench/steps/modes.py",
        "return _in_contexts(lambda: self.model(*args), self.variant, self.device_type)()",
        "return self.model(*args)",
        (f"{CAPTURED}::test_forward_and_backward_in_graphs_train_as_eager",),
    ),
    Fault(
        "a captured loss keeps its tape",
        "bench/steps/training/phase.py",
        "trained.step().detach()",
        "trained.step()",
        (f"{CAPTURED}::test_a_replayed_loss_keeps_no_tape",),
    ),
    Fault(
        "gradients of replays lost to a live step",
        "bench/steps/training/trainer.py",
        "            parameter.grad = gradient\n",
        "            pass\n",
        (f"{CAPTURED}::test_gradients_are_those_of_replays_again_after_a_live_step",),
    ),
    Fault(
        "moments and counts of adamw kept when training is restored",
        "bench/steps/training/trainer.py",
        "                tensor.zero_()\n",
        "                pass\n",
        (f"{CAPTURED}::test_training_is_restored_to_its_start",),
    ),
    Fault(
        "the loss scale never updated",
        "bench/steps/training/trainer.py",
        "            self.scaler.update()\n",
        "            pass\n",
        (f"{CAPTURED}::test_a_replay_skips_a_step_that_overflows",),
    ),
    Fault(
        "a parameter that forward does not use refused in graphs",
        "bench/devices/cuda.py",
        ", allow_unused_input=True",
        "",
        (CAPTURED,),
    ),
)
