"""Counts kernels, library calls and bytes of the code that Inductor generates."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from torch._inductor import metrics
from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import BaseSchedulerNode

from modescope.bench.records.columns import GeneratedCode

KERNEL_CALL = re.compile(r"^\s+(?:(?:graph_\d+_)?cpp_\w+|triton_\w+\.run)\(", re.MULTILINE)
EXTERN_CALL = re.compile(r"^\s+(?:\w+ = )?(?:extern_kernels|torch\.ops)\.[\w.]+\(", re.MULTILINE)
"""Calls in the Python wrapper that Inductor writes (torch/_inductor/codegen/wrapper.py)."""

FALLBACK = re.compile(r"^\s+(?:\w+ = )?torch\.ops\.([\w.]+)\(", re.MULTILINE)
"""A call of an operator of torch's dispatcher in that wrapper. The other extern calls are of
libraries."""

SYMBOLIC_SIZE = re.compile(r"^\s+s\d+ = \w+$", re.MULTILINE)
"""A line of that wrapper that takes a size from an argument. All other sizes are constants in
it."""

METRICS_LOG = "torch._inductor.compile_fx.__inductor_metrics"
"""The name of a log of Inductor, which counts bytes only while this log is on
(torch/_inductor/compile_fx.py)."""


@dataclass(frozen=True)
class Generated:
    """Facts of the code that was generated within the block of `watch`."""

    columns: GeneratedCode  # for a call of each piece of code; null where there is none
    symbolic_sizes: int | None  # sizes that are arguments of the code; None where there is none


class CodeWatch:
    """The code that is generated within the block of `watch`."""

    def __init__(self) -> None:
        self.code: list[str] = []
        self.generated: Generated | None = None  # set once it is closed


@contextmanager
def watch() -> Iterator[CodeWatch]:
    """Watches the code that is generated within the block; its end sets `generated`.

    Counts calls in the code instead of reading Inductor's counters: on a CPU
    `generated_kernel_count` and `extern_calls` also count what was considered and not used. Bytes
    of cached code come from the cache, if they were counted when it was stored.
    """
    watched = CodeWatch()
    bytes_before = metrics.num_bytes_accessed
    saving = mock.patch.object(GraphLowering, "save_output_code", watched.code.append)
    with saving, _log_bytes():
        yield watched
    text = "\n".join(watched.code)
    columns = GeneratedCode(
        generated_kernels=len(KERNEL_CALL.findall(text)),
        extern_calls=len(EXTERN_CALL.findall(text)),
        fallback_kernels=json.dumps(list(dict.fromkeys(FALLBACK.findall(text)))),
        bytes_accessed=metrics.num_bytes_accessed - bytes_before or None,
    )
    watched.generated = Generated(GeneratedCode(), None)
    if watched.code:
        watched.generated = Generated(columns, len(SYMBOLIC_SIZE.findall(text)))


@contextmanager
def _log_bytes() -> Iterator[None]:
    """Turns METRICS_LOG on within the block, so that bytes are counted; shows none of its lines.

    With it on, torch also estimates each node's run time and for that reads a GPU's clock with
    nvidia-smi, within the timed first call. The estimate is replaced: torch uses it elsewhere only
    to reorder communication. Records of nodes are cleared, because they keep whole graphs alive.
    """
    log = logging.getLogger(METRICS_LOG)
    level, propagate = log.level, log.propagate
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        with mock.patch.object(BaseSchedulerNode, "get_estimated_runtime", _no_estimate):
            yield
    finally:
        log.setLevel(level)
        log.propagate = propagate
        metrics.node_runtimes.clear()
        metrics.nodes_num_elem.clear()


def _no_estimate(node: BaseSchedulerNode) -> float:
    return 0.0
