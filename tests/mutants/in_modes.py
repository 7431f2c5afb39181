"""Faults in whether a mode does what its name says, and in what shows that."""

from __future__ import annotations

from tests.mutants.fault import Fault

MODES = "tests/bench/test_modes.py"
RUNNER = "tests/bench/test_runner.py"

MODE = (
    Fault(
        "cast dropped",
        "bench/modes.py",
        "else DTYPES[variant.dtype]\n",
        "else torch.float32\n",
        (f"{MODES}::test_weights_are_cast_once_unless_autocast",),
    ),
    Fault(
        "autocast dropped",
        "bench/modes.py",
        "    if variant.mode.autocast:\n",
        "    if False:\n",
        (f"{MODES}::test_autocast_is_entered_with_every_call",),
    ),
    Fault(
        "grad context dropped",
        "bench/modes.py",
        "return _under(grad, step) if grad else step",
        "return step",
        (f"{MODES}::test_the_axes_combine_freely_in_eager",),
    ),
    Fault(
        "inference_mode turned into no_grad",
        "bench/modes.py",
        "torch.inference_mode,",
        "torch.no_grad,",
        (f"{MODES}::test_the_axes_combine_freely_in_eager",),
    ),
    Fault(
        "compile skipped",
        "bench/modes.py",
        '    if mode == "none":\n',
        "    if mode:\n",
        (f"{MODES}::test_torch_compile_is_asked_for_the_mode",),
    ),
    Fault(
        "capture skipped",
        "bench/modes.py",
        "return device.capture(step) if asked else step",
        "return step",
        (f"{MODES}::test_a_graph_is_captured_from_the_live_step",),
    ),
    Fault(
        "every mode is in effect",
        "bench/runner.py",
        "in_effect=doubts is None",
        "in_effect=True",
        (f"{RUNNER}::test_the_first_call_includes_the_capture",),
    ),
    Fault(
        "recompiles under fullgraph not counted",
        "bench/evidence.py",
        "return max(self.frames, self.graphs)",
        "return self.frames",
        ("tests/bench/test_evidence.py::test_a_compilation_and_a_recompilation_are_counted",),
    ),
    Fault(
        "recompiles while timing let pass",
        "bench/race.py",
        "    if recompiles:\n",
        "    if False:\n",
        (f"{RUNNER}::test_a_compilation_while_timing_fails_the_case",),
    ),
    Fault(
        "a sweep goes on with rows of another environment",
        "bench/reuse.py",
        'if differing or row["environment_id"] != needed.environment.environment_id:',
        "if False:",
        ("tests/bench/test_reuse.py",),
    ),
)
