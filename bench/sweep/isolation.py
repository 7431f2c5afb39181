"""Calls a function in a fresh process and reports how it ended. Imports no torch.

Children come from a forkserver that has imported torch, so that each costs milliseconds. Each child
leads its own process group, compilers and workers included, which is killed as a whole when the
child ends, runs out of time, or loses its parent.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pkgutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import connection, forkserver, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any

import modescope
from modescope.bench.records import files
from modescope.bench.records.errors import UsageError, one_line

STARTED = "MODESCOPE_FORKSERVER"
"""Environment variable of the forkserver, JSON: the process that started it, the values of the
variables that were changed for it, and what it imports. `bench.sweep.forkserver` removes it."""

COMPILER = (
    "modescope.bench.steps.compiler:import_without_cuda",
    "modescope.bench.steps.evidence.generated_code",
    "modescope.bench.steps.evidence.graph_break_watch",
)
"""torch's compiler and what watches it, which take seconds to import."""

PRELOAD = ["torch", "numpy", *COMPILER, "modescope.bench.case.runner"]
"""Imported, or called, once in the forkserver: none leaves a thread, a process or CUDA behind."""

EXIT_TIMEOUT_S = 5.0

SOCKET_PATH_MAX = 103
"""Bytes in the path of a Unix socket on macOS; on Linux there are 107, see unix(7)."""

LONGEST_S = 2e6
"""A child's longest time: poll(2) counts milliseconds in an int."""


@dataclass(frozen=True)
class Outcome:
    """How a child ended."""

    kind: str  # returned | usage | failed | oom | timeout | crashed
    value: Any = None  # what the function returned, or the last `keep` that it reported
    reason: str | None = None


def call(
    function: str,
    *arguments: Any,
    timeout_s: float,
    log: Path | None = None,
    variables: dict[str, str] | None = None,
    on_phase: Callable[[str], None] = lambda phase: None,
) -> Outcome:
    """Calls `function` ("module:name") with `arguments` in a fresh process and waits for it.

    The function's first parameter is a `Progress` through which it may report phases. What the
    child prints goes to `log`. `variables` are set in its environment before anything else runs.
    """
    _start(PRELOAD)
    context = get_context("forkserver")
    ours, theirs = context.Pipe()
    environment = {**_changed_variables(), **(variables or {})}
    child = context.Process(target=_child, args=(theirs, function, arguments, log, environment))
    kills_before = _oom_kills()
    with hide_main():
        child.start()
    theirs.close()
    try:
        outcome, last = _wait(ours, child, time.monotonic() + min(timeout_s, LONGEST_S), on_phase)
        if outcome.kind == "timeout":
            reason = f"still running after timeout_s={timeout_s:g}"
            return Outcome("timeout", last.kept, f"{reason}{last.where}")
        if outcome.kind == "crashed":
            return _cause_of_death(child, kills_before, log, last)
        child.join(EXIT_TIMEOUT_S)  # its result is here: let it release its resources
        return replace(outcome, value=last.kept) if outcome.value is None else outcome
    finally:
        _end_group(child)
        ours.close()


def start(compiler: bool) -> None:
    """Starts the forkserver, unless it runs; it imports torch while this process goes on.

    Without `compiler` it does not import that, and each child that compiles does.
    """
    _start([name for name in PRELOAD if compiler or name not in COMPILER])


def _start(imports: Sequence[str]) -> None:
    environment, before = dict(os.environ), _server_id()
    forkserver.set_forkserver_preload(["modescope.bench.sweep.forkserver"])
    with ignore_interrupts(), _room_for_a_socket(), _own_sources_first(imports):
        forkserver.ensure_running()
    if _server_id() != before:
        _environments.clear()
        _environments[_server_id()] = environment


@contextlib.contextmanager
def compiler_caches(temperature: str) -> Iterator[dict[str, str]]:
    """Variables of a child: `cold` names empty caches, which are removed afterwards."""
    if temperature == "warm":
        yield {}
        return
    with files.temporary_folder() as folder:
        yield {
            "TORCHINDUCTOR_CACHE_DIR": str(folder),
            "TRITON_CACHE_DIR": str(folder / "triton"),
        }


def renew(matters: Callable[[str], bool]) -> bool:
    """Ends a forkserver for which variables had other values that `matters` selects by name.

    Torch reads some when it is imported, which is once in the forkserver. The next call starts
    another one. Returns whether it ended.
    """
    outdated = any(map(matters, _changed_variables()))
    if outdated:
        _forkserver()._stop()
    return outdated


_environments: dict[int | None, dict[str, str]] = {}
"""Environment variables of this process when it started the forkserver, by the latter's id."""


def _changed_variables() -> dict[str, str | None]:
    """Environment variables that were changed since the forkserver was started; None: removed.

    Children have its environment, and should have this process's.
    """
    before = _environments.get(_server_id())
    if before is None:
        return {}
    names = [*before, *(name for name in os.environ if name not in before)]
    now = os.environ
    return {name: now.get(name) for name in names if before.get(name) != now.get(name)}


def _forkserver() -> Any:
    """Python's one forkserver of this process."""
    return forkserver.ensure_running.__self__  # type: ignore[attr-defined]


def _server_id() -> int | None:
    """The forkserver's process id; None where none was started."""
    number: int | None = _forkserver()._forkserver_pid
    return number


