"""Says what `modescope.watch` saw in a program: its time, its compiled functions, its faults."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import pandas as pd

from modescope.analysis.causes import evidence
from modescope.analysis.format import numbers
from modescope.bench import text
from modescope.bench.records.errors import is_of_a_size, shorten
from modescope.bench.records.watched import Ask, Break, Compilation, Watched
from modescope.bench.stats.estimates import Estimate, ends, is_wide

OFF = "switches torch.compile off"  # as `bench.evidence.compiler_switches` says it

KEYS = "dispatch key set mismatch"
"""A part of torch's reason where a tensor was made in another mode, such as inference_mode."""

RACE = "Unexpected recompilation"
"""A part of torch's reason where a thread compiles what another one has compiled meanwhile."""

BACKENDS = "BACKEND_MATCH"
"""A part of torch's reason where the program compiles a function in two ways."""

LIMIT = "recompile limit exceeded"
"""A part of the failure of a function that torch has compiled too often."""

NONE = (numbers.UNKNOWN,) * 2

MOST_LISTED = 20
LONGEST = 160


@dataclass(frozen=True)
class Fault:
    """One thing that keeps a program from what it asked for."""

    code: str
    texts: dict[str, str]

    def __str__(self) -> str:
        sentence, remedy = SENTENCES[self.code]
        return f"{sentence.format(**self.texts)}. {remedy.format(**self.texts)}"


SENTENCES = {
    "switched": ("{switch}", "Take it away, unless that is meant."),
    "never_called": (
        "{function} was asked to be compiled at {place}, and what torch.compile returned was never "
        "called{itself}",
        "Call what torch.compile returns, or use module.compile().",
    ),
    "passed_by": (
        "{function} was asked to be compiled at {place}, and the module itself was never called"
        "{itself}",
        "Call the module and not its forward, or compile the method that is called.",
    ),
    "never_compiled": (
        "{function}, compiled at {place}, was called {calls}, and no compiled code ran in it{why}",
        "Compile a function that torch can trace: of this one, nothing is compiled.",
    ),
    "gave_up": (
        "{function} ran in eager in {eager} of {calls} calls, from call {call} on: torch compiled "
        "it as often as its recompile_limit allows{why}",
        "{remedy}",
    ),
    "gave_up_partly": (
        "{function} runs partly in eager: torch compiled it as often as its recompile_limit "
        "allows{why}",
        "{remedy}",
    ),
    "recompiled": ("{function} was compiled again {times}, in {seconds}{why}", "{remedy}"),
    "compiled_anew": (
        "{function} was compiled {times} without a guard that failed, in {seconds}",
        "Ask torch to compile it once, outside loops, and do not reset the compiler.",
    ),
    "graph_breaks": (
        "{breaks}{where}{eager}",
        "Take the lines that break it out of the compiled function.",
    ),
    "failed": (
        "{function} failed to compile ({why})",
        "Let torch raise (suppress_errors) to see the whole error.",
    ),
    "not_cached": (
        "compiled graphs are not found in torch's cache ({why}), so each process compiles anew",
        "See docs/cold-start.md for what caches hold.",
    ),
    "graphs_skipped": ("CUDA graphs were not used: {why}", "Take that out of the compiled code."),
    "recorded_again": (
        "CUDA graphs were recorded again {times}",
        "Give calls the same sizes, and mark steps (torch.compiler.cudagraph_mark_step_begin).",
    ),
    "waited": (
        "{thread} stood at {place} while {function} was compiled, {seconds}",
        "Compile before threads need the result, by a first call outside the lock.",
    ),
}
"""What is said of each fault, and what to do."""

FOR_SIZES = "Compile for all sizes (dynamic=True), or pad to few sizes."
FOR_VALUES = "Keep a value that changes in a tensor: a number is a constant of compiled code."
FOR_THREADS = "Call it once before several threads do: each of them compiled it."
FOR_KEYS = (
    "Make tensors in the mode in which they are used: one made under inference_mode is of another "
    "kind."
)


def faults(seen: Watched) -> list[Fault]:
    """Returns the faults of a watched program, those that compile nothing first."""
    return [fault for rule in RULES for fault in rule(seen)]


