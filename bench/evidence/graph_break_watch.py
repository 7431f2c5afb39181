"""Finds where torch.compile breaks its graph or gives up, and functions that it leaves to Python.

Hooks in Dynamo report each break as it happens, with the exception behind it. Dynamo's counters are
not used because the kind of break and torch's release decide which of them counts it: no counter
named after graph breaks includes data-dependent branches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import takewhile
from pathlib import Path
from traceback import FrameSummary
from types import CodeType
from typing import Any
from unittest import mock

import torch
from torch._dynamo import convert_frame
from torch._dynamo.exc import (
    FailOnRecompileLimitHit,
    UncapturedHigherOrderOpError,
    Unsupported,
    UserError,
)
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.utils import get_compilation_metrics

from modescope.bench.evidence import compilation
from modescope.bench.evidence.mode_effect import GraphBreaks, Site, breaks_summary
from modescope.bench.modes.compiled_optimizer import OPTIM
from modescope.bench.records.cases import Model
from modescope.bench.records.errors import is_of_a_size, one_line
from modescope.bench.records.paths import is_of_python

TORCH = str(Path(torch.__file__).parent) + "/"
DYNAMO = TORCH + "_dynamo/"

Spot = tuple[str, int | None, int | None, int | None]
"""A file, a line, and the columns at which the expression starts and ends. Columns are None if
torch does not say, as before torch 2.13; then a line counts once."""

LIMIT_REACHED = "recompile limit exceeded"
"""A part of torch's message when it has compiled some code too often and goes on in eager."""

STOPS: tuple[type[Exception], ...] = (Unsupported, UserError)
"""Exceptions that Dynamo raises if it cannot continue. Up to torch 2.12 the second derives from the
first."""

UNBREAKABLE: tuple[type[Exception], ...] = (UncapturedHigherOrderOpError,)
"""Exceptions that Dynamo raises if it cannot continue within code that must be one graph, such as a
branch of torch.cond."""

BY_CALL = "torch._dynamo.graph_break()"
"""A part of torch's reason where a function asks for a graph break."""

REASON_MAX_LENGTH = 160

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")
"""Dynamo's name for the part of a function that follows a graph break."""

GAVE_UP = (
    "torch.compile compiled the same code again and again and gave up at its limit "
    "(recompile_limit={limit}), where torch by default goes on in eager{why}; {remedy}"
)

OF_VALUES = (
    "keep a value that changes from call to call in a tensor, because a number is a constant of "
    "the compiled code"
)

OF_SIZES = (
    "a size changes from call to call: compile for all sizes (mode=compile-dynamic), or pad to few "
    "sizes"
)
"""What to do if the last reason to compile again was a value, or a size."""

FAILED = "{}, which torch.compile failed to compile ({})"

CANNOT_TRACE = (
    "torch.compile cannot trace the whole model: {}; model.fullgraph=false allows graph breaks and "
    "counts them"
)

CANNOT_BREAK = "torch.compile cannot trace the model, and cannot break its graph there: {}"


def _drop_dynamo(stack: Sequence[FrameSummary]) -> list[FrameSummary]:
    return [frame for frame in stack if not frame.filename.startswith(DYNAMO)]


def _models_own(stack: Sequence[FrameSummary]) -> list[FrameSummary]:
    return [frame for frame in stack if not _is_library(frame.filename)]


def _is_library(file: str) -> bool:
    """Whether a file is part of torch or Python itself; all other code counts as the model's."""
    return file.startswith(("<", TORCH)) or is_of_python(file)  # "<frozen …>", "<string>"


def _spot(frame: FrameSummary) -> Spot:
    return frame.filename, frame.lineno, frame.colno, frame.end_colno


def site(error: Exception) -> Site:
    """Returns where and why Dynamo stopped, according to the exception `error` that it raised."""
    stack = _drop_dynamo(getattr(error, "real_stack", ()))
    spot = _spot((_models_own(stack) or stack)[-1]) if stack else None
    return Site(_place(spot), _reason(str(error)))


