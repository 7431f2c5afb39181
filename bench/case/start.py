"""What a user's program does in a new process, timed from its start to the first right result.

Run as a file (`python -P start.py …`), so that its first line runs before anything is imported.
The process prints nothing; it writes to the pipe that `bench.sweep.starts` reads: a byte once the
first result is there, then a line of JSON with the fields of `bench.records.starts.Start`.

The time of each phase is its own: without that of phases inside it. What only modescope needs
(its modules, the description of the case) is the phase `own`, which no user's program has.
"""

import importlib._bootstrap
import json
import os
import pickle
import select
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

OWN = "own"

PHASE_OF_EVENT = {
    "dynamo": "dynamo",
    "entire_frame_compile": "dynamo",
    "bytecode_tracing": "dynamo",
    "build_guards": "dynamo",
    "precompile_load_guards": "load",
    "precompile_build_guards": "load",
    "backend_compile": "inductor",
    "inductor_compile": "inductor",
    "AOTAutogradCache.inductor_load": "load",
    "PyCodeCache.load_by_key_path": "load",
    "compile_file": "kernels",
    "async_compile.wait": "kernels",
}
"""Maps events of torch's compiler (`torch._dynamo.utils.dynamo_timed`) to phases. Any other event
belongs to the phase in which it happens."""


class Stopwatch:
    """Adds up the seconds of each phase of the main thread in `seconds`.

    Phases may be inside each other; what is in none is `rest`.
    """

    def __init__(self, began_s: float) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._phases = ["import"]  # the interpreter is one, too
        self._since = began_s
        self._thread = threading.get_ident()

    @property
    def phase(self) -> str:
        """The innermost phase."""
        return self._phases[-1]

    def enter(self, phase: str) -> None:
        """Begins a phase inside the present one."""
        self._add()
        self._phases.append(phase)

    def leave(self) -> None:
        """Ends the innermost phase."""
        self._add()
        self._phases.pop()

    def turn(self, phase: str) -> None:
        """Ends the innermost phase and begins another in its place."""
        self._add()
        self._phases[-1] = phase

    def is_here(self) -> bool:
        """Whether the calling thread is the one that is timed."""
        return threading.get_ident() == self._thread

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Times the block as a phase."""
        self.enter(phase)
        try:
            yield
        finally:
            self.leave()

    def _add(self) -> None:
        now = time.monotonic()
        self.seconds[self._phases[-1]] += now - self._since
        self._since = now


class Probes:
    """Tells a stopwatch when modules are imported, and in which phase torch's compiler is."""

    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch
        self._depth = 0
        self._runs: str | None = None  # the phase between the compiler's events of a call
        self._hooks = {
            "torch._dynamo.utils": self._watch_events,
            "torch._inductor.cpu_vec_isa": self._watch_instruction_tests,
        }

    def during(self, phase: str) -> AbstractContextManager[None]:
        """Times a block as a phase."""
        return self._watch.during(phase)

    def read(self) -> dict[str, float]:
        """Returns the seconds of each phase until now."""
        self._watch.turn(self._watch.phase)
        return dict(self._watch.seconds)

    def install(self) -> None:
        """Times imports from now on, and the compiler once it is imported."""
        load = importlib._bootstrap._find_and_load  # type: ignore[attr-defined]

        @wraps(load)
        def timed(name: str, import_: Any) -> Any:
            if not self._watch.is_here():
                return load(name, import_)
            ours = name.startswith("modescope.") and not name.startswith("modescope.models")
            # torch's modules are the user's, too: compiled code needs them, whoever asks first
            own = ours or (self._watch.phase == OWN and not name.startswith("torch."))
            with self._watch.during(OWN if own else "import"):
                module = load(name, import_)
                if hook := self._hooks.pop(name, None):
                    hook(sys.modules[name])
            return module

        importlib._bootstrap._find_and_load = timed  # type: ignore[attr-defined]

    @contextmanager
    def first_call(self) -> Iterator[None]:
        """Times the block: what follows an event of the compiler is `run`; all of it without any.

        What precedes the first event is `rest`: torch says of it nothing.
        """
        with self._watch.during("rest"):
            before = self._watch.seconds["rest"]
            self._runs = "run"
            yield
            compiled = self._watch.phase == "run"
            self._runs = None
        if not compiled:
            self._watch.seconds["run"] += self._watch.seconds["rest"] - before
            self._watch.seconds["rest"] = before

    def _watch_events(self, module: Any) -> None:
        events = module.ChromiumEventLogger
        start, end = events.log_event_start, events.log_event_end

        @wraps(start)
        def started(log: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            if self._watch.is_here():
                self._enter(PHASE_OF_EVENT.get(name, self._watch.phase))
            return start(log, name, *args, **kwargs)

        @wraps(end)
        def ended(log: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            result = end(log, name, *args, **kwargs)
            if self._watch.is_here():
                self._leave()
            return result

        events.log_event_start, events.log_event_end = started, ended

    def _watch_instruction_tests(self, module: Any) -> None:
        test = module.VecISA.check_build

        @wraps(test)
        def timed(*args: Any) -> Any:
            if not self._watch.is_here():
                return test(*args)
            self._enter("probe")
            try:
                return test(*args)
            finally:
                self._leave()

        module.VecISA.check_build = timed

    def _enter(self, phase: str) -> None:
        within = self._watch.phase
        self._depth += 1
        self._watch.enter(within if within in ("probe", OWN) else phase)

    def _leave(self) -> None:
        self._depth -= 1
        self._watch.leave()
        if self._depth == 0 and self._runs:
            self._watch.turn(self._runs)


def main(description: Path, pipe: int, started_s: float) -> None:
    """Makes the first call that the file `description` asks for (`bench.records.starts.Asked`)."""
    watch = Stopwatch(started_s)
    watch.turn("rest")  # until here the interpreter was started
    threading.Thread(target=_exit_with_reader, args=(pipe,), daemon=True).start()
    probes = Probes(watch)
    probes.install()
    import torch  # noqa: F401  (first of all, as in a user's program)

    with watch.during(OWN):
        from modescope.bench.case import starting

        asked = pickle.loads(description.read_bytes())
    said = starting.run(asked, probes, lambda: os.write(pipe, b"."))
    sys.stdout.flush()
    os.write(pipe, json.dumps(said).encode() + b"\n")  # after which the process may be killed
    os._exit(0)


def _exit_with_reader(pipe: int) -> None:
    """Kills the process group when nobody reads the pipe any more."""
    poll = select.poll()
    poll.register(pipe, 0)
    poll.poll()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