@contextlib.contextmanager
def _room_for_a_socket() -> Iterator[None]:
    """Puts the forkserver's socket in /tmp where the path of TMPDIR is too long for a socket.

    Python itself does so from 3.14 on; see https://github.com/python/cpython/issues/132124.
    """
    before = tempfile.tempdir
    path = f"{tempfile.gettempdir()}/pymp-12345678/listener-12345678"
    if len(os.fsencode(path)) > SOCKET_PATH_MAX:
        tempfile.tempdir = "/tmp"
    try:
        yield
    finally:
        tempfile.tempdir = before


@contextlib.contextmanager
def _own_sources_first(imports: Sequence[str]) -> Iterator[None]:
    """Makes a forkserver that is started within import the same modescope as this process.

    Otherwise its path would begin with the current folder and end with the installed packages: a
    folder named bench, or another checkout, would be used. Children have their parent's path.
    """
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "PYTHONSAFEPATH")}
    ours = str(Path(modescope.__file__).absolute().parents[1])  # versus has a link to it alone
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (ours, before["PYTHONPATH"])))
    os.environ["PYTHONSAFEPATH"] = "1"
    started = {"parent": os.getpid(), "variables": before, "imports": imports}
    os.environ[STARTED] = json.dumps(started)
    try:
        yield
    finally:
        del os.environ[STARTED]
        restore(before)


def restore(variables: Mapping[str, str | None]) -> None:
    """Sets environment variables, and removes those that are None."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@dataclass(frozen=True)
class _Last:
    """The last phase that a child entered, and the partial result that it had sent by then."""

    phase: str | None = None
    kept: object = None

    @property
    def where(self) -> str:
        """The phase as the end of a sentence."""
        return f", during {self.phase}" if self.phase else ""


def _wait(
    pipe: Any, child: BaseProcess, deadline: float, on_phase: Callable[[str], None]
) -> tuple[Outcome, _Last]:
    """Blocks until the child has reported its end, died, or run out of time."""
    last = _Last()
    while True:
        left_s = max(0.0, deadline - time.monotonic())
        ready = connection.wait([pipe, child.sentinel], left_s)
        if not ready:
            return Outcome("timeout"), last
        if pipe not in ready:
            return Outcome("crashed"), last
        try:
            kind, content = pipe.recv()
        except (EOFError, OSError):
            return Outcome("crashed"), last
        if kind == "phase":
            last = _Last(*content)
            on_phase(content[0])
        else:
            return Outcome(kind, **content), last


def _cause_of_death(
    child: BaseProcess, kills_before: int | None, log: Path | None, last: _Last
) -> Outcome:
    child.join()
    code = child.exitcode or 0
    if code == -signal.SIGKILL and kills_before is not None and _oom_kills() != kills_before:
        reason = f"the kernel's out-of-memory killer ended the process{last.where}"
        return Outcome("oom", last.kept, reason)
    where = f"; its output is in {log}" if log else ""
    how = describe_exit(code)
    return Outcome("crashed", last.kept, f"the process ended {how}{last.where}{where}")


def describe_exit(code: int) -> str:
    """An exit code of Python's in words: `by SIGKILL`, `with exit status 1`."""
    if code >= 0:
        return f"with exit status {code}"
    names = {int(known): known.name for known in signal.Signals}  # not all real-time signals
    return f"by {names.get(-code, f'signal {-code}')}"


def _oom_kills() -> int | None:
    """The kernel's out-of-memory kills since boot; None where it does not count them."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return None
    counts = dict(line.split() for line in lines)
    return int(counts["oom_kill"]) if "oom_kill" in counts else None


def _end_group(child: BaseProcess) -> None:
    """Kills all remaining processes of the child's group, the child included."""
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
    restore(variables)
    _redirect_output(log)
    _prefer_for_oom_kill()
    threading.Thread(target=_exit_with_parent, args=(pipe,), daemon=True).start()
    try:
        value = pkgutil.resolve_name(function)(partial(_report, pipe), *arguments)
        end = ("returned", {"value": value})
    except UsageError as error:
        end = ("usage", {"reason": str(error)})
    except MemoryError as error:
        end = ("oom", {"reason": one_line(error)})
    except BaseException as error:
        traceback.print_exc()
        end = ("failed", {"reason": one_line(error)})
    sys.stdout.flush()
    sys.stderr.flush()
    pipe.send(end)


def _report(pipe: Any, phase: str, keep: object = None) -> None:
    pipe.send(("phase", (phase, keep)))


def _exit_with_parent(pipe: Any) -> None:
    """Kills the group at the end of the pipe: the parent, which never sends, is gone."""
    with contextlib.suppress(EOFError, OSError):
        pipe.recv_bytes()
    os.killpg(0, signal.SIGKILL)


def _redirect_output(log: Path | None) -> None:
    target = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)


def _prefer_for_oom_kill() -> None:
    """Makes the kernel's out-of-memory killer choose this process before its parent (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


@contextlib.contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Processes started within ignore Ctrl-C, which reaches them too; this process ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change signal handlers
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def hide_main() -> Iterator[None]:
    """Keeps children started within from running this program's main module again.

    They import what they need by name. Running the user's script again would cost time, and a
    script without a `__main__` guard would start children of its own.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
