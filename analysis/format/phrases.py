"""Names and short texts made from rows. Table cells are in `cells`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from statistics import median_low
from typing import Any, TypeVar, cast

import pandas as pd

from modescope.analysis.format import numbers
from modescope.analysis.row_type import Row as Row
from modescope.analysis.rows import required, value_of
from modescope.bench.records.cases import eager_is_sane
from modescope.bench.records.columns import estimate_columns
from modescope.bench.records.cpu import instructions_text, told_name
from modescope.bench.stats.diagnostics import apart
from modescope.bench.steps.backends import captures_graphs
from modescope.bench.summary import is_smoke as is_smoke
from modescope.bench.summary import on_cuda as on_cuda

WIDTH = 132  # of a terminal's lines, in tables, too: spare columns are dropped to fit
Key = TypeVar("Key")
Member = TypeVar("Member")


def as_rows(frame: pd.DataFrame) -> list[Row]:
    """Returns the rows of `frame` as mappings, in which unknown values (NaN, NA) are None."""
    names = [str(name) for name in frame.columns]
    cells = frame.to_numpy(dtype=object, na_value=None).tolist()  # type: ignore[arg-type]
    return cast(list[Row], [dict(zip(names, values, strict=True)) for values in cells])


def captures(row: Row) -> str | None:
    """Returns what captures CUDA graphs in a row's mode, on a GPU: `hand`, `compiler` or None."""
    if row["graph"]:
        return "hand"
    given = json.loads(row.get("compile_options") or "{}")
    return "compiler" if captures_graphs(row["compile_mode"], given) else None


OF_ROUNDS = estimate_columns("speedup")
"""The columns that need more rounds than a smoke budget has."""


def shown_value(row: Any, name: str) -> Any:
    """Returns the value of column `name` in a row, or its values in a table, as shown to readers.

    A value of a column in OF_ROUNDS is shown as unknown (None; null in a table) if the row has a
    smoke budget.
    """
    if name not in OF_ROUNDS:
        return row[name]
    if isinstance(row, pd.DataFrame):
        return row[name].where(row["budget_rank"] > 0)
    return None if is_smoke(row) else row[name]


def sizes(shape: str) -> str:
    """Returns the sizes in `shape` (JSON) as text, batch and seq first: `batch 4, seq 64`."""
    first = ("batch", "seq")
    named = sorted(json.loads(shape).items(), key=lambda size: size[0] not in first)
    return ", ".join(f"{name} {size}" for name, size in named)


def work(row: Row) -> str:
    """Returns what a row computes: `transformer, batch 4, seq 64, train with sgd`."""
    return work_at(row, row["shape"])


def work_at(row: Row, shape: str) -> str:
    """Returns the text of `work` with the sizes in `shape` (JSON) in place of the row's."""
    arguments = row["model_args"] if row["model_args"] not in (None, "{}") else None
    inputs = f"inputs {row['model_inputs']}" if row["model_inputs"] else None
    varied = calls(row)
    fixed = {k: v for k, v in json.loads(shape).items() if k not in varied}
    parts = (row["model"], arguments, inputs, sizes(json.dumps(fixed)), _pass(varied), phase(row))
    return ", ".join(part for part in parts if part)


def calls(row: Row) -> dict[str, list[int]]:
    """Returns, for a row whose calls vary in size, the values of each size that varies.

    The dict has the name of the size -> its value in each call of a pass, which is the sequence of
    calls that is timed as a whole. It is empty if all calls are equal.
    """
    return json.loads(row["calls"]) if row["calls"] else {}


def first_step(row: Row) -> str:
    """Returns what the first thing timed is called: `first pass` if calls vary, or `first call`."""
    return "first pass" if row["calls"] else "first call"


def calls_of_a_step(row: Row) -> int:
    """Returns how many calls are timed together: 1, or all calls of a pass if they vary."""
    return len(next(iter(calls(row).values()), [1]))


def _pass(varied: Mapping[str, Sequence[int]]) -> str | None:
    """Describes a sequence of calls: `passes of 200 calls, seq 16 to 512 (median 70)`.

    `varied` is the result of `calls`; None if it is empty.
    """
    count = len(next(iter(varied.values()), ()))
    ranges = [
        f"{name} {min(each)} to {max(each)} (median {median_low(each)})"
        for name, each in varied.items()
    ]
    return f"passes of {count} calls, {', '.join(ranges)}" if count else None


def phase(row: Row) -> str:
    """Returns the phase and its non-default options: `train with adamw, checkpoint model`."""
    options = json.loads(row["training"] or "{}")
    optimizer = row["optimizer"] or options.get("optimizer")
    named = [f"{row['phase']} with {optimizer}" if optimizer else row["phase"]]
    named += [
        f"{name.replace('_', ' ')} {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in options.items()
        if name != "optimizer"
    ]
    return ", ".join(named)


