"""What the hooks had counted before a watch began, and the record of what came since."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch._dynamo.utils import CompilationMetrics

from modescope.bench.evidence import compilation, compiler_switches
from modescope.bench.evidence.graph_break_watch import GraphBreakWatch
from modescope.bench.records.watched import Ask, Break, Compilation, Region, Watched
from modescope.bench.watching import torch_names
from modescope.bench.watching.asked import named
from modescope.bench.watching.hooks import Frame, Hooks
from modescope.bench.watching.pieces import Piece


class Before:
    """What the hooks had counted when a watch began, at `start_us` since the epoch."""

    def __init__(self, hooks: Hooks, start_us: float) -> None:
        self._start_us, self._start_s = start_us, time.perf_counter()
        self._frames, self._bypasses = len(hooks.frames), len(hooks.bypasses)
        self._recorded = Counter(hooks.recorded)
        self._pieces = [replace(piece, sizes=dict(piece.sizes)) for piece in hooks.pieces]
        self._asked = [replace(asked) for asked in hooks.asked]

    def complete(self, watched: Watched, hooks: Hooks, breaks: GraphBreakWatch | None) -> Watched:
        """Returns the record with all that the hooks have counted since."""
        found = breaks.breaks if breaks else None
        recorded = hooks.recorded - self._recorded
        since = [record for record in _records() if (record.start_time_us or 0) >= self._start_us]
        graph_skips = filter(None, (record.cudagraph_skip_reason for record in since))
        return replace(
            watched,
            torch_version=torch.__version__,
            compilations=tuple(self._compilations(hooks, since)),
            regions=tuple(self._regions(hooks)),
            asks=tuple(self._asks(hooks)),
            breaks=None
            if found is None
            else tuple(Break(site.place, site.reason) for site in found.sites),
            in_eager=None if found is None else found.in_eager,
            switches=compiler_switches.active(),
            cache_bypasses=tuple(dict.fromkeys(hooks.bypasses[self._bypasses :])),
            graphs_recorded=recorded.total(),
            graphs_recorded_again=recorded.total() - len(recorded),
            graph_skips=tuple(dict.fromkeys(graph_skips)),
            missing=torch_names.missing(),
        )

    def subjects(self, hooks: Hooks) -> list[Callable[[], Any]]:
        """Returns the module or function of each `Watched.asks`, or what returns None once gone."""
        return [asked.subject for asked, _ in self._called(hooks)]

    def _compilations(
        self, hooks: Hooks, records: list[CompilationMetrics]
    ) -> Iterator[Compilation]:
        """Joins the frames that were compiled with torch's records, and adds backward passes."""
        frames: dict[str, Frame] = {}
        codes: dict[int, int] = {}
        for frame in hooks.frames[self._frames :]:
            frames[frame.compile_id] = frame
            seconds = (frame.end_s or time.perf_counter()) - frame.start_s
            until_us = frame.start_us + 1e6 * seconds
            own = [
                record
                for record in records
                if record.compile_id == frame.compile_id
                and frame.start_us - 1e3 <= (record.start_time_us or 0) <= until_us
                and record.is_forward is not False
            ]
            reasons = compilation.recompile_reasons(own)
            yield Compilation(
                *frame.named,
                start_s=frame.start_s - self._start_s,
                seconds=seconds,
                thread=frame.thread,
                code=codes.setdefault(id(frame.code), len(codes)),
                reason=reasons[0] if reasons else None,
                failure=frame.failure,
            )
        for record in records:
            if record.is_forward is False and record.compile_id in frames:
                yield Compilation(
                    *frames[record.compile_id].named,
                    start_s=((record.start_time_us or 0) - self._start_us) / 1e6,
                    seconds=(record.duration_us or 0) / 1e6,
                    thread=frames[record.compile_id].thread,
                    backward=True,
                )

    def _regions(self, hooks: Hooks) -> Iterator[Region]:
        for number, piece in enumerate(hooks.pieces):
            known = number < len(self._pieces)
            before = self._pieces[number] if known else Piece(("", ""), None, "")
            if piece.calls > before.calls:
                yield Region(
                    *piece.named,
                    calls=piece.calls - before.calls,
                    seconds=piece.seconds - before.seconds,
                    arguments=piece.arguments,
                    sizes=tuple(
                        ({n: tuple(size) for n, size in zip(piece.names, key, strict=True)}, count)
                        for key, count in (
                            Counter(piece.calls_by_size()) - Counter(before.calls_by_size())
                        ).items()
                        if key
                    ),
                )

    def _called(self, hooks: Hooks) -> Iterator[tuple[Any, Any]]:
        """Yields what was asked since, or called, each with its state when the watch began."""
        for number, asked in enumerate(hooks.asked):
            before = self._asked[number] if number < len(self._asked) else None
            if before is None or asked.calls > before.calls:
                yield asked, before

    def _asks(self, hooks: Hooks) -> Iterator[Ask]:
        for asked, before in self._called(hooks):
            earlier = before.calls if before else 0
            yield Ask(
                function=asked.function,
                place=asked.place,
                code_id=" ".join(named(asked.target, asked)) if asked.target else None,
                calls=asked.calls - earlier,
                compiled_calls=asked.compiled_calls - (before.compiled_calls if before else 0),
                first_eager_call=max(0, asked.first_eager_call - earlier),
                is_module=asked.is_module,
                is_method=asked.is_method,
                is_part=asked.is_part,
                ran_itself_at=asked.ran_itself_at,
                limit_hits=asked.limit_hits - (before.limit_hits if before else 0),
            )


def _records() -> list[CompilationMetrics]:
    records = torch_names.find(torch_names.PLACES["metrics"])
    return [] if records is None else records()
