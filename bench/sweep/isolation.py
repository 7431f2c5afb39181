"""Calls a function in a fresh process and reports how it ended. Imports no torch.

A forkserver that has imported torch starts the child processes, so that each starts within
milliseconds. A child leads its own process group, to which its compilers and workers belong. The
whole group is killed when the child ends, runs out of time, or loses its parent.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import math
import os
import pkgutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing import connection, forkserver, get_context, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

import modescope
from modescope.bench.records.errors import UsageError, one_line
from modescope.bench.records.outcomes import Status

STARTED = "MODESCOPE_FORKSERVER"
"""Environment variable that makes a new process a forkserver (`_become_forkserver`). Its value is
JSON: what to import, and the original values of the variables that were changed to start it."""

COMPILER = (
    "modescope.bench.model.compiler:import_without_cuda",
    "modescope.bench.evidence.compilation",
    "modescope.bench.evidence.graph_break_watch",
)
"""Modules, and a function that imports some: torch's compiler and the code that watches it. They
take seconds to import."""

PRELOAD = ["torch", "numpy", *COMPILER, "modescope.bench.case.runner"]
"""What the forkserver imports; a name with a colon is a function that it calls. None of it starts a
thread, a process or CUDA, which a fork would not survive."""

EXIT_TIMEOUT_S = 5.0

SERVER: Any = forkserver.ensure_running.__self__  # type: ignore[attr-defined]
"""Python's handle of this process's forkserver. A process has one forkserver at a time."""


T = TypeVar("T")


@dataclass(frozen=True)
class Task(Generic[T]):
    """A function that a child process imports by its name, and the type of what it returns.

    It gets a `Progress`, by which it may report phases, and then the arguments of the call.
    """

    function: str  # "module:name"
    returns: type[T]


class Ending(StrEnum):
    """How the call of a function in a child process ended."""

    RETURNED = "returned"
    USAGE = "usage"  # it raised UsageError
    FAILED = "failed"  # it raised another error
    OOM = "oom"
    TIMEOUT = "timeout"
    CRASHED = "crashed"


STATUS = {
    Ending.RETURNED: Status.OK,
    Ending.USAGE: Status.FAILED,
    Ending.FAILED: Status.FAILED,
    Ending.OOM: Status.OOM,
    Ending.TIMEOUT: Status.TIMEOUT,
    Ending.CRASHED: Status.CRASHED,
}
"""The status of what was measured in a process that ended so, without a result of its own."""


@dataclass(frozen=True)
class ChildOutcome(Generic[T]):
    """How the call of a function in a child process ended, and its result.

    A call that did not return has as its `value` what the child last passed as `keep` to its
    `Progress`, or None. `reason` says why a call did not return; None if it did.
    """

    kind: Ending
    value: T | None = None  # what the function returned, or the last `keep` that it reported
    reason: str | None = None


def call(
    task: Task[T],
    *arguments: Any,
    timeout_s: float,
    log: Path | None = None,
    variables: dict[str, str] | None = None,
    on_phase: Callable[[str], None] = lambda phase: None,
    on_wait: Callable[[], float] = lambda: math.inf,
) -> ChildOutcome[T]:
    """Calls the function of `task` in a fresh process; waits, and returns how it ended.

    After `timeout_s` seconds the process is killed. Raises nothing that the function raises.
    `on_phase` is called with the name of each phase as it begins. `on_wait` is called while the
    child is awaited, and returns after how many seconds to call it again. The output of the child
    goes to `log`; None discards it. `variables` are set in its environment before anything else
    runs.
    """
    _start(PRELOAD)
    context = get_context("forkserver")
    ours, theirs = context.Pipe()
    environment = {**_changed_variables(), **(variables or {})}
    child = context.Process(
        target=_child, args=(theirs, task.function, arguments, log, environment)
    )
    kills_before = _oom_kills()
    with _hide_main():
        child.start()
    theirs.close()
    kept: T | None = None
    where, deadline = "", time.monotonic() + timeout_s
    try:
        while ready := _wait([ours, child.sentinel], deadline, on_wait):
            message = _receive(ours) if ours in ready else None
            if message is None:
                return _describe_death(child, kills_before, kept, where, log)
            ending, value, text = message
            if ending is not None:
                child.join(EXIT_TIMEOUT_S)  # its result is here: let it release its resources
                return ChildOutcome(ending, kept if value is None else value, text)
            kept, where = value, f", during {text}"
            on_phase(text)
        return ChildOutcome(
            Ending.TIMEOUT, kept, f"still running after timeout_s={timeout_s:g}{where}"
        )
    finally:
        _end_group(child)
        ours.close()


def _wait(watched: list[Any], deadline: float, on_wait: Callable[[], float]) -> list[Any]:
    """Returns which of `watched` is ready; none if none is at `deadline`, of `time.monotonic`."""
    while (left_s := deadline - time.monotonic()) > 0:
        if ready := connection.wait(watched, min(left_s, on_wait())):
            return ready
    return connection.wait(watched, 0.0)


def start(compiler: bool) -> bool:
    """Starts the forkserver, if it does not run yet; it imports torch in the background.

    `compiler`: whether it also imports torch's compiler; if not, each child that compiles does.
    Returns whether it was started.
    """
    before = SERVER._forkserver_pid
    _start([name for name in PRELOAD if compiler or name not in COMPILER])
    return bool(SERVER._forkserver_pid != before)


def end() -> None:
    """Ends the forkserver at once, even while it imports."""
    if SERVER._forkserver_pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(SERVER._forkserver_pid, signal.SIGKILL)
        SERVER._stop()


def _start(imports: Sequence[str]) -> None:
    environment = dict(os.environ)
    forkserver.set_forkserver_preload([__name__])
    resource_tracker.ensure_running()  # here, as starting it unblocks interrupts
    with ignore_interrupts(), _own_sources_first(imports):
        forkserver.ensure_running()
    _environments.setdefault(SERVER._forkserver_pid, environment)


def end_outdated(matters: Callable[[str], bool]) -> bool:
    """Ends the forkserver if an environment variable that matters was changed since its start.

    `matters` returns whether a variable, given its name, matters. torch reads some variables when
    it is imported, so a change needs a new forkserver, which the next `call` starts. Returns
    whether the forkserver was ended.
    """
    outdated = any(map(matters, _changed_variables()))
    if outdated:
        SERVER._stop()
    return outdated


_environments: dict[int | None, dict[str, str]] = {}
"""Maps the process id of a forkserver to the environment variables that this process had when it
first used that forkserver."""


def _changed_variables() -> dict[str, str | None]:
    """Returns the variables that changed since the forkserver started; None: was removed.

    A child inherits the forkserver's environment, which lacks these changes.
    """
    before, now = _environments.get(SERVER._forkserver_pid, os.environ), os.environ
    return {name: now.get(name) for name in {*before, *now} if before.get(name) != now.get(name)}


@contextlib.contextmanager
def _own_sources_first(imports: Sequence[str]) -> Iterator[None]:
    """Makes a forkserver that is started in the block import the same modescope as this process.

    Otherwise it might find another modescope in the current folder or among installed packages.
    """
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "PYTHONSAFEPATH")}
    ours = str(Path(modescope.__file__).absolute().parents[1])  # versus has a link to it alone
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (ours, before["PYTHONPATH"])))
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ[STARTED] = json.dumps({"variables": before, "imports": imports})
    try:
        yield
    finally:
        del os.environ[STARTED]
        set_variables(before)


def set_variables(variables: Mapping[str, str | None]) -> None:
    """Sets environment variables, and removes those whose value is None."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _receive(pipe: Any) -> tuple[Ending | None, Any, Any] | None:
    """Returns the child's next message (ending, value, text), or None if it has closed the pipe.

    The ending is None in a message that says which phase begins.
    """
    try:
        message: tuple[Ending | None, Any, Any] = pipe.recv()
    except (EOFError, OSError):
        return None
    return message


