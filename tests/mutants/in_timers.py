"""Faults in timers."""

from __future__ import annotations

from tests.mutants.fault import Fault

CLOCKS = "tests/bench/timing/test_timers.py"
DISPATCH = "tests/bench/case/test_dispatch.py"
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
        "changed arguments are not put back before a timed call",
        "bench/timing/timers.py",
        "_awaited(step.prepare, device) if isinstance(step, Prepared) else None",
        "None",
        (f"{CLOCKS}::test_what_a_call_needs_is_done_before_each_one_and_not_timed",),
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
        "pipelined time without a queue from one block",
        "bench/timing/timers.py",
        "blocks = min(SHORT_BLOCKS, calls)",
        "blocks = 1",
        (f"{CLOCKS}::test_the_pipelined_time_withstands_an_interrupted_block",),
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
        (f"{DISPATCH}::test_dispatch_excludes_work_that_grows_with_the_batch",),
    ),
    Fault(
        "dispatch read in a single state of the heap",
        "bench/case/dispatch.py",
        "partial(memory_layout.heap, random.Random(0))",
        "lambda: None",
        (f"{DISPATCH}::test_every_block_of_dispatch_has_a_state_of_the_heap_of_its_own",),
    ),
    Fault(
        "an empty batch writes into the buffers of the timed module",
        "bench/case/dispatch.py",
        "for weight in subject.module.parameters()}",
        "for weight in subject.module.state_dict(keep_vars=True).values()}",
        (f"{DISPATCH}::test_measuring_dispatch_restores_state_and_inputs",),
    ),
    Fault(
        "an empty batch has parameters of its own",
        "bench/case/dispatch.py",
        "copy.deepcopy(subject.module, weights)",
        "copy.deepcopy(subject.module)",
        (f"{DISPATCH}::test_the_empty_batch_shares_parameters_and_has_buffers_of_its_own",),
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
