"""Watches what torch's compiler does in the caller's program: `modescope.watch`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ContextDecorator, suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from modescope.bench.records.errors import UsageError, one_line
from modescope.bench.records.files import atomic_write
from modescope.bench.records.watched import Watched
from modescope.bench.watching.watch import STOPS, Watch

if TYPE_CHECKING:  # what imports numpy waits until the program has set what it reads
    import pandas as pd

    from modescope.analysis import watched

F = TypeVar("F", bound=Callable[..., Any])

FOLDER = "watch"
"""The folder of records in that of a study."""


@dataclass
class WatchResult:
    """What a watch saw, once its block has ended. Prints as the table at its end."""

    path: Path | None = None  # of the record
    _seen: Watched | None = None
    _subjects: list[Any] = field(default_factory=list)

    @property
    def record(self) -> Watched:
        """Everything that was seen; raises UsageError within the block."""
        if self._seen is None:
            raise UsageError("the watch has not ended: read its result after the block")
        return self._seen

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row per compiled function (`analysis.watched.frame`)."""
        from modescope.analysis import watched

        return watched.frame(self.record)

    @property
    def faults(self) -> list[watched.Fault]:
        """What keeps the program from what it asked for."""
        from modescope.analysis import watched

        return watched.faults(self.record)

    def __str__(self) -> str:
        from modescope.analysis import watched

        return "a watch that has not ended" if self._seen is None else watched.summary(self._seen)


class watch(ContextDecorator):
    """Watches what torch compiles in a block, or in each call of the function that it decorates.

        with modescope.watch() as result:
            train()
        print(result.frame)

    At the end it prints where the time went, the compiled functions, and what is wrong, and
    writes a record to `results/<study>/watch/`. What it changes in torch is put back at the end.

    Args:
        study: the study whose folder gets the record; None: no record is written.
        stop_on: "recompile" raises torch's RecompileError where torch would compile again what
            was compiled before.
        quiet: prints nothing.
        program: the name of the program in the record.

    Raises:
        UsageError: `stop_on` is none of these.
    """

    def __init__(
        self,
        study: str | Path | None = "main",
        *,
        stop_on: str | None = None,
        quiet: bool = False,
        program: str | None = None,
    ) -> None:
        if stop_on is not None and stop_on not in STOPS:
            raise UsageError(f"stop_on={stop_on}: allowed: {', '.join(STOPS)}")
        self._study = None if study is None else Path("results").absolute() / study
        self._stop_on, self._quiet = stop_on, quiet
        self._program = program or Path(sys.argv[0] or "python").name
        self._open: list[tuple[Watch, WatchResult]] = []

    def __call__(self, function: F) -> F:
        """Decorates `function`; raises UsageError if its call only prepares what runs later."""
        lazy = (iscoroutinefunction, isgeneratorfunction, isasyncgenfunction)
        if any(is_lazy(function) for is_lazy in lazy):
            raise UsageError(
                f"watch: {function.__qualname__} is a generator or coroutine, of which a call runs "
                "nothing: put `with modescope.watch():` in it"
            )
        return super().__call__(function)

    def __enter__(self) -> WatchResult:
        watching = Watch(self._program, self._say, self._stop_on)
        watching.start()
        self._open.append((watching, WatchResult()))
        return self._open[-1][1]

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        watching, result = self._open.pop()
        try:
            result._seen, result._subjects = watching.stop(error), watching.subjects
            said = str(result)
        except Exception as failure:  # the program ends as it would without a watch
            self._say(f"modescope: what was seen is lost: {one_line(failure)}")
            return
        if watching.is_forked:
            return  # the process that began the watch says what it saw
        self._say(f"\n{said}")
        if self._study is not None:
            self._write(result, self._study / FOLDER)

    def _write(self, result: WatchResult, folder: Path) -> None:
        name = f"{result.record.started_at.replace(':', '')}-{id(result):x}.json"
        try:
            with atomic_write(folder / name) as path:
                path.write_text(result.record.to_json(), encoding="utf-8")
        except OSError as error:
            self._say(f"modescope: the record was not written: {one_line(error)}")
        else:
            result.path = folder / name

    def _say(self, line: str) -> None:
        if not self._quiet:
            with suppress(OSError, ValueError):  # the program may have closed it
                print(line, file=sys.stderr, flush=True)

    def _recreate_cm(self) -> Self:
        """Returns a watch for one call of the decorated function, since calls may overlap."""
        again = copy(self)
        again._open = []
        return again
