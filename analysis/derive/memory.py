"""The parts of a mode's memory, which add up to its peak.

A training step drops its gradients at its start and creates them again, so they exist between steps
but not while forward saves activations. What exists at the exact peak is unknown. The stacked bar
of a step's peak therefore shows all saved activations, and counts gradients in the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required, value_of
from modescope.bench.summary import pool_free_bytes

Parts = list[tuple[str, float]]  # of a bar: name, bytes
Sized = tuple[str, float | None]  # the same where the size may be unknown

# part of a bar -> its column: first the parts held between calls, then those of a call
_HELD = {
    "weights": "weights_bytes",
    "inputs": "input_bytes",
    "state": "optimizer_state_bytes",
    "gradients": "gradient_bytes",
    "workspaces": "workspace_bytes",
}
_COLUMNS = _HELD | {"saved": "saved_activation_bytes", "copies": "autocast_copy_bytes"}


def stack(row: Row) -> Parts:
    """Returns the parts of a row's peak as (name, bytes), first the parts that stay between calls.

    Copies cast by autocast that backward needs are counted in `saved_activation_bytes`, so they are
    a separate part only if nothing is saved. A replayed graph allocates nothing: its kernels write
    to the reserved part of its pool.
    """
    sizes = [(part, value_of(row, column)) for part, column in _HELD.items()]
    held = dict(_filled(required(row["resident_bytes"]), sizes, "kept"))
    dropped = held.pop("gradients", 0) if drops_gradients(row) else 0
    saved, copies = row["saved_activation_bytes"], row["autocast_copy_bytes"]
    taken = (("saved", saved), ("copies", None if saved else copies))
    return [
        *held.items(),
        *((("pool", free),) if (free := pool_free_bytes(row)) else ()),
        *_filled(required(row["step_peak_bytes"]) + dropped, taken, "step"),
    ]


def unlisted_bytes(row: Row, part: str) -> float | None:
    """Returns the bytes of a `part` that `stack(row)` does not list.

    0 if the row has no such memory; None if its size is unknown.
    """
    if part == "gradients" and drops_gradients(row):
        return None  # some exist at the peak, as part of the rest
    column = _COLUMNS.get(part)
    return 0 if column is None or value_of(row, column) is not None else None


def drops_gradients(row: Row) -> bool:
    """Whether the forward of a row's training step can reuse the memory of dropped gradients.

    It cannot if the gradients are in the pool of a CUDA graph, which stays reserved for the graph.
    """
    return bool(row["gradient_bytes"]) and not (predicates.on_cuda(row) and row["graph_pool_bytes"])


def _filled(whole: float, parts: Sequence[Sized], rest: str) -> Parts:
    """Returns the `parts` of known size as (name, bytes), and the remainder of `whole` as `rest`.

    Parts are cut off once their sum exceeds `whole`; parts of 0 bytes are left out.
    """
    filled: Parts = []
    for name, size_bytes in parts:
        part = min(size_bytes or 0, whole)
        filled.append((name, part))
        whole -= part
    return [(name, part) for name, part in (*filled, (rest, whole)) if part]
