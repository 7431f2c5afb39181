"""Faults in the passes after timing."""

from __future__ import annotations

from tests.mutants.fault import Fault

PASSES = (
    Fault(
        "a pass that fails costs the row",
        "bench/case/passes.py",
        '        return noted(findings, notes, f"the {name} pass failed',
        '        raise RuntimeError(f"the {name} pass failed',
        ("tests/bench/case/test_passes.py::test_a_failed_pass_leaves_only_its_columns_null",),
    ),
    Fault(
        "activations counted once for each time that they are saved",
        "bench/case/memory.py",
        "self._sizes[storage._cdata] = ",
        "self._sizes[len(self._sizes)] = ",
        ("tests/bench/case/test_memory.py::test_saved_storages_count_once",),
    ),
)
