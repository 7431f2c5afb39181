"""The stopwatch of a process that is timed from its start, and what it is told."""

from __future__ import annotations

import importlib._bootstrap
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from modescope.bench.case import start
from modescope.bench.case.start import OWN, Probes, Stopwatch


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(start, "time", clock)
    return clock


def test_the_time_of_a_phase_is_without_the_phases_inside_it(clock: Clock) -> None:
    watch = Stopwatch(began_s=98.0)  # the process began before it could tell
    clock.passes(1)
    watch.turn("rest")
    clock.passes(2)
    with watch.during("load"):
        clock.passes(4)
        with watch.during("import"):
            clock.passes(8)
            assert watch.phase == "import"
        clock.passes(16)
    with suppress(KeyError), watch.during("run"):
        clock.passes(32)
        raise KeyError
    clock.passes(64)
    assert watch.phase == "rest"
    assert Probes(watch).read() == {"import": 11.0, "rest": 66.0, "load": 20.0, "run": 32.0}


class Events:
    """Stands for torch's ChromiumEventLogger, and notes what it is told."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def log_event_start(self, name: str, when: int, *, pt2: bool = False) -> str:
        self.said.append(("start", name))
        return "started"

    def log_event_end(self, name: str, when: int) -> str:
        self.said.append(("end", name))
        return "ended"


class Instructions:
    """Stands for torch's VecISA, whose test compiles a file."""

    def __init__(self, events: Events, clock: Clock) -> None:
        self.events, self.clock = events, clock

    def check_build(self, code: str) -> str:
        self.events.log_event_start("compile_file", 0)
        self.clock.passes(4)
        self.events.log_event_end("compile_file", 0)
        return f"built {code}"


