"""Parses callgrind's output: counts per library, and the names of executed functions.

Format: https://valgrind.org/docs/manual/cl-format.html
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

PARTS = {
    "interpreter": r"/(lib)?python3[^/]*$",
    "bindings": r"/libtorch_python[^/]*$",
    "torch": r"/torch/lib/|/lib(torch|c10)[^/]*$",
    "system": r"",
}
"""Part of the program -> pattern of its libraries' paths; the first match counts. `bindings` parse
Python's arguments and wrap results; `torch` is dispatcher, autograd and kernels; `system` is the
rest, mostly malloc."""

_NAME = re.compile(r"(c?ob|c?fn)=(?:\((\d+)\) ?)?(.*)")


@dataclass(frozen=True)
class CallgrindProfile:
    """The code that ran while callgrind collected."""

    by_library: Mapping[str, int]  # path of a program or library -> instructions in its own code
    functions: frozenset[str]

    @property
    def total(self) -> int:
        """All instructions."""
        return sum(self.by_library.values())

    @property
    def by_part(self) -> dict[str, int]:
        """Instructions by the keys of PARTS."""
        counts = dict.fromkeys(PARTS, 0)
        for path, count in self.by_library.items():
            counts[next(p for p, text in PARTS.items() if re.search(text, path))] += count
        return counts


def parse(text: str) -> CallgrindProfile:
    """Parses one dump. Raises ValueError if its parts do not add up to its total."""
    header = dict(re.findall(r"^(positions|events|totals): *(.*)$", text, re.MULTILINE))
    positions, events = header.get("positions", "line").split(), header["events"].split()
    event = events.index("Ir")
    field = len(positions) + event  # of a line of costs
    names: dict[tuple[str, str], str] = {}  # by kind and number: a name is written only once
    current = {"ob": "", "fn": ""}
    by_library: Counter[str] = Counter()
    functions: set[str] = set()
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("calls="):
            next(lines)  # the cost of the called function, which is counted in that function
        elif named := _NAME.match(line):
            key, number, name = named.groups()
            kind = key[-2:]
            if name:
                names[kind, number] = name
            if key == kind:
                current[kind] = name or names[kind, number]
        elif line and line[0] in "+-*0123456789":  # relative and absolute positions
            fields = line.split()
            cost = int(fields[field]) if len(fields) > field else 0  # zeros at the end are left out
            by_library[current["ob"]] += cost
            functions.add(current["fn"])
    profile = CallgrindProfile(by_library, frozenset(functions))
    if profile.total != int(header["totals"].split()[event]):
        raise ValueError(
            f"callgrind counted {header['totals']} instructions, but its functions add up to "
            f"{profile.total}: this version's output format is not supported"
        )
    return profile
