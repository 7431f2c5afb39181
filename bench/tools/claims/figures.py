"""What an experiment observes: values by name, with the labels and units that the page shows.

A claim gives each observed value a label, with its unit in brackets: `"taken by [B]"`. A mapping
is a value for each case and becomes a figure for each: `taken by x.T`. A value without a label is
for the rule alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from modescope.bench.stats.estimates import Estimate
from modescope.bench.text.tables import UNKNOWN, seconds


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


class Cases(dict[Any, Any]):
    """Observed values by case, with their label and unit."""

    def __init__(self, values: Mapping[Any, Any], label: str = "", unit: str = "") -> None:
        super().__init__(values)
        self.label, self.unit = label, unit

    @classmethod
    def labelled(cls, values: Any, label: str) -> Cases:
        """Of a label with its unit in brackets; a single value is a case without a name."""
        plain, _, unit = label.partition(" [")
        of_cases = values if isinstance(values, Mapping) else {"": values}
        return cls(of_cases, plain, unit.rstrip("]"))

    def name(self, case: Any) -> str:
        """What the figure of a case is called."""
        return f"{self.label} {case}".strip()

    @property
    def several(self) -> bool:
        """Whether it is more than a single value."""
        return list(self) != [""]

    def say(self, *chosen: Any) -> str:
        """The `chosen` cases with their values, as in a list of figures."""
        return ", ".join(_said(self.name(case), self.unit, self[case]) for case in chosen)

    def say_all(self) -> str:
        """All cases with their values."""
        return self.say(*self)

    def say_first(self) -> str:
        """The first case with its value, if there is any."""
        return self.say(*list(self)[:1])

    def only(self, chosen: Callable[[Any, Any], bool]) -> Cases:
        """The cases for which `chosen(case, value)` is true."""
        kept = {case: value for case, value in self.items() if chosen(case, value)}
        return Cases(kept, self.label, self.unit)


class Observed:
    """What an experiment returned: each value is an attribute, a mapping is `Cases`."""

    def __init__(self, labels: Mapping[str, str], values: Mapping[str, Any]) -> None:
        self._cases = {
            name: Cases.labelled(value, labels.get(name, "")) for name, value in values.items()
        }

    def __getattr__(self, name: str) -> Any:
        try:
            cases = self.__dict__["_cases"][name]
        except KeyError:
            raise AttributeError(f"not observed: {name}") from None
        return cases if cases.several else cases[""]

    def __repr__(self) -> str:
        return f"Observed({self._cases})"

    def cases(self, name: str) -> Cases:
        """A value as cases: a single one is a case without a name."""
        return self._cases[name]

    def say(self, *names: str) -> str:
        """These values with their labels, as in a list of figures."""
        return ", ".join(self.cases(name).say_all() for name in names)

    def labelled(self) -> Iterator[tuple[str, Any, str]]:
        """Label, value and unit of each figure, in the order of observation."""
        for cases in self._cases.values():
            for case, value in cases.items() if cases.label else ():
                yield cases.name(case), value, cases.unit


def figures(claim: str, device: str, observed: Observed) -> list[Figure]:
    """All figures of an observation.

    Unknown (None) has neither number nor text. Raises TypeError for a value that is none of
    numbers, texts, tuples, estimates and mappings to such.
    """
    return [figure(claim, device, *each) for each in observed.labelled()]


def figure(claim: str, device: str, label: str, value: Any, unit: str) -> Figure:
    """A value as a figure."""
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


def written(each: Figure) -> str:
    """A figure with its interval and unit."""
    if each.number is None:
        return UNKNOWN if each.text is None else each.text
    value = number(each.number, each.unit)
    if each.low is None or each.high is None:
        return value
    return f"{value} [{number(each.low, each.unit)}, {number(each.high, each.unit)}]"


def _said(label: str, unit: str, value: Any) -> str:
    """`label: value`, as in a list of figures."""
    text = written(figure("", "", label, value, unit))
    return f"{label.rstrip(',:')}: {text}" if label else text


def number(value: float, unit: str) -> str:
    """`value` in a unit of `UNITS`; another one stands behind it."""
    in_unit = UNITS.get(unit)
    return in_unit(value) if in_unit else f"{_plain(value)} {unit}"


def _plain(value: float) -> str:
    """Whole numbers as they are, others with four digits."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


# unit -> how a number in it is written
UNITS: dict[str, Callable[[float], str]] = {
    "": _plain,
    "s": seconds,
    "x": lambda value: f"{value:.{0 if float(value).is_integer() else 3}f}×",
    "share": lambda value: f"{100 * value:.3g} %",
}
