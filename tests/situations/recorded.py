"""Complaints about GPUs, as rows that a GPU would record. They are made up: no GPU measured them.

Columns hold what torch 2.13 says in each case: `cudagraph_skip_reason` of its compilation metrics
and the warning of torch/_inductor/cudagraph_utils.py.
"""

from __future__ import annotations

import json
from typing import Any

from modescope.bench.records.results import Record
from tests.helpers.studies import cuda_clocks, record
from tests.situations.table import Complaint

MUTATED = json.dumps(["skipping cudagraphs due to mutated inputs (1 instances)"])
MANY_SIZES = (
    "CUDAGraph supports dynamic shapes by recording a new graph for each distinct input size. "
    "Recording too many CUDAGraphs may lead to extra overhead. We have observed 9 distinct sizes."
)
OTHER_SIZE = "tensor 'x' size mismatch at index 1. expected 128, actual 192"


def _captured(
    name: str, speedup: float, latency_us: int, host_us: int, device_us: int, **columns: Any
) -> Record:
    """A row of reduce-overhead on a GPU."""
    return record(
        "reduce-overhead", latency_us / 1e6, speedup, model=f"custom:serving:{name}",
        first_call_s=0.1, **cuda_clocks(host_us / 1e6, device_us / 1e6), **columns,
    )  # fmt: skip


ROWS = (
    # Sizes that change: the device waits, while the host records the graph of the next size.
    _captured("padded", 0.62, 900, 880, 210, graph_launches=1, launches=0,
              torch_warnings=json.dumps([MANY_SIZES]), graph_pool_bytes=1850 * 2**20),
    # Sizes that change between the pieces of one call, for each of which torch compiled again.
    _captured("resized", 1.02, 500, 480, 300, graph_launches=3, launches=0,
              recompile_reasons=json.dumps([OTHER_SIZE]), graph_pool_bytes=640 * 2**20),
    # A cache of keys and values that is written in place: the whole model without graphs.
    _captured("cached", 1.31, 700, 690, 240, graph_launches=0, launches=84, in_effect=False,
              in_effect_note="no CUDA graph was launched in a steady call",
              cudagraph_skip_reasons=MUTATED),
    # The same in one of two pieces.
    _captured("partial", 1.04, 300, 280, 150, graph_launches=1, launches=31,
              cudagraph_skip_reasons=MUTATED),
)  # fmt: skip


def _complaint(title: str, name: str, number: int, thread: str, first: str, says: str) -> Complaint:
    row = f'model == "custom:serving:{name}"'
    return Complaint(title, "", row, number, f"pytorch/pytorch#{thread}", (first,), says)


COMPLAINTS = (
    _complaint("CUDA graphs for sizes that change", "padded", 4, "188150", "graph_per_size",
               r"a CUDA graph is recorded for each input size, 9 so far, which hold 1.81 GiB"),
    _complaint("the same for sizes that change within a call", "resized", 4, "188150",
               "graph_per_size",
               r"for each input size, several so far, .*expected 128, actual 192"),
    _complaint("was it graphed? no", "cached", 9, "124506", "not_graphed",
               r"no CUDA graph was launched, and a call makes 84 launches \(.*mutated inputs"),
    _complaint("was it graphed? in part", "partial", 9, "149944", "partly_graphed",
               r"torch left a part out of its CUDA graphs, 31 launches .*mutated inputs"),
)  # fmt: skip
