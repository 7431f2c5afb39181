"""Options of Inductor as the user writes them, and their check. Imported without torch."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

from modescope.bench.records.errors import UsageError

SECTIONS = (
    "_collective", "aot_inductor", "aot_inductor_mode", "aten_distributed_optimizations",
    "auto_chunker", "autoheuristic_collect", "autoheuristic_use", "cpp", "cuda", "cutlass",
    "eager_numerics", "halide", "lookup_table", "mtia", "rocm", "test_configs", "trace", "triton",
    "xpu",
)  # fmt: skip
"""The parts before the dot of Inductor's options, such as `triton` of `triton.cudagraphs`."""

NEAREST = 3
"""How many options a mistake is answered with."""


def flat(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `options` with the contents of SECTIONS under dotted names, as torch has them.

    `{"triton": {"cudagraphs": True}}` becomes `{"triton.cudagraphs": True}`; the command line makes
    the former of `+mode.options.triton.cudagraphs=true`.
    """
    named: dict[str, Any] = {}
    for name, value in options.items():
        inner = value if name in SECTIONS and isinstance(value, Mapping) else None
        named |= {name: value} if inner is None else {f"{name}.{k}": v for k, v in inner.items()}
    return named


def check(options_json: str) -> None:
    """Raises UsageError for the first of these options that Inductor does not have or take.

    Imports the compiler.
    """
    import torch

    config: Any = torch._inductor.config  # which replaces itself by an object
    known = {name: config.get_type(name) for name in torch._inductor.list_options()}
    for name, value in json.loads(options_json).items():
        typed = f"mode.options.{name}={json.dumps(value)}"
        kind: Any = known.get(name.replace("-", "_"))
        if name.replace("-", "_") not in known:
            near = ", ".join(nearest(name, list(known)))
            raise UsageError(f"{typed}: Inductor has no such option; the nearest are {near}")
        try:
            fits = isinstance(value, kind)
        except TypeError:  # a generic type, which torch does not check either
            continue
        if not fits:
            wanted = getattr(kind, "__name__", None) or str(kind)
            raise UsageError(f"{typed}: Inductor takes {wanted} there, not {type(value).__name__}")


def nearest(name: str, known: list[str]) -> list[str]:
    """Returns the NEAREST names of `known` that are most like `name`.

    Those with the same last part come first: `triton.cudagraphs` for `cudagraphs`.
    """
    last = name.rpartition(".")[2]
    same = [option for option in known if option.rpartition(".")[2] == last]
    alike = difflib.get_close_matches(name, known, n=NEAREST, cutoff=0.0)
    return list(dict.fromkeys([*same, *alike]))[:NEAREST]
