"""Faults in timers."""

from __future__ import annotations

from tests.mutants.fault import Fault

CLOCKS = "tests/bench/timing/test_timers.py"
RUNNER = "tests/bench/case/test_runner.py"

READING_TIME = (
    Fault(
        "no synchronise after a call",
        "bench/timing/timers.py",
        "        step()\n        synchronize()\n",
        "        step()\n",
        (CLOCKS,),
    ),
    Fault(
        "no gate: the queue is not held",
        "bench/timing/timers.py",
        "    device.hold(hold_s)\n",
        "",
        (CLOCKS,),
    ),
    Fault(
        "device time of a held queue without proof that it was held",
        "bench/timing/timers.py",
        " if all_issued_ahead else None",
        "",
        (CLOCKS,),
    ),
    Fault(
        "host clock that synchronises",
        "bench/timing/timers.py",
        "        step()\n        keep(",
        "        step()\n        synchronize()\n        keep(",
        (CLOCKS,),
    ),
    Fault(
        "pipelined time from a single block",
        "bench/timing/timers.py",
        "(double_s - single_s) / calls",
        "double_s / (2 * calls)",
        (CLOCKS,),
    ),
    Fault(
        "milliseconds of a CUDA event taken for microseconds",
        "bench/devices/cuda.py",
        "elapsed_time(self._event)) * 1e-3",
        "elapsed_time(self._event)) * 1e-6",
        ("tests/bench/devices/test_devices.py",),
    ),
    Fault(
        "dispatch read on a full batch",
        "bench/case/dispatch.py",
        "tensor.narrow(batch_dim, 0, 0)",
        "tensor",
        (
            "tests/bench/case/test_dispatch.py::test_dispatch_excludes_work_that_grows_with_the_batch",
        ),
    ),
    Fault(
        "dispatch read before the heap has settled",
        "bench/case/dispatch.py",
        "for measured in (False, True):",
        "for measured in (True,):",
        ("tests/bench/case/test_dispatch.py::test_the_heap_settles_before_dispatch_is_measured",),
    ),
    Fault(
        "cost of a synchronise read without one",
        "bench/timing/timers.py",
        "_each(device.synchronize, device.clock",
        "_each(lambda: None, device.clock",
        (CLOCKS,),
    ),
    Fault(
        "first call without the time of a capture",
        "bench/case/first_call.py",
        "device, phase, first)\n",
        "device, phase, first)\n        start = device.clock()\n",
        (f"{RUNNER}::test_the_first_call_includes_the_capture",),
    ),
)