def _describe_death(
    child: BaseProcess, kills_before: str | None, kept: T | None, where: str, log: Path | None
) -> ChildOutcome[T]:
    child.join()
    code = child.exitcode or 0
    if code == -signal.SIGKILL and _oom_kills() != kills_before:
        reason = f"the kernel's out-of-memory killer ended the process{where}"
        return ChildOutcome(Ending.OOM, kept, reason)
    output = f"; its output is in {log}" if log else ""
    return ChildOutcome(
        Ending.CRASHED, kept, f"the process ended {describe_exit(code)}{where}{output}"
    )


def describe_exit(code: int) -> str:
    """Describes an exit code, negative for a signal: `by SIGKILL`, `with exit status 1`."""
    if code >= 0:
        return f"with exit status {code}"
    names = {int(known): known.name for known in signal.Signals}  # not all real-time signals
    return f"by {names.get(-code, f'signal {-code}')}"


def _oom_kills() -> str | None:
    """Returns the kernel's line with the number of out-of-memory kills since boot, if any."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/vmstat").read_text().splitlines()
        return next((line for line in lines if line.startswith("oom_kill ")), None)
    return None


def _end_group(child: BaseProcess) -> None:
    assert child.pid is not None
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    if child.is_alive():  # it may not have reached setsid yet
        child.kill()
    child.join()


def _child(
    pipe: Any,
    function: str,
    arguments: tuple[Any, ...],
    log: Path | None,
    variables: dict[str, str | None],
) -> None:
    gc.freeze()  # what the forkserver imported: collecting it takes 0.2 s and copies its pages
    os.setsid()
    set_variables(variables)
    output = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    with contextlib.suppress(OSError):  # the out-of-memory killer is to choose it, not its parent
        Path("/proc/self/oom_score_adj").write_text("1000")
    threading.Thread(target=_exit_with_parent, args=(pipe,), daemon=True).start()
    value, reason = None, None

    def report(phase: str, keep: object = None) -> None:
        pipe.send((None, keep, phase))

    try:
        value = pkgutil.resolve_name(function)(report, *arguments)
        kind = Ending.RETURNED
    except UsageError as error:
        kind, reason = Ending.USAGE, str(error)
    except MemoryError as error:
        kind, reason = Ending.OOM, one_line(error)
    except BaseException as error:
        traceback.print_exc()
        kind, reason = Ending.FAILED, one_line(error)
    sys.stdout.flush()
    sys.stderr.flush()
    pipe.send((kind, value, reason))


def _exit_with_parent(pipe: Any) -> None:
    """Kills the process group when the parent closes its pipe; the parent never sends anything."""
    with contextlib.suppress(EOFError, OSError):
        pipe.recv_bytes()
    os.killpg(0, signal.SIGKILL)


@contextlib.contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Makes processes that are started in the block ignore Ctrl-C; this process must end them.

    This process itself is interrupted at the end of the block, if it has no other threads: Linux
    keeps a blocked signal, even if it is ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change signal handlers
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextlib.contextmanager
def _hide_main() -> Iterator[None]:
    """Keeps children that are started in the block from running the user's script again.

    That would cost time, and a script without a `__main__` guard would start children of its own.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _become_forkserver() -> None:
    """Imports what children will need; runs in the forkserver when it imports this module."""
    started = json.loads(os.environ.pop(STARTED))
    set_variables(started["variables"])  # for children, and what a model starts
    gc.disable()  # imports make no garbage, and looking for it takes a tenth of their time
    for name in started["imports"]:
        with contextlib.suppress(ImportError):  # which the child that needs it says
            module, _, function = name.partition(":")
            found = importlib.import_module(module)
            if function:
                getattr(found, function)()
    gc.enable()
    sys.excepthook = _show_error
    # It ends at once: unloading its imports keeps a core busy for a second or more.
    server = os.getpid()
    atexit.register(lambda: os._exit(0) if os.getpid() == server else None)


def _show_error(kind: type[BaseException], *more: Any) -> None:
    """Prints an uncaught error, except EOFError; is set as `sys.excepthook` of the forkserver.

    Forkserver and child raise EOFError if the parent is killed while it starts a child
    (multiprocessing.reduction.recvfds, multiprocessing.spawn._main).
    """
    if kind is not EOFError:
        sys.__excepthook__(kind, *more)


if STARTED in os.environ:
    _become_forkserver()
