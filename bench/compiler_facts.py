"""What did the compiler generate? Read from its code, its counters and its caches."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from torch._dynamo.utils import counters
from torch._inductor import metrics
from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import BaseSchedulerNode

from bench.findings import GeneratedCode

KERNEL_CALL = re.compile(r"^\s+(?:(?:graph_\d+_)?cpp_\w+|triton_\w+\.run)\(", re.MULTILINE)
EXTERN_CALL = re.compile(r"^\s+(?:\w+ = )?(?:extern_kernels|torch\.ops)\.[\w.]+\(", re.MULTILINE)
"""Calls in the Python wrapper that Inductor writes (torch/_inductor/codegen/wrapper.py)."""

METRICS_LOG = "torch._inductor.compile_fx.__inductor_metrics"
"""Inductor counts bytes only while this log is on (torch/_inductor/compile_fx.py)."""


@dataclass(frozen=True)
class Generated:
    """What a compilation made."""

    wrappers: int  # pieces of generated code: one per graph, two with a backward
    kernel_calls: int  # calls of generated kernels in one call of all wrappers
    extern_calls: int  # calls of operators and libraries, such as matrix products
    bytes_accessed: int | None  # read and written by all of these, as the compiler counts
    cache_hits: int  # graphs whose code came from the compiler's cache on disk
    cache_misses: int


def columns(generated: Generated | None) -> GeneratedCode:
    """As columns of a record; null where nothing was generated, or nobody looked."""
    if generated is None or generated.wrappers == 0:
        return GeneratedCode()
    return GeneratedCode(
        generated_kernels=generated.kernel_calls,
        extern_calls=generated.extern_calls,
        bytes_accessed=generated.bytes_accessed,
        compiler_cache_hits=generated.cache_hits,
        compiler_cache_misses=generated.cache_misses,
    )


class Watch:
    """Collects what is compiled while it is open."""

    def __init__(self) -> None:
        self.code: list[str] = []
        self.generated: Generated | None = None  # once it is closed


@contextmanager
def watch() -> Iterator[Watch]:
    """Watches whatever is compiled inside; the result is in `generated` afterwards.

    Code is counted, not Inductor's own counters: on a CPU `generated_kernel_count` counts attempts
    at a kernel, and `extern_calls` what was considered. Bytes come from its cache along with the
    code, if they were counted when it was stored.
    """
    seen = Watch()
    bytes_before = metrics.num_bytes_accessed
    hits, misses = _cache()
    with mock.patch.object(GraphLowering, "save_output_code", seen.code.append), _bytes_counted():
        yield seen
    hits_after, misses_after = _cache()
    seen.generated = Generated(
        wrappers=len(seen.code),
        kernel_calls=sum(len(KERNEL_CALL.findall(code)) for code in seen.code),
        extern_calls=sum(len(EXTERN_CALL.findall(code)) for code in seen.code),
        bytes_accessed=metrics.num_bytes_accessed - bytes_before or None,
        cache_hits=hits_after - hits,
        cache_misses=misses_after - misses,
    )


def _cache() -> tuple[int, int]:
    found = counters["inductor"]
    return found["fxgraph_cache_hit"], found["fxgraph_cache_miss"]


@contextmanager
def _bytes_counted() -> Iterator[None]:
    """The log on, and heard by nobody.

    Besides bytes it wants an estimated run time of each node, for which torch looks up a GPU's
    clock with nvidia-smi, within the first call that is timed here. Of single nodes that estimate
    is used nowhere else but to reorder the communication of several processes. What it keeps of the
    nodes keeps whole graphs alive, so it goes.
    """
    log = logging.getLogger(METRICS_LOG)
    level, heard = log.level, log.propagate
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        with mock.patch.object(BaseSchedulerNode, "get_estimated_runtime", _not_estimated):
            yield
    finally:
        log.setLevel(level)
        log.propagate = heard
        metrics.node_runtimes.clear()
        metrics.nodes_num_elem.clear()


def _not_estimated(node: BaseSchedulerNode) -> float:
    return 0.0
