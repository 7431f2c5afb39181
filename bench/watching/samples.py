"""Samples how long torch's operators run outside compiled code: torch has no count of that.

Now and then torch's profiler records the operators of the main thread for some milliseconds. A
sample begins and ends between two bytecodes of the program, where Python calls what another thread
has asked for (Py_AddPendingCall of Python's C interface). All samples together may cost COST of the
time. None begins or ends within a backward pass: autograd saves the thread's profiler before each
node and restores it after, so that a profiler from there would never end.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any
from unittest import mock

from modescope.bench.watching import torch_names
from modescope.bench.watching.ledger import Ledger, Times

if TYPE_CHECKING:
    from modescope.bench.stats.estimates import Estimate

COST = 0.002
EVENT_S = 3e-7  # what recording one operator costs
IDLE_S = 0.1  # between two looks whether a sample is due
SHORTEST_S, LONGEST_S = 0.005, 0.5
OPERATORS = 20
"""A sample is as long as so many operators of the sample before, of the size in which most of its
time was spent: shorter ones would begin after long operators and end after others."""

LEAST_SAMPLES = 5  # fewer say nothing

PROFILER = "torch.autograd.profiler"
BEGINNINGS = ("_prepare_profiler", "_enable_profiler")
"""torch's profiler, and its functions with which a program begins a profile."""

REGION = "Torch-Compiled Region"
LOOKUP = "TorchDynamo Cache Lookup"
BACKWARD = "CompiledFunctionBackward"
"""REGION, LOOKUP (its guards) and BACKWARD are how torch's profiler names compiled code."""


@dataclass(frozen=True)
class Sample:
    """What one sample saw."""

    operators_s: float  # outside compiled code
    passed: Times  # what the program did meanwhile

    @property
    def share(self) -> float:
        """Operators' part of the time that was neither compiling nor in compiled code."""
        return min(1.0, self.operators_s / self.passed.other_s) if self.passed.other_s else 0.0


