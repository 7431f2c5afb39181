"""Starts new processes, as a user's program starts, and times them to their first right result.

Each rung of caches (`records.caches`) has folders of its own: one process fills them, others start
with what it left. Standard library only, besides modescope's records.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from select import select

import modescope
from modescope.bench.modes import backends
from modescope.bench.records import files
from modescope.bench.records.caches import CACHES, SAVED, Variables, variables_of
from modescope.bench.records.cases import Case
from modescope.bench.records.columns.starting import Starts
from modescope.bench.records.outcomes import Status
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import Ended, Findings
from modescope.bench.records.starts import Asked, Start
from modescope.bench.records.tolerances import EAGER_LIMIT, TOLERANCE
from modescope.bench.sweep.isolation import describe_exit

PROGRAM = Path(__file__).parents[1] / "case" / "start.py"

LIBRARY = "*.main.so"
"""Matches the files in Inductor's cache with compiled C++ code of graphs."""

NO_FILL = "the process that fills the cache failed"
NO_START = "a process that starts with compile_cache={} failed"
WRONG = (
    "a new process with compile_cache={cache} computed something else: relative error {error:.2g}"
)
UNUSED = "new processes did not take all from compile_cache={cache}: {why}"


@dataclass(frozen=True)
class Timed:
    """A process that was started: what it says, and when its first result came by our clock."""

    start: Start
    until_result_s: float  # from just before it was started; less what only modescope needs
    ended_s: float  # until all was said, likewise
    libraries: int = 0  # of C++ code, that it compiled into the compiler's cache


class Rung:
    """The folders of one case's caches, and what is in them; `opened` makes them.

    Another case may have its rung in the same `folder`: it starts with what the first one filled.
    All processes get the environment `variables`.
    """

    def __init__(
        self, case: Case, plan: Plan, folder: Path, log: Path, variables: Variables | None = None
    ) -> None:
        self._case, self._plan, self._folder, self._log = case, plan, folder, log
        self._cache = CACHES[plan.compile_cache]
        self._backend = backends.find(case.variant.mode)
        self._filled, self._saved = folder / "filled", folder / "saved"
        self._filled.mkdir(exist_ok=True)
        self._saved.mkdir(exist_ok=True)
        self._variables = variables or {}
        self._new = 0
        self.cache_bytes: int | None = None  # files that the compiler keeps, once they are there
        self.shipped_bytes: int | None = None  # files that processes need that start elsewhere

    @property
    def needs_filling(self) -> bool:
        """Whether a process has to run before the first one starts."""
        return self._cache.fills or bool(self._backend.before)

    def fill(self) -> Timed:
        """Starts the process that fills the caches, or saves what others load."""
        timed = self._run(Asked(self._case, self._plan, fills=True), variables_of(self._filled))
        self.cache_bytes, self.shipped_bytes = _size(self._filled), _size(self._saved) or None
        return timed

    def start(self, calls: int = 0, output: Path | None = None) -> Timed:
        """Starts a process with what was filled, for its first call (`Asked`)."""
        asked = Asked(self._case, self._plan, calls=calls, output=output)
        with self.later() as variables:
            before = _libraries(variables)
            timed = self._run(asked, variables)
            return replace(timed, libraries=len(_libraries(variables) - before))

    def start_baseline(self) -> Timed:
        """Starts a process in the baseline's mode, with empty caches."""
        assert self._case.baseline is not None
        case = replace(self._case, variant=self._case.baseline, baseline=None)
        with self._empty() as variables:
            return self._run(Asked(case, replace(self._plan, compile_cache="cold")), variables)

    @contextmanager
    def later(self) -> Iterator[Variables]:
        """Yields the variables of a process that starts with what was filled."""
        shared = self._cache.fills and not self._cache.ships and not self._backend.before
        with _of(self._filled) if shared else self._empty() as variables:
            yield variables | {SAVED: str(self._saved)}

    @contextmanager
    def _empty(self) -> Iterator[Variables]:
        self._new += 1
        folder = self._folder / f"new-{self._new}"
        folder.mkdir()
        try:
            yield variables_of(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, asked: Asked, variables: Variables) -> Timed:
        description = self._folder / "asked.pickle"
        description.write_bytes(pickle.dumps(asked))
        given = {SAVED: str(self._saved), **variables, **self._variables}
        return run(description, given, self._log, asked.plan.timeout_s)


@contextmanager
def opened(case: Case, plan: Plan, log: Path) -> Iterator[Rung]:
    """Yields the rung of `case`; its folders are removed after the block."""
    with files.temporary_folder() as folder:
        yield Rung(case, plan, folder, log)


@contextmanager
def _of(folder: Path) -> Iterator[Variables]:
    yield variables_of(folder)


