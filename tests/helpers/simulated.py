"""A simulated device: host and device timelines in simulated seconds, without real waiting.

Timers and rounds are tested on it against times computed by hand. Steps consist of launches
(`step`), the machine can slow down over time (`slowdown`), and reading the clock can cost time.
"""

from __future__ import annotations

import math
import random
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

from modescope.bench.devices.devices import Mark, Step

Scale = Callable[[], float]


@dataclass(frozen=True)
class SimulatedMark:
    """A mark in the queue of a simulated device, with the time at which the device reaches it."""

    device: SimulatedDevice
    at_s: float

    def reached(self) -> bool:
        return self.device.now_s >= self.at_s

    def seconds_since(self, earlier: Mark) -> float:
        assert isinstance(earlier, SimulatedMark)
        assert self.reached(), "the device has not reached this mark yet"
        return self.at_s - earlier.at_s


class SimulatedDevice:
    """A device with a queue, in simulated time: `now_s` is the host's clock.

    queues: False makes launched work run on the host, as on a CPU.
    depth: pieces of work that the queue holds before a launch has to wait.
    read_cost_s: host time of reading the clock.
    mark_s: device time of a mark; if not 0, a mark also takes a place in the queue.
    slowdown: simulated second -> factor on the time of work that starts then.
    """

    CLOCK_HZ = 2e9  # at a slowdown of 1

    def __init__(
        self,
        queues: bool = True,
        depth: int = 10**9,
        read_cost_s: float = 0.0,
        mark_s: float = 0.0,
        slowdown: Callable[[float], float] = lambda now_s: 1.0,
    ) -> None:
        self.type = "cuda" if queues else "cpu"
        self.queues = queues
        self.clock: Callable[[], float] = self._read_clock
        self.synchronize: Callable[[], None] = self._join
        self.now_s = 0.0
        self.holds_s: list[float] = []
        self._pending_ends_s: deque[float] = deque()
        self._depth, self._read_cost_s, self._mark_s = depth, read_cost_s, mark_s
        self._slowdown = slowdown

    def _read_clock(self) -> float:
        self.now_s += self._read_cost_s
        return self.now_s

    def _join(self) -> None:
        self.now_s = max(self.now_s, self._queue_end_s())
        self._pending_ends_s.clear()

    def hold(self, seconds: float) -> None:
        self.holds_s.append(seconds)
        self.launch(0.0, seconds)

    def mark(self) -> Mark:
        if self._mark_s:
            self.launch(0.0, self._mark_s)
        return SimulatedMark(self, max(self.now_s, self._queue_end_s()))

    def clock_hz(self) -> float | None:
        return self.CLOCK_HZ / self._slowdown(self.now_s) if self.queues else None

    def slowdowns(self) -> Mapping[str, int] | None:
        return None

    def other_processes(self) -> int | None:
        return None

    def launch(self, host_s: float, device_s: float) -> None:
        """Keeps the host busy for `host_s`, then queues `device_s` of work."""
        self.now_s += host_s * self._slowdown(self.now_s)
        if not self.queues:
            self.now_s += device_s * self._slowdown(self.now_s)
            return
        self._wait_for_room()
        start_s = max(self.now_s, self._queue_end_s())
        self._pending_ends_s.append(start_s + device_s * self._slowdown(start_s))

    def _wait_for_room(self) -> None:
        while self._pending_ends_s and self._pending_ends_s[0] <= self.now_s:
            self._pending_ends_s.popleft()
        if len(self._pending_ends_s) >= self._depth:
            self.now_s = self._pending_ends_s.popleft()

    def _queue_end_s(self) -> float:
        return self._pending_ends_s[-1] if self._pending_ends_s else self.now_s


def step(
    device: SimulatedDevice, *launches: tuple[float, float], scale: Scale = lambda: 1.0
) -> Step:
    """A step that launches each (host_s, device_s); a call multiplies all times by `scale()`."""

    def call() -> None:
        factor = scale()
        for host_s, device_s in launches:
            device.launch(host_s * factor, device_s * factor)

    return call


def synchronising_step(device: SimulatedDevice, host_s: float, device_s: float) -> Step:
    """A step that waits for its own result, like one that calls .item()."""

    def call() -> None:
        device.launch(host_s, device_s)
        device.synchronize()

    return call


def normal_noise(seed: int, sigma: float) -> Scale:
    """Scales drawn from a log-normal distribution around 1 with this sigma."""
    source = random.Random(seed)
    return lambda: source.lognormvariate(0.0, sigma)


def spikes(seed: int, share: float, factor: float) -> Scale:
    """Scales that are `factor` in about a `share` of the calls, else 1."""
    source = random.Random(seed)
    return lambda: factor if source.random() < share else 1.0


def decaying(calls: int, factor: float) -> Scale:
    """Scales that fall exponentially from `factor` to 1: the excess is 1/e after `calls` calls."""
    calls_so_far = count()
    return lambda: 1.0 + (factor - 1.0) * math.exp(-next(calls_so_far) / calls)


def settling(calls: int, factor: float) -> Scale:
    """Scales that are `factor` for the first `calls` calls, then 1."""
    left = iter([factor] * calls)
    return lambda: next(left, 1.0)


def recording(device: SimulatedDevice, log: list[str], name: str) -> Step:
    """A step of 1 ms on the host that appends `name` to `log`."""
    work = step(device, (1e-3, 0.0))

    def call() -> None:
        log.append(name)
        work()

    return call


class Placement:
    """What a redraw of the memory layout returns; the layout lasts while somebody holds it."""


class Placements:
    """Makes redraws, each of which appends `|` to `log`, and steps that need the last of them."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.drawn: list[weakref.ref[Placement]] = []

    def redraw(self) -> Placement:
        """Makes a new placement."""
        self.log.append("|")
        placement = Placement()
        self.drawn.append(weakref.ref(placement))
        return placement

    @property
    def held(self) -> bool:
        """Whether somebody still refers to the last placement."""
        return self.drawn[-1]() is not None

    def needed_by(self, work: Step) -> Step:
        """A step that runs `work`, and fails if nobody holds the last placement."""

        def looking() -> None:
            assert self.held
            work()

        return looking