def summary(seen: Watched) -> str:
    """Returns what is printed at the end of a watch."""
    parts = [
        f"compiling {_time(seen.compiling_s)}",
        f"compiled code {_time(seen.compiled_s)}",
        *([] if seen.eager_s is None else [f"eager operators {_eager(seen)}"]),
        f"{'rest' if seen.eager_s is not None else 'the rest, eager operators too,'} "
        f"{_time(seen.rest_s)}",
    ]
    lines = [f"{seen.program}: {_time(seen.wall_s)} = {' + '.join(parts)}"]
    if seen.eager_s is not None:
        lines.append(f"eager operators are from {seen.samples} samples, {_time(seen.sampled_s)}")
    if listed := functions(seen):
        rows = [
            [
                item.function, item.place,
                *((str(item.compilations), _time(item.compile_s)) if item.compile_s else NONE),
                *((str(item.calls), _time(item.compiled_s)) if item.calls else NONE),
            ]
            for item in listed[:MOST_LISTED]
        ]  # fmt: skip
        header = ("function", "at", "compiled", "in", "calls", "in compiled code")
        lines += ["", text.plain(header, rows)]
        if len(listed) > MOST_LISTED:
            lines.append(f"and {len(listed) - MOST_LISTED} more")
    if found := faults(seen):
        lines += ["", *(f"- {fault}" for fault in found)]
    if seen.missing:
        lines += ["", f"unknown in torch {seen.torch_version}: {', '.join(seen.missing)}"]
    return "\n".join(lines)


@dataclass
class Function:
    """How often a function was compiled, and how its compiled code was called."""

    function: str
    place: str
    compilations: int = 0
    compile_s: float = 0.0  # of backward passes, too
    reasons: tuple[str, ...] = ()  # torch's, for compiling again
    calls: int = 0
    compiled_s: float = 0.0


def functions(seen: Watched) -> list[Function]:
    """Returns the compiled functions, those first that ran longest in compiled code."""
    found: dict[tuple[str, str], Function] = {}
    for item in seen.compilations:
        mine = found.setdefault((item.function, item.place), Function(item.function, item.place))
        mine.compilations += not (item.backward or item.failure)
        mine.compile_s += item.seconds
        mine.reasons += (item.reason,) if item.reason else ()
    for region in seen.regions:
        key = (region.function, region.place)
        mine = found.setdefault(key, Function(*key))
        mine.calls += region.calls
        mine.compiled_s += region.seconds
    return sorted(found.values(), key=lambda item: (-item.compiled_s, -item.compile_s))


def frame(seen: Watched) -> pd.DataFrame:
    """Returns `functions` as a table."""
    columns = [column.name for column in fields(Function)]
    return pd.DataFrame([vars(item) for item in functions(seen)], columns=columns)


def _switched(seen: Watched) -> Iterator[Fault]:
    for switch in seen.switches:
        yield Fault("switched", {"switch": switch})


def _is_off(seen: Watched) -> bool:
    return any(OFF in switch for switch in seen.switches)


def _never_compiled(seen: Watched) -> Iterator[Fault]:
    running = {ask.function for ask in seen.asks if ask.compiled_calls}
    for ask in seen.asks:
        if ask.compiled_calls or ask.function in running or _is_off(seen):
            continue
        texts = {"function": ask.function, "place": ask.place, "calls": _times(ask.calls)}
        if not ask.calls and (ask.is_part or not (ask.is_module or ask.ran_itself_at)):
            continue  # it is compiled where it is called, or this run of the program has no use
        if ask.calls:
            why = next((f": {_at(stop)}" for stop in seen.breaks or ()), "")
            yield Fault("never_compiled", {**texts, "why": why})
        else:
            itself = (
                f"; its own code was called at {ask.ran_itself_at}" if ask.ran_itself_at else ""
            )
            code = "passed_by" if ask.is_method else "never_called"
            yield Fault(code, {**texts, "itself": itself})


def _gave_up(seen: Watched) -> Iterator[Fault]:
    for ask in seen.asks:
        if not ask.limit_hits:
            continue
        last = _last_reason(seen, ask)
        texts = {
            "function": ask.function, "eager": str(ask.calls - ask.compiled_calls),
            "call": str(ask.first_eager_call), "calls": str(ask.calls),
            "why": _why(last), "remedy": _remedy(last),
        }  # fmt: skip
        yield Fault("gave_up" if ask.first_eager_call else "gave_up_partly", texts)
    said = any(ask.limit_hits for ask in seen.asks)
    for item in seen.compilations:  # of functions for which the program asked before the watch
        if LIMIT in (item.failure or "") and not said:
            texts = {"function": item.function, "why": _why(item.reason)}
            yield Fault("gave_up_partly", {**texts, "remedy": _remedy(item.reason)})


def _last_reason(seen: Watched, ask: Ask) -> str | None:
    """Returns why torch last compiled what it gave up in the calls of `ask`."""
    given_up = [item for item in seen.compilations if LIMIT in (item.failure or "")]
    own = [item for item in given_up if f"{item.function} {item.place}" == ask.code_id]
    codes = {item.code for item in own or given_up}
    reasons = [item.reason for item in seen.compilations if item.reason and item.code in codes]
    return reasons[-1] if reasons else None


