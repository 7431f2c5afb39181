"""Calls of different sizes (`calls=mix`): what a row recorded of each call of a pass."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import value_of
from modescope.bench.records.cases import Inference, size_name

MIX_COLUMNS = (
    "calls", "calls_pad", "first_pass_s", "compiled_calls", "size_latencies_s", "gave_up_at_call",
    "eager_calls",
)  # fmt: skip
"""The columns that `mix_of` reads."""


@dataclass(frozen=True)
class Compile:
    """A call in which torch compiled something.

    `reason` is why torch compiled the same code again, in its words; None if it gave no reason.
    """

    number: int  # of the call, from 1
    seconds: float  # of the call
    reason: str | None  # torch's, to compile again


@dataclass(frozen=True)
class Mix:
    """What a row recorded of a pass: calls of different sizes that are timed together.

    `latencies_s` maps the text of a call's size (`names`) to its seconds in later passes: first the
    case's, then the baseline's if there is one.
    """

    calls: tuple[dict[str, int], ...]  # the sizes of each, before padding
    padded: tuple[dict[str, int], ...]
    first_s: tuple[float, ...]  # time of each in the first pass
    compiles: tuple[Compile, ...]
    latencies_s: dict[str, list[float]]  # by size: later, of the case and, if any, of its baseline
    gave_up_at: int | None  # the call at which torch reached its limit of compilations
    eager: tuple[int, ...]  # numbers of the calls that run in eager since then

    @property
    def names(self) -> tuple[str, ...]:
        """The size of each call as text, which is its key in `latencies_s`."""
        return tuple(map(size_name, self.calls))

    def steady_s(self, side: int = 0) -> list[float] | None:
        """Returns the seconds of each call in later passes; None if any of them is unknown.

        `side` is 0 for the case and 1 for its baseline.
        """
        if not all(len(self.latencies_s.get(name, ())) > side for name in self.names):
            return None
        return [self.latencies_s[name][side] for name in self.names]

    @property
    def eager_share(self) -> float | None:
        """The share of a later pass's time that calls in eager take; None if it is unknown."""
        steady = self.steady_s()
        if steady is None:
            return None
        return sum(steady[number - 1] for number in self.eager) / sum(steady)

    @property
    def padding(self) -> float:
        """The elements of all calls after padding ÷ the elements before padding.

        The elements of a call are the product of the sizes that vary.
        """
        padded, own = (
            sum(math.prod(sizes.values()) for sizes in calls) for calls in (self.padded, self.calls)
        )
        return padded / own


def mix_of(row: Row) -> Mix | None:
    """Returns the pass that a row recorded; None if all its calls have the same size."""
    if not row["calls"]:
        return None
    options = Inference(row["calls"], row["calls_pad"])

    def parsed(column: str, empty: Any) -> Any:
        text = value_of(row, column)
        return json.loads(text) if text else empty

    return Mix(
        tuple(options.calls()),
        tuple(options.calls(padded=True)),
        tuple(parsed("first_pass_s", ())),
        tuple(
            Compile(entry["call"], entry["seconds"], entry["reason"])
            for entry in parsed("compiled_calls", ())
        ),
        parsed("size_latencies_s", {}),
        None if row["gave_up_at_call"] is None else int(row["gave_up_at_call"]),
        tuple(parsed("eager_calls", ())),
    )
