"""What a fact is: a function that looks at the device and yields rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from modescope.bench.devices.devices import Hardware
from modescope.bench.tools.selfcheck.outcomes import CheckRow


@dataclass(frozen=True)
class Place:
    """The device, its name, and whether models are small."""

    device: Hardware
    name: str
    small: bool = False


Fact = Callable[[Place], Iterator[CheckRow]]


def row(
    check: str,
    condition: str,
    found: str,
    accepted: str,
    holds: bool | None,
    value: float | None = None,
    trials: int = 1,
) -> CheckRow:
    """A row whose figure is `value`."""
    return CheckRow(check, condition, found, accepted, holds, trials, value)


def told(statement: str, confirmed: bool, found: str, value: float | None = None) -> CheckRow:
    """A row about torch, which is reported only."""
    verdict = "confirmed" if confirmed else "REFUTED"
    return CheckRow(statement, "torch", f"{verdict}: {found}", "", None, 1, value)
