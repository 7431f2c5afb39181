"""What an experiment saw, as figures: labelled, with units and intervals.

An observation is a frozen dataclass whose fields say what they are and in which unit:

    @dataclass(frozen=True)
    class Waited:
        add: Annotated[Estimate, "one add", "s"]
        strides: Annotated[tuple[int, ...], "strides of the transpose"]
        taken: Annotated[Mapping[str, int], "allocated by", "B"]  # one figure per key
        example: Annotated[str | None, FOR_THE_RULE]  # no figure
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.stats import Estimate

FOR_THE_RULE = ""
"""In place of a label: the rule needs it, and the page shows it in the rule's words."""


@dataclass(frozen=True)
class Figure:
    """One figure of one claim on one device: a number with its interval, or else a text."""

    claim: str
    figure: str  # what it is
    observed_on: str  # cpu | cuda
    number: float | None
    low: float | None  # 95 % interval
    high: float | None
    text: str | None
    unit: str  # s, B, x (a ratio); empty for counts and texts


def figures(claim: str, device: str, seen: Any) -> list[Figure]:
    """All figures of an observation, in the order of its fields.

    Unknown (None) has neither number nor text. Raises TypeError for a field without a label or with
    a value that is none of numbers, texts, tuples, estimates and mappings to such.
    """
    hints = typing.get_type_hints(type(seen), include_extras=True)
    return [
        _figure(claim, device, label, value, unit)
        for field in dataclasses.fields(seen)
        for label, value, unit in _labelled(
            field.name, hints[field.name], getattr(seen, field.name)
        )
        if label != FOR_THE_RULE
    ]


def _labelled(name: str, hint: Any, value: Any) -> Iterator[tuple[str, Any, str]]:
    if typing.get_origin(hint) is not typing.Annotated:
        raise TypeError(f"{name}: annotate it with a label, as in Annotated[int, 'bytes', 'B']")
    label, unit = (*hint.__metadata__, "")[:2]
    if isinstance(value, Mapping):
        yield from ((f"{label} {key}", each, unit) for key, each in value.items())
    else:
        yield label, value, unit


def _figure(claim: str, device: str, label: str, value: Any, unit: str) -> Figure:
    number = low = high = text = None
    match value:
        case None:
            pass
        case bool():
            text = "yes" if value else "no"
        case int() | float():
            number = float(value)
        case Estimate():
            number, low, high = value.value, value.low, value.high
        case str():
            text = value
        case tuple():
            text = str(value)
        case _:
            raise TypeError(f"{label}: {type(value).__name__} is no figure")
    return Figure(claim, label, device, number, low, high, text, unit)
