"""Cases and records with made-up contents, which need no measurement and no torch."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any, get_args

from modescope.bench.records.cases import Case, Mode, Model, Variant
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.plans import Budget, Plan
from modescope.bench.records.results import Column, Record, columns_of
from tests.helpers.findings import assemble

CPU = DeviceFacts("cpu", "Some CPU")
H100 = DeviceFacts("cuda", "NVIDIA H100", (9, 0), 80 * 2**30)
V100 = DeviceFacts("cuda", "Tesla V100", (7, 0), 16 * 2**30)

EAGER = Mode("eager", "enabled", autocast=False, compile="none", graph=False)
AMP = Mode("amp", "inference_mode", autocast=True, compile="none", graph=False)
COMPILE = Mode("compile", "inference_mode", autocast=False, compile="default", graph=False)

BUDGET = Budget(
    name="standard",
    rank=2,
    warmup_min_s=0.05,
    warmup_max_s=1.0,
    block_s=1e-3,
    pilot_rounds=12,
    min_rounds=20,
    max_rounds=240,
    half_width=0.005,
    timed_max_s=30.0,
    clock_rounds=24,
)

MODEL = Model("mlp", "modescope.models.mlp:build")


def case(**changes: Any) -> Case:
    usual = Case(
        model=MODEL,
        shape_json='{"batch":8,"width":64}',
        variant=Variant(COMPILE, "fp32"),
        baseline=Variant(EAGER, "fp32"),
        device="cpu",
        threads=1,
    )
    return replace(usual, **changes)


CONTENTS = {
    "str": "naïve → text",
    "int": 2**62,
    "float": 0.1,
    "bool": True,
    "tuple[float, ...]": (0.1, -0.0, math.inf, 5e-324),
    "tuple[bool, ...]": (True, False),
    "tuple[str, ...]": ("drift", "", "naïve"),
}


def part(kind: Any, **given: Any) -> Any:
    """An instance of the dataclass `kind`; fields that are not given have a value of their type."""
    hints = {field.name: str(field.type).removesuffix(" | None") for field in fields(kind)}
    return kind(**{name: given.get(name, CONTENTS.get(hint)) for name, hint in hints.items()})


def plan(**given: Any) -> Plan:
    made: Plan = part(Plan, budget=part(Budget), **given)
    return made


def record(run_id: str = "run", **given: Any) -> Record:
    """A record with these columns given, and a value of its type in every other column."""
    columns = {"run_id": run_id, "status": "ok", **given}

    def value(column: Column) -> Any:
        return columns.get(column.name, getattr(part(column.group), column.name))

    made: Record = assemble(Record, value)
    return made


def blank_record(run_id: str = "run") -> Record:
    """A record with None in every column that may be None."""
    nullable = [one.name for one in columns_of(Record) if type(None) in get_args(one.hint)]
    return record(run_id, **dict.fromkeys(nullable))
