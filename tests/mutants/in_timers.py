"""Faults in how a time is read."""

from __future__ import annotations

from tests.mutants.fault import Fault

CLOCKS = "tests/bench/test_timers.py"
RUNNER = "tests/bench/test_runner.py"

READING_TIME = (
    Fault(
        "no synchronise after a call",
        "bench/timers.py",
        "        step()\n        synchronize()\n",
        "        step()\n",
        (CLOCKS,),
    ),
    Fault(
        "no gate: the queue is not held",
        "bench/timers.py",
        "    device.hold(hold_s)\n",
        "",
        (CLOCKS,),
    ),
    Fault(
        "device time of a held queue without proof that it was held",
        "bench/timers.py",
        " if all_issued_ahead else None",
        "",
        (CLOCKS,),
    ),
    Fault(
        "host clock that synchronises",
        "bench/timers.py",
        "        step()\n        keep(",
        "        step()\n        synchronize()\n        keep(",
        (CLOCKS,),
    ),
    Fault(
        "pipelined time from a single block",
        "bench/timers.py",
        "(double_s - single_s) / calls",
        "double_s / (2 * calls)",
        (CLOCKS,),
    ),
    Fault(
        "milliseconds of a CUDA event taken for microseconds",
        "bench/devices.py",
        "elapsed_time(self._event)) * 1e-3",
        "elapsed_time(self._event)) * 1e-6",
        ("tests/bench/test_devices.py",),
    ),
    Fault(
        "dispatch read on a full batch",
        "bench/empty.py",
        "tensor.narrow(batch_dim, 0, 0)",
        "tensor",
        ("tests/bench/test_empty.py::test_work_that_grows_with_the_batch_is_not_in_it",),
    ),
    Fault(
        "dispatch read before the heap has settled",
        "bench/empty.py",
        "for measured in (False, True):",
        "for measured in (True,):",
        ("tests/bench/test_empty.py::test_the_heap_settles_before_anything_is_measured",),
    ),
    Fault(
        "cost of a synchronise read without one",
        "bench/timers.py",
        "        device.synchronize()\n        costs_s",
        "        costs_s",
        (CLOCKS,),
    ),
    Fault(
        "first call without what a capture takes",
        "bench/entrant.py",
        "device, case.training, first)\n",
        "device, case.training, first)\n        start = device.clock()\n",
        (f"{RUNNER}::test_the_first_call_includes_the_capture",),
    ),
)
