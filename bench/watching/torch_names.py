"""The private names of torch that a watch needs.

A name that a version lacks is None here, and stands in the record's `missing`: what hangs on it is
then unknown, and the program runs as ever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

COMPILER = "torch._dynamo"
"""The package whose import makes compiling possible; programs import it by their first
torch.compile."""

PLACES = {
    "compile_frame": "torch._dynamo.convert_frame:_compile",
    "install_global": "torch._dynamo.output_graph:OutputGraph.install_global_unsafe",
    "ask": "torch._dynamo.eval_frame:OptimizeContext.__call__",
    "optimized_module": "torch._dynamo.eval_frame:OptimizedModule",
    "starts": "torch._dynamo.callback:CompilationCallbackHandler.run_start_callbacks",
    "ends": "torch._dynamo.callback:CompilationCallbackHandler.run_end_callbacks",
    "cleanups": "torch._dynamo.utils:CleanupManager.instance",
    "metrics": "torch._dynamo.utils:get_compilation_metrics",
    "set_metrics_limit": "torch._dynamo.utils:set_compilation_metrics_limit",
    "metrics_kept": "torch._dynamo.utils:_compilation_metrics",
    "skip_code": "torch._dynamo.eval_frame:skip_code",
}
"""What each name is called here, and where torch has it."""

INDUCTOR_GRAPH = "torch._inductor.output_code:CompiledFxGraph.__call__"
"""Runs one graph that Inductor compiled, forward or backward. Its module is imported by the first
such compilation."""

CACHE_BYPASS = "torch._inductor.codecache:BypassFxGraphCache"
"""The exception with which Inductor gives up looking for a graph in its cache."""

COMPILED = "__compiled_fn"
"""How the names begin under which Dynamo puts compiled pieces into the globals of their module."""

RECORDING = "CUDAGRAPH_RECORDING"
"""The trigger of Dynamo's callbacks for a CUDA graph that is recorded."""


def find(place: str) -> Any:
    """Returns what torch has at `place`; None if it has nothing there."""
    module, _, path = place.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found


def holder(place: str) -> tuple[Any, str]:
    """Returns the object that has the last attribute of `place`, and that attribute's name."""
    path, _, name = place.replace(":", ".").rpartition(".")
    module = place.partition(":")[0]
    inner = path.removeprefix(module).removeprefix(".")
    return (getattr(sys.modules[module], inner) if inner else sys.modules[module]), name


def is_loaded() -> bool:
    """Whether the program has imported torch, to the end: its import takes long enough to meet."""
    return hasattr(sys.modules.get("torch"), "compile")


def is_imported() -> bool:
    """Whether the program has imported the compiler."""
    return hasattr(sys.modules.get(COMPILER), "reset")  # one of the last that its import defines


def missing() -> tuple[str, ...]:
    """Returns the places that this version of torch lacks; only once the compiler is imported."""
    return tuple(place for place in PLACES.values() if find(place) is None)


def skip(*functions: Callable[..., Any]) -> None:
    """Tells Dynamo never to compile these functions, which run within compiled code."""
    skip_code = find(PLACES["skip_code"]) if is_imported() else None
    if skip_code is None:
        return
    for function in functions:
        skip_code(function.__code__)


def set_eval_frame(looks: object) -> object:
    """Sets what looks at each Python function that this thread calls; returns what did.

    None: nothing looks, so that Dynamo compiles none of them.
    """
    module = sys.modules.get("torch._C._dynamo.eval_frame")
    return module.set_eval_frame(looks) if module else None


def is_profiling() -> bool:
    """Whether a profiler of torch's is on."""
    return bool(sys.modules["torch"].autograd._profiler_enabled())


def is_in_backward() -> bool:
    """Whether this thread runs a backward pass."""
    return bool(sys.modules["torch"]._C._current_graph_task_id() != -1)


def is_seen_by_others(tensor: Any) -> bool:
    """Whether a mode or a transform such as vmap takes part in operators of `tensor`."""
    c = sys.modules["torch"]._C
    modes = c._len_torch_function_stack() + c._len_torch_dispatch_stack()
    return bool(modes or c._functorch.is_functorch_wrapped_tensor(tensor))


def begin_profile() -> None:
    """Begins to record the operators of this thread with torch's older profiler.

    Unlike the newer one it takes 10 µs, prints nothing, and does not touch a GPU's.
    """
    torch = sys.modules["torch"]
    kinds, experimental = torch.autograd.ProfilerState, torch._C._profiler._ExperimentalConfig()
    options = (False,) * 5  # shapes, memory, stacks, flops, modules
    config = torch.autograd.profiler.ProfilerConfig(kinds.CPU, *options, experimental)
    torch.autograd._enable_profiler_legacy(config)


def end_profile() -> Any:
    """Returns the events since `begin_profile`, a list for each thread."""
    return sys.modules["torch"].autograd._disable_profiler_legacy()