PLACE = (
    "device", "device_name", "cpu_model", "cpu_capability", "cpu_instructions", "threads",
    "environment",
)  # fmt: skip
"""The columns that `place` reads."""


def place(row: Row, letter: bool) -> str:
    """Returns the device and its settings: `AMD EPYC, AVX2, no bf16 instructions, 1 thread`.

    `letter` adds the environment's letter, for studies with several environments. The instruction
    sets are named for a CPU only. A GPU selected by its number is named with it: `NVIDIA H200
    (cuda:1), 1 thread`.
    """
    name, device = told_name(row["device_name"], row["cpu_model"]), row["device"]
    parts = (
        f"{name} ({device})" if name and ":" in device else name or device,
        None if on_cuda(row) else instructions_text(row["cpu_capability"], row["cpu_instructions"]),
        f"{row['threads']} thread{'' if row['threads'] == 1 else 's'}",
        f"environment {row['environment']}" if letter else None,
    )
    return ", ".join(part for part in parts if part)


def baseline(row: Row) -> str:
    """Returns the mode and dtype of the baseline, such as `eager fp32`, or `no baseline`."""
    mode, dtype = row["baseline_mode"], row["baseline_dtype"]
    return "no baseline" if mode is None else f"{mode} {dtype}"


def contest(row: Row) -> str:
    """Returns the row's precision and its baseline: `fp32 against eager fp32`."""
    return f"{row['dtype']} against {baseline(row)}"


def mode(row: Row) -> str:
    """Returns the mode's name, with options that set it apart: `compile (fullgraph=false)`."""
    apart = ", ".join(filter(None, (row["apart"], padding(row))))
    return f"{row['mode']} ({apart})" if apart else str(row["mode"])


def padding(row: Row) -> str:
    """Returns how calls are padded: `seq padded to 64, 128 and 256`; empty without padding."""
    pad = json.loads(row.get("calls_pad") or "{}")
    return ", ".join(f"{name} padded to {listed(list(map(str, pad[name])))}" for name in pad)


def variant(row: Row) -> str:
    """Returns the mode and the precision: `compile fp32`."""
    return f"{mode(row)} {row['dtype']}"


def listed(names: Sequence[str]) -> str:
    """Joins names into a list: `eager, no_grad and compile`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def grouped(pairs: Iterable[tuple[Key, Member]]) -> dict[Key, list[Member]]:
    """Groups (key, member) pairs into lists by key; keys and members keep their order."""
    groups: dict[Key, list[Member]] = {}
    for key, member in pairs:
        groups.setdefault(key, []).append(member)
    return groups


def is_control(row: Row) -> bool:
    """Whether the row has the mode and precision of its own baseline."""
    return bool(row["mode"] == row["baseline_mode"] and row["dtype"] == row["baseline_dtype"])


def not_in_effect(row: Row) -> bool:
    """Whether torch is known to have run something other than the mode's name says."""
    return row["in_effect"] is not None and not row["in_effect"]


def flags(row: Row, *touching: str) -> list[str]:
    """Returns the flags of the row.

    With `touching`, only flags that make one of these figures doubtful (`derive.flags.Figure`).
    """
    if row["flags"] is None:
        return []
    if not touching:
        return list(row["flags"])
    pairs = zip(row["flags"], row["flags_touch"], strict=True)
    return [flag for flag, figure in pairs if figure in touching]


_CHECKED = {
    "checked": {"not": "not checked", "without_randomness": "checked without randomness"},
    "checked_against": dict.fromkeys(("fp32", "own"), "checked against eager"),
    "checked_inputs": {"example": "checked on the example"},
}
"""Remarks on how results were checked, by column and value."""


def checked(row: Row) -> str:
    """Returns a remark if results were not compared with float64 on fresh inputs; else empty.

    Rows of versions that did not record how results were checked have no remark.
    """
    texts = (table.get(value_of(row, column), "") for column, table in _CHECKED.items())
    return ", ".join(filter(None, texts))


def unchecked(row: Row) -> str:
    """Returns why the results of a row that is ok could not be judged; empty if they could."""
    if row["status"] != "ok" or row["checked"] != "not":
        return ""
    return row["checked_note"] or "no reason was recorded"


def accepted_error(row: Row) -> float | None:
    """Returns the largest error that the case's check accepts; None if no limit is known."""
    limits = [limit for limit in (row["error_limit"], row["max_error"]) if limit is not None]
    return max(limits) if row["error_limit"] is not None else None


