"""Where torch.compile broke its graph, and the functions that it left to Python, as records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from modescope.bench.records.cases import canonical_json


@dataclass(frozen=True)
class Site:
    """A place where the graph ends although the model continues."""

    place: str | None  # "net.py:12"; None outside the model's code
    reason: str


@dataclass(frozen=True)
class GraphBreaks:
    """The breaks of the calls that were watched."""

    sites: tuple[Site, ...]  # in order of occurrence, each once; a line may have several
    in_eager: tuple[str, ...]  # functions left to Python, as a whole or from a break on

    @property
    def columns(self) -> dict[str, Any]:
        """As columns of `bench.records.columns.Checks`."""
        return {
            "graph_breaks": len(self.sites),
            "graph_break_reasons": canonical_json([asdict(site) for site in self.sites]),
            "eager_functions": canonical_json(self.in_eager),
        }


def summary(sites: Sequence[Site]) -> str:
    """`Data-dependent branching at net.py:12 and 1 more`, for `sites` that are not empty."""
    first = sites[0]
    at = f" at {first.place}" if first.place else ""
    more = f" and {len(sites) - 1} more" if len(sites) > 1 else ""
    return f"{first.reason}{at}{more}"
