"""Names and short texts made from rows. Table cells are in `cells`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import Any

from modescope.analysis.format import numbers
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required, value_of
from modescope.bench.records.caches import CACHES
from modescope.bench.records.cases import COLD, COLD_WEIGHTS, WARM
from modescope.bench.records.cpu import instructions_text, told_name
from modescope.bench.records.outcomes import Checked, Status
from modescope.bench.records.tolerances import eager_is_sane
from modescope.bench.stats.diagnostics import apart

WIDTH = 132  # of a terminal's lines, in tables, too: spare columns are dropped to fit


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
    inputs = f"inputs {described_inputs(row)}" if row["model_inputs"] else None
    varied = predicates.calls(row)
    fixed = {k: v for k, v in json.loads(shape).items() if k not in varied}
    of_call = sizes(json.dumps(fixed)), _pass(varied)
    parts = (row["model"], arguments(row), inputs, *of_call, phase(row))
    return ", ".join(part for part in parts if part)


def arguments(row: Row) -> str:
    """Returns the arguments of the model's builder: `blocks 12, causal true`; empty without any."""
    return _named_values(row["model_args"])


def described_inputs(row: Row) -> str:
    """Returns the inputs that the user described: `x [8, 64]`; empty if the model has its own."""
    return _named_values(row["model_inputs"])


def _named_values(text: str | None) -> str:
    """Returns a JSON object as `name value, name value`; another value as the JSON that it is."""
    values = json.loads(text or "{}")
    if not isinstance(values, dict):
        return json.dumps(values, ensure_ascii=False)
    return ", ".join(
        f"{name} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in values.items()
    )


def first_step(row: Row) -> str:
    """Returns what the first thing timed is called: `first pass` if calls vary, or `first call`."""
    return "first pass" if row["calls"] else "first call"


def ahead_s(row: Row) -> float | None:
    """Returns how long another process took to make the mode's code ahead of time; None if none.

    It is the time to export, compile and package (`mode=aoti`), or that of the process which saves
    the compiled model (`compile_cache=aot`).
    """
    parts = [row["package_export_s"], row["package_build_s"]]
    if parts == [None, None] and predicates.is_prebuilt(row):
        parts = [row["fill_s"]]
    known = [seconds for seconds in parts if seconds is not None]
    return sum(known) if known else None


def cache(row: Row) -> str:
    """Returns the state of the compiler's caches at a first call: `cold cache`, `precompiled`."""
    return CACHES[row["compile_cache"]].label or f"{row['compile_cache']} cache"


def rung(row: Row) -> str:
    """Returns the mode with what its processes start with: `compile, warm cache`; `eager`."""
    return f"{mode(row)}, {cache(row)}" if predicates.has_cache(row) else mode(row)


def setup_s(row: Row) -> float | None:
    """Returns the time of the first call and of what was made ahead of it; None if unknown."""
    first_s = row["first_call_s"]
    return None if first_s is None else first_s + (ahead_s(row) or 0.0)


def first_time(row: Row) -> str:
    """Returns `first call of 7.2 s`; or `build ahead of time of 31 s and first call of 20 ms`."""
    built_s, first = ahead_s(row), f"{first_step(row)} of {numbers.duration(row['first_call_s'])}"
    if built_s is None:
        return first
    return f"build ahead of time of {numbers.duration(built_s)} and {first}"


def _pass(varied: Mapping[str, Sequence[int]]) -> str | None:
    """Describes a sequence of calls: `passes of 200 calls, seq 16 to 512 (median 70)`.

    `varied` is the result of `calls`; None if it is empty.
    """
    count = len(next(iter(varied.values()), ()))
    ranges = [
        f"{name} {min(values)} to {max(values)} (median {median_low(values)})"
        for name, values in varied.items()
    ]
    return f"passes of {count} calls, {', '.join(ranges)}" if count else None


def data(row: Row) -> str:
    """Returns what the calls found in no cache: `cold weights`; or `warm data`."""
    return _DATA[row.get("data") or WARM]


_DATA = {WARM: "warm data", COLD: "cold data", COLD_WEIGHTS: "cold weights"}