def _recompiled(seen: Watched) -> Iterator[Fault]:
    for function, compiled in _by_function(seen):
        again = [item for item in compiled if item.reason and BACKENDS not in item.reason]
        if any(LIMIT in (item.failure or "") for item in compiled):
            continue  # said there
        if len(again) < 2 and not any(KEYS in (item.reason or "") for item in again):
            continue  # the second compilation for another size makes code for all sizes
        last = again[-1].reason
        texts = {
            "function": function, "times": _times(len(again)),
            "seconds": _time(sum(item.seconds for item in again)),
            "why": _why(last), "remedy": _remedy(last),
        }  # fmt: skip
        yield Fault("recompiled", texts)


def _compiled_anew(seen: Watched) -> Iterator[Fault]:
    for function, compiled in _by_function(seen):
        anew = [item for item in compiled if not item.reason and not item.failure]
        if len(anew) > 1:
            seconds = _time(sum(item.seconds for item in anew[1:]))
            texts = {"function": function, "times": _times(len(anew)), "seconds": seconds}
            yield Fault("compiled_anew", texts)


def _breaks(seen: Watched) -> Iterator[Fault]:
    if not seen.breaks or not any(ask.compiled_calls for ask in seen.asks):
        return  # where nothing is compiled, that is said
    texts = {
        "breaks": numbers.counted(len(seen.breaks), "graph break", "graph breaks"),
        "where": f": {evidence.first_and_count([_at(stop) for stop in seen.breaks])}",
        "eager": f"; in eager: {', '.join(seen.in_eager)}" if seen.in_eager else "",
    }
    yield Fault("graph_breaks", texts)


def _at(stop: Break) -> str:
    return f"{stop.reason} at {stop.place}" if stop.place else stop.reason


def _failed(seen: Watched) -> Iterator[Fault]:
    for item in seen.compilations:
        if item.failure and seen.error is None and not _is_expected(item.failure):
            texts = {"function": item.function, "why": shorten(item.failure, LONGEST)}
            yield Fault("failed", texts)


def _is_expected(failure: str) -> bool:
    """Whether it is how Dynamo leaves a function to Python, which is told as a break."""
    return failure.startswith(("Unsupported", "SkipFrame", "UserError", "Recompile", "FailOn"))


def _not_cached(seen: Watched) -> Iterator[Fault]:
    for why in seen.cache_bypasses[:1]:
        yield Fault("not_cached", {"why": why})


def _graphs(seen: Watched) -> Iterator[Fault]:
    for why in seen.graph_skips:
        yield Fault("graphs_skipped", {"why": shorten(why, LONGEST)})
    if seen.graphs_recorded_again:
        yield Fault("recorded_again", {"times": _times(seen.graphs_recorded_again)})


def _waited(seen: Watched) -> Iterator[Fault]:
    for wait in seen.waits:
        texts = {
            "thread": wait.thread, "place": wait.place, "function": wait.function,
            "seconds": _time(wait.seconds),
        }  # fmt: skip
        yield Fault("waited", texts)


RULES: tuple[Callable[[Watched], Iterator[Fault]], ...] = (
    _switched, _never_compiled, _gave_up, _failed, _recompiled, _compiled_anew, _breaks,
    _not_cached, _graphs, _waited,
)  # fmt: skip


def _by_function(seen: Watched) -> list[tuple[str, list[Compilation]]]:
    by: dict[tuple[str, int], list[Compilation]] = defaultdict(list)
    for item in seen.compilations:
        if not item.backward:
            by[item.function, item.code].append(item)
    return [(function, compiled) for (function, _), compiled in by.items()]


def _why(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _remedy(reason: str | None) -> str:
    for part, remedy in ((KEYS, FOR_KEYS), (RACE, FOR_THREADS)):
        if reason and part in reason:
            return remedy
    return FOR_SIZES if reason and is_of_a_size(reason) else FOR_VALUES


def _times(count: int) -> str:
    return numbers.counted(count, "time", "times")


def _time(seconds: float) -> str:
    return numbers.duration(seconds)


def _eager(seen: Watched) -> str:
    assert seen.eager_s is not None
    found = Estimate(seen.eager_s, seen.eager_low_s, seen.eager_high_s)
    low, high = ends(found)
    if low <= 0:
        return f"at most {_time(high)}"
    return f"{_time(low)} to {_time(high)}" if is_wide(found) else numbers.duration_interval(found)