class Samples:
    """Takes samples while a program runs; `tick` is called by another thread."""

    def __init__(self, ledger: Ledger) -> None:
        self.taken: list[Sample] = []
        self._ledger = ledger
        self._start = time.perf_counter()
        self._cost_s = 0.0
        self._length_s = SHORTEST_S
        self._until: float | None = None  # when the sample that is under way ends
        self._before: Times | None = None  # of that sample
        self._asked = False  # whether the main thread has a call to make
        self._closed = False
        self._busy = False  # whether a sample is just beginning or ending
        self._undo = ExitStack()

    def tick(self) -> float:
        """Asks the main thread to begin or end a sample, if it is time; returns when to come again.

        The result is in seconds.
        """
        now = time.perf_counter()
        if not self._asked and not self._closed:
            due = self._start + (self._cost_s + self._length_s * COST) / COST
            if self._until is not None and now >= self._until:
                self._ask(self.end)
            elif self._until is None and now >= due:
                self._ask(self._begin)
        return self._length_s if self._asked or self._until is not None else IDLE_S

    def _ask(self, act: Callable[[], None]) -> None:
        self._asked = True

        def call() -> None:
            self._asked = False
            act()

        _in_main_thread(call)

    def _begin(self) -> None:
        if self._closed or self._busy:
            return
        if not torch_names.is_loaded() or self._ledger.is_compiling():
            return
        if torch_names.is_profiling() or torch_names.is_in_backward():  # profiling by the program
            return
        with self._alone():
            start = time.perf_counter()
            torch_names.begin_profile()
            self._before, self._until = self._ledger.read(), start + self._length_s
            for name in BEGINNINGS:
                patch = mock.patch.object(sys.modules[PROFILER], name, self._give_way(name))
                self._undo.enter_context(patch)
            self._cost_s += time.perf_counter() - start

    def end(self) -> None:
        """Ends the sample that is under way, if any; elsewhere than in the main thread, later."""
        if self._before is None or self._busy:
            return
        if threading.current_thread() is not threading.main_thread():
            if not self._asked:
                self._ask(self.end)
            return
        if torch_names.is_in_backward():
            return
        with self._alone():
            start = time.perf_counter()
            passed = self._ledger.read().since(self._before)
            self._before = self._until = None
            self._undo.close()
            operators_s, typical_s, count = operators(torch_names.end_profile())
            if not passed.compiling_s:  # the compiler calls operators, too
                self.taken.append(Sample(operators_s, passed))
            self._length_s = min(LONGEST_S, max(SHORTEST_S, OPERATORS * typical_s))
            self._cost_s += time.perf_counter() - start + count * EVENT_S

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lets no other beginning or end in: Python may make the calls asked for at any bytecode.

        Takes no more samples if torch's profiler fails, as in a version that has another one.
        """
        self._busy = True
        try:
            yield
        except (RuntimeError, TypeError, AttributeError):
            self._closed, self._before = True, None
        finally:
            self._busy = False

    def _give_way(self, name: str) -> Callable[..., Any]:
        """Wraps a beginning of the profiler, so that the program can begin its own."""
        begin = getattr(sys.modules[PROFILER], name)

        def begin_of_program(*args: Any, **options: Any) -> Any:
            self.end()
            return begin(*args, **options)

        return begin_of_program

    def close(self) -> None:
        """Takes no more samples."""
        self._closed = True
        self.end()

    def forget(self) -> None:
        """Ends the sample in a process that was forked from that which is watched."""
        self._closed = True
        if self._before is not None and torch_names.is_profiling():
            torch_names.end_profile()
        self._undo.close()
        _PENDING.calls.clear()


def eager_s(taken: list[Sample], other_s: float) -> Estimate | None:
    """Returns the seconds of operators outside compiled code, of `other_s` seconds.

    The interval is Student's, of the samples' shares. None of fewer than LEAST_SAMPLES, or if none
    of them saw an operator: how rare they are cannot be told then.
    """
    from modescope.bench.stats.estimates import Estimate, student_quantile  # imports numpy

    shares = [sample.share for sample in taken]
    if len(taken) < LEAST_SAMPLES or not any(shares):
        return None
    half = student_quantile(len(shares) - 1, 0.05) * stdev(shares) / len(shares) ** 0.5
    low, mean, high = (fmean(shares) + step * half for step in (-1, 0, 1))
    return Estimate(mean * other_s, max(0.0, low) * other_s, min(1.0, high) * other_s)


def operators(threads: Iterable[Iterable[Any]]) -> tuple[float, float, int]:
    """Returns the seconds of outermost operators outside compiled code, one's, and events.

    `threads` has the events of each thread: operators begin (`push`) and end (`pop`). The seconds
    of one are their mean, weighted by themselves.
    """
    total_us = squares = 0.0
    count = 0
    for events in threads:
        open_: list[Any] = []
        for event in events:
            count += 1
            if event.kind() == "push":
                open_.append(event)
            elif event.kind() == "pop" and open_:
                begun = open_.pop()
                name = begun.name()
                if open_ or name.startswith((REGION, LOOKUP)) or name.endswith(BACKWARD):
                    continue
                passed_us = begun.cpu_elapsed_us(event)
                total_us, squares = total_us + passed_us, squares + passed_us**2
    return total_us / 1e6, squares / total_us / 1e6 if total_us else 0.0, count


class _Pending:
    """What the main thread is to call.

    Python calls a C function there. PyObject_IsTrue is one that calls `__bool__` and, unlike a
    callback of ctypes, lets an exception through: a signal's handler may raise at any bytecode.
    """

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        before = torch_names.set_eval_frame(None)
        try:
            while self.calls:
                self.calls.pop(0)()
        finally:
            torch_names.set_eval_frame(before)
        return False


_PENDING = _Pending()
_IS_TRUE = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p)


def _in_main_thread(call: Callable[[], None]) -> None:
    _PENDING.calls.append(call)
    torch_names.skip(_Pending.__bool__, torch_names.set_eval_frame)
    ctypes.pythonapi.Py_AddPendingCall(_IS_TRUE, ctypes.py_object(_PENDING))