def from_cache(rows: Sequence[Row]) -> str | None:
    """Says that the data of calls fit into the last-level cache, and how large they are at most.

    `rows` of one work; None if they do not fit, are evicted, or nothing is known of them.
    """
    known = [(row["working_set_bytes"], row["last_level_bytes"]) for row in rows]
    sizes_bytes = [used for used, last in known if used is not None and last and used <= last]
    if not known or len(sizes_bytes) < len(known) or any(row["data"] is not None for row in rows):
        return None
    return f"data from the cache ({numbers.size(max(sizes_bytes))})"


def phase(row: Row) -> str:
    """Returns the phase and its non-default options: `train with adamw, checkpoint model`.

    Data that are evicted before each call belong to it: `inference with cold weights`.
    """
    options = json.loads(row["training"] or "{}")
    optimizer = row["optimizer"] or options.get("optimizer")
    cold = data(row) if row.get("data") else None
    ingredients = " and ".join(filter(None, (optimizer, cold)))
    named = [" with ".join(filter(None, (row["phase"], ingredients)))]
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


def device(row: Row) -> str:
    """Returns the device's name: `Intel Xeon (6/207)`; one selected by number: `H200 (cuda:1)`."""
    name, number = told_name(row["device_name"], row["cpu_model"]), row["device"]
    return f"{name} ({number})" if name and ":" in number else name or number


def place(row: Row, letter: bool) -> str:
    """Returns the device and its settings: `AMD EPYC, AVX2, no bf16 instructions, 1 thread`.

    `letter` adds the environment's letter, for studies with several environments. The instruction
    sets are named for a CPU only.
    """
    parts = (
        device(row),
        None
        if predicates.on_cuda(row)
        else instructions_text(row["cpu_capability"], row["cpu_instructions"]),
        f"{row['threads']} thread{'' if row['threads'] == 1 else 's'}",
        f"environment {row['environment']}" if letter else None,
    )
    return ", ".join(part for part in parts if part)


def baseline(row: Row) -> str:
    """Returns the mode and dtype of the baseline, such as `eager fp32`, or `no baseline`."""
    mode, dtype = row["baseline_mode"], row["baseline_dtype"]
    return "no baseline" if mode is None else f"{mode} {dtype}"


def precision(row: Row) -> str:
    """Returns the dtype, with how weights have fewer bits: `fp32`, `fp32 with int8-dynamic`."""
    return f"{row['dtype']} with {row['quantize']}" if row["quantize"] else row["dtype"]


def contest(row: Row) -> str:
    """Returns the row's precision and its baseline: `fp32 against eager fp32`."""
    return f"{precision(row)} against {baseline(row)}"


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


_CHECKED: dict[str, dict[str, str]] = {
    "checked": {
        Checked.NOT: "not checked",
        Checked.WITHOUT_RANDOMNESS: "checked without randomness",
    },
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


def accepted_knowingly(row: Row) -> str:
    """Returns `error accepted up to 0.05` if errors pass only because of max_error; else empty."""
    error, usual, limit = row["error"], row["error_limit"], row["max_error"]
    judged = row["status"] == Status.OK and row["checked"] != Checked.NOT
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
    if row["status"] != Status.OK or error is None or limit is None or error > limit:
        return ""
    usual, dtype = row["baseline_error_limit"], row["baseline_dtype"]
    right = eager_is_sane(error, required(dtype)) if usual is None else error <= usual
    return "" if right else f"baseline's error accepted up to {limit:g}"


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
        return "power limited" if alone == numbers.UNKNOWN else f"power limited (alone {alone})"
    differs = any(apart(alone_hz, clock_hz) for clock_hz in in_rounds_hz)
    return f"other clock alone ({alone})" if differs else ""


def _listed(row: Mapping[str, Any], column: str) -> Sequence[Any]:
    values = row.get(column)
    return () if values is None else values


def paragraph(text: str) -> list[str]:
    """Wraps `text` into lines of WIDTH, all but the first indented; long words stay whole."""
    return textwrap.wrap(
        text, WIDTH, subsequent_indent="    ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def indented_paragraph(text: str) -> list[str]:
    """Wraps `text` like `paragraph`, with the first line indented too."""
    return paragraph("    " + text)
