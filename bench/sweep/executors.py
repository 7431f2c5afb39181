"""The table of executors, which measure the cases of a command.

Hydra composes the cases; its launchers never run. `hydra/launcher=NAME` chooses an executor.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from modescope.bench.sweep.settings.request import Request


@dataclass(frozen=True)
class Submission:
    """The cases of one command, as they are being measured."""

    study_folder: Path
    runs: int  # how many run ids `finished` yields
    finished: Iterator[str]  # run ids, each once its row is on disk, in any order


@dataclass(frozen=True)
class Executor:
    """One way to measure cases, and how it is chosen.

    Its function takes the requests of one command, which can be pickled and hold the options of
    their launcher. It raises UsageError for requests that it cannot measure, prints what will be
    measured where, and returns a `Submission`. What depends on the measuring machine (device,
    environment, refusals, which rows may be reused) is decided on that machine, and
    `bench.sweep.record_attempt.measure` writes the row there.

    Iterating `Submission.finished` shows progress on stderr. A KeyboardInterrupt ends what was
    started and is raised again; written rows stay, so that the same command resumes.
    """

    launcher: str  # `_target_` of the configuration that chooses it in Hydra
    function: str  # "module:name", imported only where something is measured


EXECUTORS = {
    "basic": Executor(
        launcher="hydra._internal.core_plugins.basic_launcher.BasicLauncher",
        function="modescope.bench.sweep.local_executor:submit",
    ),
}
"""Executors by the name of their launcher."""


def submit(requests: Sequence[Request]) -> Submission:
    """Gives the requests of one command to their executor; without -m, this machine's."""
    by_launcher = {each.launcher: each for each in EXECUTORS.values()}
    first = requests[0]
    executor = by_launcher[first.launcher["_target_"]] if first.sweep else EXECUTORS["basic"]
    function: Callable[[Sequence[Request]], Submission] = pkgutil.resolve_name(executor.function)
    return function(requests)
