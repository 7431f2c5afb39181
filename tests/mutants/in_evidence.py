"""Faults in what is recorded of torch's compiler, and in what a profile says of compiled calls."""

from __future__ import annotations

from tests.mutants.fault import Fault

LOG = "tests/bench/steps/evidence/test_compilation_log.py"
FACTS = "tests/bench/case/profiler/test_facts.py"
WARNINGS = "tests/bench/steps/evidence/test_torch_warnings.py"

EVIDENCE = (
    Fault(
        "a phase of compiling counted in the phase around it too",
        "bench/steps/evidence/compilation_log.py",
        "max(0.0, total_us - inner_us)",
        "total_us",
        (f"{LOG}::test_each_phase_is_without_those_inside_it",),
    ),
    Fault(
        "reasons of compilations before the case",
        "bench/steps/evidence/compilation_log.py",
        " if (each.start_time_us or 0) >= start_us]",
        "]",
        (f"{LOG}::test_a_real_recompilation_has_torchs_reason",),
    ),
    Fault(
        "the last reason is the last that is new",
        "bench/steps/evidence/compilation_log.py",
        "    reasons = _recompile_reasons(compilations)\n",
        "    reasons = recompile_reasons(compilations)\n",
        (
            f"{LOG}::test_the_last_reason_may_have_come_before",
            "tests/bench/case/test_compiler_failures.py",
        ),
    ),
    Fault(
        "compiled graphs counted as Python around them",
        "bench/case/profiler/facts.py",
        "sum(each.self_ns for each in wrappers)",
        "sum(each.event.length_ns for each in wrappers)",
        (f"{FACTS}::test_a_call_of_compiled_code_is_lookups_the_python_around_graphs_and_graphs",),
    ),
    Fault(
        "warnings of the user's code taken for torch's",
        "bench/steps/evidence/torch_warnings.py",
        "FROM_CPP in str(message) or _TORCH in",
        "FROM_CPP not in str(message) or _TORCH in",
        (WARNINGS,),
    ),
)