class GraphBreakWatch:
    """Collects the graph breaks within the block of `watch`."""

    def __init__(self) -> None:
        self.breaks: GraphBreaks | None = None  # set at the end; None if torch lacks the hooks
        self._sites: dict[Spot | None, Site] = {}
        self._site_of: dict[Spot, Spot] = {}  # by the innermost spot, even in a library
        self._in_eager: dict[str, None] = {}
        self.limit_hits = 0  # times that torch reached its limit of compilations
        self.failure: str | None = (
            None  # a function that could not be compiled, and the first error
        )

    def note_stop(self, reason: str, stack: Sequence[FrameSummary]) -> None:
        """Notes a graph break for `reason`, at the innermost line of the model's code in `stack`.

        `stack` lists the frames in which Dynamo stopped, the innermost last.
        """
        stack, spot = _drop_dynamo(stack), None
        if stack:
            own, innermost = _models_own(stack), _spot(stack[-1])
            if innermost[0].startswith(OPTIM) and (not own or BY_CALL in reason):
                return  # torch's own, around the step of each optimizer that is compiled
            spot = _spot(own[-1]) if own else self._site_of.get(innermost, innermost)
            self._site_of.setdefault(innermost, spot)
        self._sites.setdefault(spot, Site(_place(spot), _reason(reason)))

    def note_error(self, error: Exception) -> None:
        """Notes that Dynamo stopped with `error`.

        Notes nothing if Dynamo refused a function before its first line: such a function is left to
        Python as a whole.
        """
        stack: Sequence[FrameSummary] | None = getattr(error, "real_stack", None)
        if stack is None or stack:
            self.note_stop(str(error), stack or ())

    def note_report(self, translator: object, *args: Any, **kwargs: Any) -> None:
        """Notes a graph break that Dynamo reports.

        Is called with the arguments of `log_graph_break`, of which one is the break's exception.
        """
        for argument in (*args, *kwargs.values()):
            if isinstance(argument, Exception):
                self.note_error(argument)

    def note_partial(self, translator: Any, *args: Any, **kwargs: Any) -> None:
        """Notes a function that Dynamo compiles up to a line and leaves to Python from there.

        Is called with the arguments of `step_graph_break`; `translator.f_code` is the function.
        """
        self.note_function(translator.f_code)

    def note_function(self, code: CodeType) -> None:
        """Notes a function that Dynamo leaves to Python; ignores those of libraries."""
        if not _is_library(code.co_filename):
            self._in_eager.setdefault(_RESUMED.sub(r"\1", code.co_qualname))

    def note_failure(self, code: CodeType, error: Exception) -> None:
        """Notes that Dynamo did not compile a function."""
        if not isinstance(error, STOPS):
            self.failure = self.failure or FAILED.format(code.co_qualname, one_line(error, 120))
        elif LIMIT_REACHED in str(error):  # not what the model does, but how often
            self.limit_hits += 1
        else:
            self.note_function(code)
            self.note_error(error)

    def close(self) -> None:
        """Ends the watch: sets `breaks`."""
        self.breaks = GraphBreaks(tuple(self._sites.values()), tuple(self._in_eager))


@contextmanager
def watch() -> Iterator[GraphBreakWatch]:
    """Watches what is compiled within the block; sets `breaks` at its end.

    The hooked functions are not torch's public interface. If one is missing, `breaks` stays None,
    which means unknown, not zero breaks.
    """
    watched = GraphBreakWatch()
    with hooked([watched]) as known:
        yield watched
    if known:
        watched.close()


@contextmanager
def hooked(watches: Sequence[GraphBreakWatch]) -> Iterator[bool]:
    """Tells all that are in `watches` at that moment what is compiled within the block.

    Yields whether torch has the hooks.
    """
    hooks = (
        (InstructionTranslatorBase, "log_graph_break", partial(_hook, watches, "note_report")),
        (InstructionTranslatorBase, "step_graph_break", partial(_hook, watches, "note_partial")),
        (convert_frame, "_compile", partial(_hook_frames, watches)),
    )
    if not all(hasattr(owner, name) for owner, name, _ in hooks):
        yield False
        return
    with ExitStack() as stack:
        for owner, name, wrapped in hooks:
            patch = mock.patch.object(owner, name, wrapped(getattr(owner, name)))
            stack.enter_context(patch)
        yield True


def _hook(
    watches: Sequence[GraphBreakWatch], note: str, function: Callable[..., Any]
) -> Callable[..., Any]:
    def observed(*args: Any, **kwargs: Any) -> Any:
        for watched in watches:
            getattr(watched, note)(*args, **kwargs)
        return function(*args, **kwargs)

    return observed


def _hook_frames(
    watches: Sequence[GraphBreakWatch], compile_frame: Callable[..., Any]
) -> Callable[..., Any]:
    """Wraps `compile_frame`, Dynamo's function that compiles a code object, to note when it fails.

    `watches` get the functions that Dynamo leaves to Python as a whole, the graph breaks for which
    it does so, and how often it reached its limit of compilations.
    """

    def compiling(code: CodeType, *args: Any, **kwargs: Any) -> Any:
        try:
            return compile_frame(code, *args, **kwargs)
        except Exception as error:  # which torch may suppress
            for watched in watches:
                watched.note_failure(code, error)
            raise

    return compiling


def _place(spot: Spot | None) -> str | None:
    return f"{Path(spot[0]).name}:{spot[1]}" if spot else None


def _reason(text: str) -> str:
    """Returns the first line of `text`, a message of Dynamo, that is not a heading.

    Headings before it, lines that end with a colon, are joined to it. Cut to REASON_MAX_LENGTH.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    leading = list(takewhile(lambda line: line.endswith(":"), lines))
    named = " ".join(lines[: len(leading) + 1])
    return named[:REASON_MAX_LENGTH] or "torch gave no reason"


def failure_reason(error: Exception, model: Model) -> str | None:
    """Returns why compiling `model` failed with `error`, in words for the user.

    The words depend on whether `model` allows graph breaks. None if `error` does not come from
    Dynamo.
    """
    if isinstance(error, FailOnRecompileLimitHit):
        last_first = compilation.recompile_reasons(reversed(get_compilation_metrics()))
        why = f"; its last reason: {last_first[0]}" if last_first else ""
        remedy = OF_SIZES if is_of_a_size("".join(last_first[:1])) else OF_VALUES
        limit = torch._dynamo.config.recompile_limit
        return GAVE_UP.format(limit=limit, why=why, remedy=remedy)
    if not isinstance(error, (*STOPS, *UNBREAKABLE)):
        return None
    may_break = model.fullgraph and not isinstance(error, UNBREAKABLE)
    return (CANNOT_TRACE if may_break else CANNOT_BREAK).format(breaks_summary([site(error)]))
