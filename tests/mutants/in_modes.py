"""Faults in modes, and in the evidence that they took effect."""

from __future__ import annotations

from tests.mutants.fault import Fault

MODES = "tests/bench/steps/test_modes.py"
RUNNER = "tests/bench/case/test_runner.py"

MODE = (
    Fault(
        "kernels that a CPU runs twice are measured twice",
        "bench/sweep/refusals.py",
        "if other == case.case_id or other not in sweep:",
        "if True:",
        ("tests/bench/sweep/test_refusals.py",),
    ),
    Fault(
        "a case skipped beside another stays skipped alone",
        "bench/sweep/resume.py",
        "skipped_too = bool(job.refusal or job.plan.untuned)",
        "skipped_too = True",
        ("tests/bench/sweep/test_resume.py",),
    ),
    Fault(
        "a warm first call is of the process that filled the cache",
        "bench/sweep/record_attempt.py",
        "replace(job.plan, fills_cache=True)",
        "replace(job.plan, fills_cache=False)",
        ("tests/bench/sweep/test_record_attempt.py",),
    ),
    Fault(
        "a first call that fills the cache is measured as warm",
        "bench/case/runner.py",
        "if plan.fills_cache and findings.compiler_cache_misses:",
        "if False:",
        (f"{RUNNER}::test_a_first_call_that_fills_the_cache_ends_there",),
    ),
    Fault(
        "a further sweep stays where the command sets what it is for",
        "bench/sweep/settings/sweeps.py",
        "if key in typed and key not in first:",
        "if False:",
        ("tests/bench/sweep/settings/test_sweeps.py::test_a_further_sweep_is_narrowed",),
    ),
    Fault(
        "a further sweep has modes that the command does not",
        "bench/sweep/settings/sweeps.py",
        "if value in typed.get(key, values)",
        "if value in values",
        ("tests/bench/sweep/settings/test_sweeps.py::test_a_further_sweep_is_narrowed",),
    ),
    Fault(
        "a further sweep has the precision of a baseline that is off",
        "bench/sweep/settings/sweeps.py",
        'if not key.startswith("baseline.")}',
        "}",
        ("tests/bench/sweep/settings/test_sweeps.py::test_a_further_sweep_is_narrowed",),
    ),
    Fault(
        "a further sweep loses the baselines beside one that is off",
        "bench/sweep/settings/sweeps.py",
        "if on else []",
        "if on == baselines else []",
        ("tests/bench/sweep/settings/test_sweeps.py::test_a_further_sweep_is_narrowed",),
    ),
    Fault(
        "values that a further sweep computes stay as they are written",
        "bench/sweep/settings/sweeps.py",
        "to_container(config.experiment.further, resolve=True)",
        "to_container(config.experiment.further)",
        ("tests/bench/sweep/settings/test_sweeps.py",),
    ),
    Fault(
        "the compiler is imported for a case that compiles nothing",
        "bench/case/runner.py",
        "if case.compiles or compiler.is_imported():",
        "if True:",
        ("tests/bench/case/test_without_compiler.py",),
    ),
    Fault(
        "cast dropped",
        "bench/steps/modes.py",
        "else DTYPES[variant.dtype]\n",
        "else torch.float32\n",
        (f"{MODES}::test_weights_are_cast_once_unless_autocast",),
    ),
    Fault(
        "autocast dropped",
        "bench/steps/modes.py",
        "    if variant.mode.autocast:\n",
        "    if False:\n",
        (f"{MODES}::test_autocast_is_entered_with_every_call",),
    ),
    Fault(
        "grad context dropped",
        "bench/steps/modes.py",
        "return _under(grad, step) if grad else step",
        "return step",
        (f"{MODES}::test_all_combinations_of_axes_work_in_eager",),
    ),
    Fault(
        "inference_mode turned into no_grad",
        "bench/steps/modes.py",
        "torch.inference_mode,",
        "torch.no_grad,",
        (f"{MODES}::test_all_combinations_of_axes_work_in_eager",),
    ),
    Fault(
        "compile skipped",
        "bench/steps/backends.py",
        "        _inductor,\n",
        "        _as_it_is,\n",
        (f"{MODES}::test_torch_compile_is_called_with_the_mode",),
    ),
    Fault(
        "capture skipped",
        "bench/steps/phase_interface.py",
        "device.capture(forward) if variant.mode.graph else forward",
        "forward",
        (f"{MODES}::test_a_graph_is_captured_from_the_live_step",),
    ),
    Fault(
        "every mode is in effect",
        "bench/steps/evidence/mode_effect.py",
        "return ModeEffect(not doubts,",
        "return ModeEffect(True,",
        (f"{RUNNER}::test_the_first_call_includes_the_capture",),
    ),
    Fault(
        "recompiles under fullgraph not counted",
        "bench/steps/backends.py",
        "return max(self.frames, self.graphs)",
        "return self.frames",
        (
            "tests/bench/steps/evidence/test_mode_effect.py::test_a_compilation_and_a_recompilation_are_counted",
        ),
    ),
    Fault(
        "recompiles while timing accepted",
        "bench/case/paired_timing.py",
        "    if recompiles:\n",
        "    if False:\n",
        (f"{RUNNER}::test_a_compilation_while_timing_fails_the_case",),
    ),
    Fault(
        "a sweep reuses rows of another environment",
        "bench/sweep/resume.py",
        'if differing or row["environment_id"] != environment.environment_id:',
        "if False:",
        ("tests/bench/sweep/test_resume.py",),
    ),
)
