"""Faults in what is looked at once all timing is done."""

from __future__ import annotations

from tests.mutants.fault import Fault

PASSES = (
    Fault(
        "a pass that fails costs the row",
        "bench/passes.py",
        "            findings = noted(findings, [each.note], reason)\n",
        "            raise RuntimeError(reason) from error\n",
        ("tests/bench/test_passes.py::test_a_pass_that_fails_costs_its_columns_alone",),
    ),
    Fault(
        "activations counted once for each time that they are saved",
        "bench/memory/reading.py",
        "self._seen[storage._cdata] = ",
        "self._seen[len(self._seen)] = ",
        ("tests/bench/test_memory.py::test_saved_storages_count_once",),
    ),
)