def run(description: Path, variables: Variables, log: Path, timeout_s: float) -> Timed:
    """Starts a new interpreter on the file `description`, and waits until it has said all.

    Its output goes to `log`. A process that fails, dies or takes longer than `timeout_s` says so in
    its `Start.failure`. It leads a process group of its own, all of which is killed at the end.
    """
    ours, theirs = os.pipe()
    given = os.environ | variables
    folders = (str(Path(modescope.__file__).absolute().parents[1]), given.get("PYTHONPATH"))
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
    with log.open("ab") as output:
        started_s = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM), str(description), str(theirs), repr(started_s)],
            env=given | environment, stdin=subprocess.DEVNULL,
            stdout=output, stderr=output, pass_fds=[theirs], start_new_session=True,
        )  # fmt: skip
    os.close(theirs)
    try:
        result_s, said = _read(ours, started_s, timeout_s)
        ended_s = time.monotonic() - started_s
    finally:
        os.close(ours)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    if said:
        start = Start(**json.loads(said))
        return Timed(start, result_s - start.own_s, ended_s - start.own_s)
    failure = f"the process ended {describe_exit(code)}; its output is in {log}"
    status = Status.CRASHED
    if ended_s >= timeout_s:
        failure, status = f"still running after timeout_s={timeout_s:g}", Status.TIMEOUT
    return Timed(Start(failure=failure, status=status), result_s, ended_s)


def _read(pipe: int, started_s: float, timeout_s: float) -> tuple[float, bytes]:
    """Returns the time until the first result (inf without one), and what the process says.

    That is a line; empty if the process ends without one, or takes longer than `timeout_s`. The end
    of the pipe is not awaited: other processes may have it, too.
    """
    said, result_s = b"", math.inf
    while (left_s := started_s + timeout_s - time.monotonic()) > 0:
        if not select([pipe], [], [], left_s)[0]:
            break
        part = os.read(pipe, 65536)
        if not part:
            break
        if part.startswith(b".") and not said:
            result_s, part = time.monotonic() - started_s, part[1:]
        said += part
        if said.endswith(b"\n"):
            return result_s, said
    return result_s, b""


def _libraries(variables: Variables) -> set[Path]:
    return set(Path(variables["TORCHINDUCTOR_CACHE_DIR"]).rglob(LIBRARY))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(rung: Rung, case: Case, plan: Plan, on_phase: Callable[[str], None]) -> Starts:
    """Fills the rung, and starts `plan.starts` processes that take turns with the baseline's.

    Returns their columns. Raises Ended if one of them failed or was wrong.
    """
    fill_s = None
    if rung.needs_filling:
        on_phase("fill the cache")
        filled = rung.fill()
        if filled.start.failure:
            raise _ended(filled.start, NO_FILL)
        fill_s = filled.ended_s
    mine, others = list[Timed](), list[Timed]()
    order = random.Random(plan.seed)
    for number in range(plan.starts):
        on_phase(f"start {number + 1} of {plan.starts}")
        turns = [(rung.start, mine), (rung.start_baseline, others)][: 2 if case.baseline else 1]
        for start, timed in order.sample(turns, len(turns)):
            timed.append(start())
            if timed[-1].start.failure:
                raise _ended(timed[-1].start, NO_START.format(plan.compile_cache))
    limit = max(EAGER_LIMIT * TOLERANCE[case.variant.dtype], plan.max_error or 0.0)
    errors = [timed.start.error or 0.0 for timed in mine]
    wrong = next((error for error in errors if not error <= limit), None)  # nan is above it, too
    if wrong is not None:
        reason = WRONG.format(cache=plan.compile_cache, error=wrong)
        raise Ended(Status.WRONG_RESULT, reason, Findings())
    said = [timed.start for timed in mine]
    return Starts(
        starts_s=tuple(timed.until_result_s for timed in mine) or None,
        baseline_starts_s=tuple(timed.until_result_s for timed in others) or None,
        start_phases_s=json.dumps([timed.start.phases_s for timed in mine]) if mine else None,
        fill_s=fill_s,
        cache_bytes=rung.cache_bytes,
        shipped_bytes=rung.shipped_bytes,
        start_graphs=max((start.graphs for start in said), default=None),
        start_hits=min((start.hits for start in said), default=None),
        start_misses=max((start.misses for start in said), default=None),
    )


def why_unused(cache: str, found: Starts) -> str | None:
    """Says why the new processes did not use what was filled; None if they did, or nothing was."""
    state = CACHES[cache]
    if not found.starts_s or not state.fills or state.backend:
        return None
    if found.start_graphs and not state.makes_graphs:
        return UNUSED.format(cache=cache, why="Dynamo made a graph")
    if found.start_misses:
        return UNUSED.format(cache=cache, why="code was generated")
    return None if found.start_hits else UNUSED.format(cache=cache, why="nothing was found in it")


def _ended(start: Start, what: str) -> Ended:
    return Ended(Status(start.status), f"{what}: {start.failure}", Findings())
