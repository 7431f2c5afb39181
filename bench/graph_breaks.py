"""Where does torch.compile break its graph, and which functions does it leave to Python?

Taken from Dynamo while it works: it reports each break as it happens, with the exception that
stopped it. Its counters are not read, since a break's kind and torch's release decide which of them
it is added to: a data-dependent branch is in none that is named after graph breaks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from traceback import FrameSummary
from types import CodeType
from typing import Any
from unittest import mock

import torch
from torch._dynamo import convert_frame
from torch._dynamo.exc import UncapturedHigherOrderOpError, Unsupported, UserError
from torch._dynamo.output_graph import GraphCompileReason
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.utils import graph_break_reasons

from bench.code_places import (
    Columns,
    Line,
    Spot,
    columns_of,
    is_library,
    line_of,
    models_own,
    spot_of,
    without_dynamo,
)
from bench.records import canonical_json

STOPS: tuple[type[Exception], ...] = (Unsupported, UserError)
"""What Dynamo raises where it cannot go on; the second is a kind of the first before torch 2.13."""

UNBREAKABLE: tuple[type[Exception], ...] = (UncapturedHigherOrderOpError,)
"""The same within what has to be one graph, such as a branch of torch.cond."""

REASON_MAX_LENGTH = 160

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")  # Dynamo's name for what goes on


@dataclass(frozen=True)
class Site:
    """A place where the graph ends though the model goes on."""

    place: str | None  # "net.py:12"; None where it is no line of the model's
    reason: str


@dataclass(frozen=True)
class GraphBreaks:
    """What broke during the calls that were watched."""

    sites: tuple[Site, ...]  # in the order met, each once however often; a line may have several
    in_eager: tuple[str, ...]  # functions left to Python, as a whole or from a break to their end

    @property
    def sites_json(self) -> str:
        """The sites as canonical JSON."""
        return canonical_json([asdict(site) for site in self.sites])

    @property
    def in_eager_json(self) -> str:
        """The names of the functions as canonical JSON."""
        return canonical_json(self.in_eager)


def site(error: Exception) -> Site:
    """The place that stopped Dynamo, and why, from the exception that it raised."""
    stack = without_dynamo(_stack(error) or ())
    line = line_of((models_own(stack) or stack)[-1]) if stack else None
    return Site(_place(line), _reason(str(error)))


def summary(sites: Sequence[Site]) -> str:
    """`Data-dependent branching at net.py:12 and 1 more`: the first of `sites`, which has some."""
    first = sites[0]
    at = f" at {first.place}" if first.place else ""
    more = f" and {len(sites) - 1} more" if len(sites) > 1 else ""
    return f"{first.reason}{at}{more}"


def count(watch: Watch) -> int:
    """How many places were found. Raises RuntimeError where this torch reports no breaks."""
    if watch.found is None:
        raise RuntimeError(f"torch {torch.__version__} does not report graph breaks as expected")
    return len(watch.found.sites)


class Watch:
    """Collects the breaks of what is compiled while it is open."""

    def __init__(self) -> None:
        self.found: GraphBreaks | None = None  # once it is closed; None if this torch reports none
        self._sites: dict[Spot | None, Site] = {}
        self._site_of: dict[Spot, Spot] = {}  # by the innermost spot, be it of a library
        self._broken: set[tuple[str, str]] = set()  # functions with a site: file, name
        self._in_eager: dict[str, None] = {}

    def stopped(
        self, reason: str, stack: Sequence[FrameSummary], columns: Mapping[Line, Columns] = {}
    ) -> None:
        """Dynamo stopped at the innermost frame of `stack`; `columns` for frames without theirs."""
        stack, spot = without_dynamo(stack), None
        if stack:
            own, innermost = models_own(stack), spot_of(stack[-1], columns)
            spot = spot_of(own[-1], columns) if own else self._site_of.get(innermost, innermost)
            self._site_of.setdefault(innermost, spot)
        if not self._knows(spot):
            self._sites[spot] = Site(_place(spot[0] if spot else None), _reason(reason))
        self._broken |= {_function(frame) for frame in stack}

    def _knows(self, spot: Spot | None) -> bool:
        """Whether it is a site; one without columns may be any of its line."""
        if spot is None:
            return None in self._sites
        line, columns = spot
        of_line = [known[1] for known in self._sites if known and known[0] == line]
        return bool(of_line) and (columns is None or columns in of_line or None in of_line)

    def raised(self, error: Exception) -> None:
        """Dynamo stopped with `error`; at no place if it refused a function before its first line.

        Such a function is among those that it leaves to Python.
        """
        stack = _stack(error)
        if stack is None or stack:
            self.stopped(str(error), stack or (), columns_of(error))

    def split(self, reason: GraphCompileReason) -> None:
        """Dynamo ended a graph; a site of its own only where no break of the function is known."""
        functions = {_function(frame) for frame in reason.user_stack}
        if not functions & self._broken:
            self.stopped(reason.reason, reason.user_stack)

    def left(self, code: CodeType) -> None:
        """Dynamo leaves a function to Python; that of a library is no finding."""
        if not is_library(code.co_filename):
            self._in_eager.setdefault(_RESUMED.sub(r"\1", code.co_qualname))

    def close(self) -> None:
        """Nothing more is to come."""
        self.found = GraphBreaks(tuple(self._sites.values()), tuple(self._in_eager))


@contextmanager
def watch() -> Iterator[Watch]:
    """Watches whatever is compiled inside; the result is in `found` afterwards.

    That Dynamo goes through these functions of its own is no promise of torch's. Where one is
    missing nothing is found, which is not the same as no break.
    """
    watched = Watch()
    hooks = (
        (InstructionTranslatorBase, "log_graph_break", _reporting),
        (InstructionTranslatorBase, "step_graph_break", _giving_up_the_rest),
        (convert_frame, "_compile", _giving_up),
    )
    if not all(hasattr(owner, name) for owner, name, _ in hooks):
        yield watched
        return
    splits = len(graph_break_reasons)
    with ExitStack() as stack:
        for owner, name, wrapped in hooks:
            function = wrapped(watched, getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, function))
        yield watched
    for reason in graph_break_reasons[splits:]:
        watched.split(reason)
    watched.close()


def _reporting(watched: Watch, report: Callable[..., Any]) -> Callable[..., Any]:
    """Dynamo reports a break: whether it goes on behind it, or gives up the function."""

    def reporting(translator: object, *args: Any, **kwargs: Any) -> Any:
        for each in (*args, *kwargs.values()):
            if isinstance(each, Exception):
                watched.raised(each)
        return report(translator, *args, **kwargs)

    return reporting


def _giving_up_the_rest(watched: Watch, stop: Callable[..., Any]) -> Callable[..., Any]:
    """Dynamo compiles a function up to some line, and leaves the rest to Python."""

    def stopping(translator: Any, *args: Any, **kwargs: Any) -> Any:
        watched.left(translator.f_code)
        return stop(translator, *args, **kwargs)

    return stopping


def _giving_up(watched: Watch, compile_frame: Callable[..., Any]) -> Callable[..., Any]:
    """Dynamo compiles a function, or leaves it to Python as a whole."""

    def compiling(code: CodeType, *args: Any, **kwargs: Any) -> Any:
        try:
            return compile_frame(code, *args, **kwargs)
        except STOPS as error:
            watched.left(code)
            watched.raised(error)
            raise

    return compiling


def _stack(error: Exception) -> Sequence[FrameSummary] | None:
    """What Dynamo was tracing, innermost last; None where the exception does not say."""
    return getattr(error, "real_stack", None)


def _function(frame: FrameSummary) -> tuple[str, str]:
    return frame.filename, _RESUMED.sub(r"\1", frame.name)


def _place(line: Line | None) -> str | None:
    return f"{Path(line[0]).name}:{line[1]}" if line else None


def _reason(text: str) -> str:
    """The first line, which names the kind of break, with those before it that lead to it.

    Such as `Got graph break/error:`.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    leading = list(takewhile(lambda line: line.endswith(":"), lines))
    named = " ".join(lines[: len(leading) + 1])
    return named[:REASON_MAX_LENGTH] or "torch gave no reason"
