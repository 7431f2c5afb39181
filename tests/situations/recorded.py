"""Complaints about GPUs, as rows that a GPU would record. They are made up: no GPU measured them.

Columns hold what torch 2.13 says in each case: `cudagraph_skip_reason` of its compilation metrics
and the warning of torch/_inductor/cudagraph_utils.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.helpers.studies import cuda_clocks, record, save
from tests.situations.table import Complaint

MIB = 2**20
MUTATED = "skipping cudagraphs due to mutated inputs (1 instances)"
MANY_SIZES = (
    "CUDAGraph supports dynamic shapes by recording a new graph for each distinct input size. "
    "Recording too many CUDAGraphs may lead to extra overhead. We have observed 9 distinct sizes."
)
OTHER_SIZE = "tensor 'x' size mismatch at index 1. expected 128, actual 192"

PADDED = "custom:serving:padded"
RESIZED = "custom:serving:resized"
CACHED = "custom:serving:cached"
PARTIAL = "custom:serving:partial"


def _captured(model: str, speedup: float, clocks: Any, **columns: Any) -> Any:
    """A row of reduce-overhead on a GPU."""
    return record(
        "reduce-overhead", clocks.pop("latency_s"), speedup, model=model, first_call_s=0.1,
        **clocks, **columns,
    )  # fmt: skip


def _clocks(latency_s: float, host_s: float, device_s: float) -> dict[str, Any]:
    return {"latency_s": latency_s, **cuda_clocks(host_s, device_s)}


ROWS = (
    # Sizes that change: the device waits, while the host records the graph of the next size.
    _captured(
        PADDED, 0.62, _clocks(900e-6, 880e-6, 210e-6), graph_launches=1, launches=0,
        torch_warnings=json.dumps([MANY_SIZES]), graph_pool_bytes=1850 * MIB,
    ),
    # Sizes that change between the pieces of one call, for each of which torch compiled again.
    _captured(
        RESIZED, 1.02, _clocks(500e-6, 480e-6, 300e-6), graph_launches=3, launches=0,
        recompile_reasons=json.dumps([OTHER_SIZE]), graph_pool_bytes=640 * MIB,
    ),
    # A cache of keys and values that is written in place: the whole model without graphs.
    _captured(
        CACHED, 1.31, _clocks(700e-6, 690e-6, 240e-6), graph_launches=0, launches=84,
        in_effect=False, in_effect_note="no CUDA graph was launched in a steady call",
        cudagraph_skip_reasons=json.dumps([MUTATED]),
    ),
    # The same in one of two pieces.
    _captured(
        PARTIAL, 1.04, _clocks(300e-6, 280e-6, 150e-6), graph_launches=1, launches=31,
        cudagraph_skip_reasons=json.dumps([MUTATED]),
    ),
)  # fmt: skip

COMPLAINTS = (
    Complaint("CUDA graphs for sizes that change", "", f'model == "{PADDED}"', 4,
              "pytorch/pytorch#188150", ("graph_per_size",),
              r"a CUDA graph is recorded for each input size, 9 so far, which hold 1.81 GiB"),
    Complaint("the same for sizes that change within a call", "", f'model == "{RESIZED}"', 4,
              "pytorch/pytorch#188150", ("graph_per_size",),
              r"for each input size, several so far, .*expected 128, actual 192"),
    Complaint("was it graphed? no", "", f'model == "{CACHED}"', 9, "pytorch/pytorch#124506",
              ("not_graphed",),
              r"no CUDA graph was launched, and a call makes 84 launches \(.*mutated inputs"),
    Complaint("was it graphed? in part", "", f'model == "{PARTIAL}"', 9, "pytorch/pytorch#149944",
              ("partly_graphed",),
              r"torch left a part out of its CUDA graphs, 31 launches of a call "
              r"\(.*mutated inputs"),
)  # fmt: skip


def study(folder: Path) -> Path:
    """Saves the rows as a study, and returns its folder."""
    return save(ROWS, folder)