@pytest.fixture
def probes(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Probes:
    """Probes that watch two made-up classes; the phase outside of all is `rest`."""
    watch = Stopwatch(clock.now)
    watch.turn("rest")
    events = type("Logger", (Events,), {})
    tests = type("VecISA", (Instructions,), {})
    probes = Probes(watch)
    probes._watch_events(SimpleNamespace(ChromiumEventLogger=events))
    probes._watch_instruction_tests(SimpleNamespace(VecISA=tests))
    probes.log, probes.tests = events(), tests  # type: ignore[attr-defined]
    return probes


def passed(probes: Probes) -> dict[str, float]:
    """The phases that took time."""
    return {phase: seconds for phase, seconds in probes.read().items() if seconds}


Told = Callable[..., None]


@pytest.fixture
def event(probes: Any, clock: Clock) -> Told:
    """An event of the compiler that lasts `seconds` besides what is done `inside` it."""

    def happens(name: str, seconds: float, *inside: Callable[[], None]) -> None:
        assert probes.log.log_event_start(name, 0, pt2=True) == "started"
        clock.passes(seconds)
        for what in inside:
            what()
        assert probes.log.log_event_end(name, 0) == "ended"

    return happens


def test_an_event_is_in_its_phase_and_an_unknown_one_in_that_around_it(
    probes: Any, event: Told, clock: Clock
) -> None:
    event("somebody's", 1)
    event(
        "dynamo", 2,
        lambda: event("somebody's", 4),
        lambda: event("backend_compile", 8, lambda: event("PyCodeCache.load_by_key_path", 16)),
        lambda: clock.passes(32),
    )  # fmt: skip
    event("async_compile.wait", 64)
    assert passed(probes) == {
        "rest": 1.0, "dynamo": 38.0, "inductor": 8.0, "load": 16.0, "kernels": 64.0
    }  # fmt: skip
    assert len(probes.log.said) == 12


def test_a_test_of_instructions_is_a_probe_with_all_that_it_compiles(
    probes: Any, event: Told, clock: Clock
) -> None:
    made = probes.tests(probes.log, clock)
    event("inductor_compile", 1, lambda: made.check_build("avx2"), lambda: clock.passes(2))
    assert made.check_build("avx512") == "built avx512"
    event("compile_file", 16)
    assert passed(probes) == {"inductor": 3.0, "probe": 8.0, "kernels": 16.0}


def test_events_of_another_thread_belong_to_what_the_timed_one_does(
    probes: Any, event: Told, clock: Clock
) -> None:
    with probes.during("run"):
        thread = threading.Thread(target=event, args=("compile_file", 4))
        thread.start()
        thread.join()
    assert passed(probes) == {"run": 4.0}
    assert probes.log.said == [("start", "compile_file"), ("end", "compile_file")]


def test_a_first_call_without_events_is_a_run(probes: Any, clock: Clock) -> None:
    clock.passes(1)
    with probes.first_call():
        clock.passes(2)
    clock.passes(4)
    assert passed(probes) == {"rest": 5.0, "run": 2.0}


def test_a_first_call_runs_once_the_compiler_is_done(
    probes: Any, event: Told, clock: Clock
) -> None:
    clock.passes(1)
    with probes.first_call():
        clock.passes(2)
        event("dynamo", 4, lambda: event("compile_file", 8), lambda: clock.passes(16))
        clock.passes(32)
        event("dynamo", 64)  # the second graph
        clock.passes(128)
    event("dynamo", 256)
    clock.passes(512)  # no first call any more
    assert passed(probes) == {"rest": 515.0, "dynamo": 340.0, "kernels": 8.0, "run": 160.0}


MODULES = {
    "users": "import clock; clock.passes(1); import deeper",
    "deeper": "import clock; clock.passes(2)",
    "modescope.planted": "import clock; clock.passes(4); import othertool, modescope.models.theirs",
    "othertool": "import clock; clock.passes(8)",
    "modescope.models.theirs": "import clock; clock.passes(16)",
    "modescope.models.theirs_too": "import clock; clock.passes(32)",
    "modescope.setting": "import clock; clock.passes(4); import torch.compiles, othertool",
    "torch.compiles": "import clock; clock.passes(64); import deeper",
    "logs": "class ChromiumEventLogger:\n    log_event_start = log_event_end = print",
}


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock) -> Iterator[None]:
    """The modules of MODULES can be imported; afterwards imports are as before."""
    import modescope
    import modescope.models

    for name, text in MODULES.items():
        (tmp_path / f"{name.rpartition('.')[2]}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for package in (modescope, modescope.models, torch):
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    monkeypatch.setitem(sys.modules, "clock", clock)
    before = importlib._bootstrap._find_and_load  # type: ignore[attr-defined]
    monkeypatch.setattr(importlib._bootstrap, "_find_and_load", before)
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def test_modules_are_imported_by_the_user_or_by_modescope_with_all_that_it_needs(
    planted: None, probes: Probes, clock: Clock
) -> None:
    probes.install()
    with probes.during("load"):
        importlib.import_module("users")
    assert passed(probes) == {"import": 3.0}
    importlib.import_module("modescope.planted")
    assert passed(probes) == {"import": 3.0, OWN: 28.0}
    importlib.import_module("modescope.models.theirs_too")  # a model is the user's
    importlib.import_module("users")  # is there
    assert passed(probes) == {"import": 35.0, OWN: 28.0}


def test_what_modescope_imports_of_torch_is_the_users_with_all_that_it_needs(
    planted: None, probes: Probes, clock: Clock
) -> None:
    """As torch._inductor.config, which is set before a model is compiled that needs it, too."""
    probes.install()
    importlib.import_module("modescope.setting")
    assert passed(probes) == {OWN: 12.0, "import": 66.0}


def test_another_threads_imports_are_not_told(planted: None, probes: Probes, clock: Clock) -> None:
    probes.install()
    with probes.during("run"):
        thread = threading.Thread(target=importlib.import_module, args=("users",))
        thread.start()
        thread.join()
    assert passed(probes) == {"run": 3.0}


def test_the_compiler_is_watched_once_it_is_imported(
    planted: None, probes: Probes, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "_hooks", {"logs": probes._watch_events})
    probes.install()
    logs = importlib.import_module("logs")
    log = logs.ChromiumEventLogger()
    log.log_event_start("dynamo")
    clock.passes(2)
    log.log_event_end("dynamo")
    assert passed(probes) == {"dynamo": 2.0}