def accepted_knowingly(row: Row) -> str:
    """Returns `error accepted up to 0.05` if errors pass only because of max_error; else empty."""
    error, usual, limit = row["error"], row["error_limit"], row["max_error"]
    judged = row["status"] == "ok" and row["checked"] != "not"
    if not judged or error is None or usual is None or limit is None:
        return ""
    scale, usual_scale = row["scale_error"], row["scale_error_limit"]
    usual_factor = scale is None or usual_scale is None or scale <= usual_scale
    return "" if error <= usual and usual_factor else f"error accepted up to {limit:g}"


_OF_MODEL = {
    "changed_state": "forward changes {} of the model, which is put back before every call",
    "state_left": "forward may change {} of the model, which cannot be put back",
    "dtypes_kept": "what is {} stays so in every mode",
}
"""Remarks on a model, by the column that they show."""


def model_remarks(row: Row) -> list[str]:
    """Returns remarks on what the model does beside its mode.

    It changes torch's settings or its state, keeps dtypes, compiles in eager, or fails in the
    baseline's mode.
    """
    put_back, in_calls = (
        ", ".join(json.loads(settings or "[]"))
        for settings in (row.get("settings_put_back"), row.get("settings_in_calls"))
    )
    return [
        *([f"the model changed {put_back}, which was put back"] if put_back else []),
        *([f"forward changes {in_calls} in every call"] if in_calls else []),
        *(["the model compiles a part of itself, in eager too"] if row.get("own_graphs") else []),
        *(text.format(value) for column, text in _OF_MODEL.items() if (value := row.get(column))),
        *([note] if (note := row.get("baseline_note")) else []),
    ]


def baseline_accepted(row: Row) -> str:
    """Returns a remark if the baseline's error passes only due to max_error; else empty."""
    error, limit = row["baseline_error"], row["max_error"]
    if row["status"] != "ok" or error is None or limit is None or error > limit:
        return ""
    usual, dtype = row["baseline_error_limit"], row["baseline_dtype"]
    right = eager_is_sane(error, required(dtype)) if usual is None else error <= usual
    return "" if right else f"baseline's error accepted up to {limit:g}"


def reason(row: Row) -> str:
    """Returns why a run has no result, on one line: `out of memory while compiling`."""
    return " ".join((row["reason"] or "no reason was recorded").split())


def status_and_reason(row: Row) -> str:
    """Returns status and reason of a row that is not ok: `oom: out of memory while compiling`."""
    return f"{row['status']}: {reason(row)}"


def host_slower(row: Row) -> str | None:
    """Returns how many times its usual time the host of a GPU took in a row: `2.1`.

    None on a CPU, and if the host was not slow (flag `slow_pace`). A slow host changes a ratio,
    because it lengthens what waits for it and not what the device does.
    """
    pace = row["pace"] if on_cuda(row) and "slow_pace" in flags(row) else None
    return f"{1 / pace:.1f}" if pace else None


POWER = "sw_power_cap"
"""NVML's reason for a clock that was lowered because of a limit on power."""


def power_limited(row: Row) -> str:
    """Returns `power limited (alone 781 µs)` for a row of a GPU at its limit; else empty.

    The clock then depends on what ran before, and the other side of a pair may draw less power: the
    ratio holds for calls that alternate, the time is that of the row's calls alone. So it does, as
    `other clock alone (781 µs)`, if the clock differs in these and power is not known to be why.
    """
    reasons = [*_listed(row, "throttle_reasons"), *_listed(row, "throttle_alone")]
    in_rounds_hz = [*_listed(row, "device_clock_hz")][-1:]
    alone_hz = row.get("clock_alone_hz")
    alone = numbers.duration(row.get("latency_alone_s"))
    if POWER in reasons:
        return f"power limited (alone {alone})"
    differs = any(apart(alone_hz, each) for each in in_rounds_hz)
    return f"other clock alone ({alone})" if differs else ""


def _listed(row: Mapping[str, Any], column: str) -> Sequence[Any]:
    values = row.get(column)
    return () if values is None else values


def why_left_out(row: Row) -> str | None:
    """Returns why a row is not charted or recommended; None if its result counts."""
    if row["status"] != "ok":
        return status_and_reason(row)
    if not_in_effect(row):
        return f"not in effect: {row['in_effect_note'] or 'no note was recorded'}"
    if row["in_effect"] is None:
        return "not known to have been in effect"
    if is_smoke(row):
        return f"budget={row['budget']} proves only that it runs"
    if slower := host_slower(row):
        return f"the host ran at {slower} times its usual time: undecided"
    if row["speedup_ci_low"] is None:
        return row.get("baseline_note") or "no interval: no baseline, or fewer than 12 rounds"
    return None


def paragraph(text: str) -> list[str]:
    """Wraps `text` into lines of WIDTH, all but the first indented; long words stay whole."""
    return textwrap.wrap(
        text, WIDTH, subsequent_indent="    ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def indented_paragraph(text: str) -> list[str]:
    """Wraps `text` like `paragraph`, with the first line indented too."""
    return paragraph("    " + text)
