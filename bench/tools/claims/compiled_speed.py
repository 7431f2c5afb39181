"""What compiling gains: CUDA graphs, autotuning, and a transformer against eager."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._inductor.utils import fresh_cache
from torch.nn import functional

from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.stats.estimates import Estimate, verdict
from modescope.bench.tools.claims.claim import Answer, claim, in_range, judged, side, undecided
from modescope.bench.tools.claims.measuring import (
    STEADY_CALLS,
    first_call_s,
    load_compiler,
    speedup,
    work_of,
)

Forward = Callable[[Tensor], Tensor]


def documented() -> Forward:
    """The network of 003 §9.6."""
    return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024))


def many_small() -> Forward:
    """Twenty layers of 256."""
    return nn.Sequential(*(each for _ in range(20) for each in (nn.Linear(256, 256), nn.GELU())))


def normed() -> Forward:
    """Nothing but generated kernels."""
    return lambda x: functional.gelu(functional.layer_norm(x, x.shape[-1:])) * 2 + 1


Model = tuple[Callable[[], Forward], tuple[int, ...]]
"""What makes it, and the shape of its input."""

SMALL: dict[str, Model] = {
    "the document's network, batch 32": (documented, (32, 1024)),
    "20 layers of 256, batch 8": (many_small, (8, 256)),
}
TUNED: dict[str, Model] = {
    "the document's network, batch 32": (documented, (32, 1024)),
    "the document's network, batch 8192": (documented, (8192, 1024)),
    "layer norm and GELU": (normed, (8192, 4096)),
}
MODES = ("default", "reduce-overhead", "max-autotune")


def compiled_call(model: Model, mode: str, device: Hardware) -> Step:
    """An inference of the model, in bfloat16; its first call compiles it in the mode."""
    build, shape = model
    x = torch.randn(shape, device=device.torch_device, dtype=torch.bfloat16)
    made = build()
    compiled = torch.compile(made.to(x) if isinstance(made, nn.Module) else made, mode=mode)

    def step() -> object:
        with torch.no_grad():
            return compiled(x)

    return step


def steady(step: Step) -> Step:
    """The step after the calls that it needs to be steady."""
    for _ in range(STEADY_CALLS):
        step()
    return step


@claim(
    "reduce-overhead replays one CUDA graph per call in steady state, a big win for small batches",
    "003 §9.5 Modes; 003 §9.6 End-to-end example",
    needs="cuda inductor",
    timed=True,
    snippet="""
        import torch
        from torch.profiler import ProfilerActivity, profile

        net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(20)]).cuda()
        f, x = torch.compile(net, mode="reduce-overhead"), torch.randn(8, 256, device="cuda")
        with torch.no_grad():
            for _ in range(4): f(x)
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen: f(x)
        print(sum(e.name.startswith("cudaGraphLaunch") for e in seen.events()), "graph launched")
    """,
)
def reduce_overhead_graphs(device: Hardware) -> Answer:
    """CUDA graphs that a steady call launches, and the time in the default mode ÷ that.

    Refuted if a call launches another number of graphs than one. Holds if all intervals of small
    batches lie above 1.2, within limits if some do: the document gives no number.
    """
    gains, launches = {}, {}
    for name, model in SMALL.items():
        torch.compiler.reset()
        default = steady(compiled_call(model, "default", device))
        graphed = steady(compiled_call(model, "reduce-overhead", device))
        gains[f"times as fast as default, {name} [x]"] = speedup(graphed, default, device)
    for name, model in SMALL.items():  # after all timing, which profiling may slow down
        step = steady(compiled_call(model, "reduce-overhead", device))
        launches[f"CUDA graphs per call, {name}"] = work_of(step, device).graph_launches
    if set(launches.values()) != {1}:
        return judged("a call launches one CUDA graph", {**gains, **launches}, launches)
    return replace(in_range(gains, 1.2, math.inf), numbers={**gains, **launches})


@claim(
    "max-autotune has the longest compile and often the best run time",
    "003 §9.5 Modes",
    needs="cuda inductor",
    timed=True,
    snippet="""
        import time, torch
        from torch.utils.benchmark import Timer

        a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        for mode in ("default", "max-autotune"):
            f = torch.compile(lambda a: (a @ a).relu(), mode=mode)
            begin = time.perf_counter()
            f(a)[0, 0].item()
            print(mode, time.perf_counter() - begin)
            print(Timer("f(a)", globals={"f": f, "a": a}).blocked_autorange().median)
    """,
)
def autotune_best(device: Hardware) -> Answer:
    """Time of the first call in each mode, from empty caches but with the compiler loaded.

    And the time of a call in the other modes ÷ that in max-autotune, in paired rounds. It is best
    if the intervals show it over 1 % faster than both. Refuted if it is best for no model, or took
    longest to compile for none. A model for which it did not is a limit, and one for which it is
    not best, if these are most.
    """
    with fresh_cache():
        load_compiler(device)
    compile_s, gains = {}, {}
    for name, model in TUNED.items():
        torch.compiler.reset()
        steps = {mode: compiled_call(model, mode, device) for mode in MODES}
        compile_s[name] = {mode: _cold_call_s(step, device) for mode, step in steps.items()}
        tuned = steady(steps.pop(MODES[-1]))
        gains[name] = {m: speedup(tuned, steady(step), device) for m, step in steps.items()}
    return longest_and_best(compile_s, gains)


def _cold_call_s(step: Step, device: Hardware) -> float:
    with fresh_cache():
        return first_call_s(step, device)


def longest_and_best(
    compile_s: Mapping[str, Mapping[str, float]], gains: Mapping[str, Mapping[str, Estimate]]
) -> Answer:
    """The verdict on first calls by mode, and on max-autotune's speedups over the other modes."""
    numbers: dict[str, float | Estimate] = {}
    for name in gains:
        first_s = compile_s[name].items()
        numbers |= {f"first call (one reading), {name}, {m} [s]": s for m, s in first_s}
        numbers |= {f"times as fast as {m}, {name} [x]": gain for m, gain in gains[name].items()}
    verdicts = {name: {verdict(gain) for gain in each.values()} for name, each in gains.items()}
    best = [name for name, found in verdicts.items() if found == {"faster"}]
    beaten = [name for name, found in verdicts.items() if found & {"slower", "equivalent"}]
    shorter = [name for name, each in compile_s.items() if max(each.values()) > each[MODES[-1]]]
    often = 2 * len(best) >= len(gains)
    if not often and len(best) + len(beaten) < len(gains):
        return undecided("intervals leave open how often it was best", numbers)
    limits = [f"another mode took longer to compile: {name}" for name in shorter]
    limits += [] if often else [f"it is not best: {name}" for name in beaten]
    because = f"it took longest to compile for {len(gains) - len(shorter)} of {len(gains)}"
    wrong = {} if best and len(shorter) < len(gains) else numbers
    return judged(f"{because}, and was best for {len(best)}", numbers, wrong, limits)


# layers, their width, heads; batch, tokens: small for a transformer that is trained, but no toys
SIZES = {"cpu": [(4, 256, 4, 8, 128)], "cuda": [(4, 512, 8, 8, 128), (4, 1024, 16, 8, 1024)]}
TIMED_S = {"cpu": 40.0, "cuda": 4.0}  # for a comparison: a step takes half a second on a core


@claim(
    "after a slow first call, compiled code runs 30 to 100 % faster than eager for typical "
    "transformer training, more for inference",
    "002 Eager vs torch.compile; 002 What does torch.compile actually do?",
    needs="cpu cuda inductor",
    timed=True,
    snippet="""
        import torch
        from timeit import repeat
        torch.set_num_threads(1)
        how = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True}
        layer, x = torch.nn.TransformerEncoderLayer(128, 4, 512, **how), torch.randn(2, 64, 128)
        model = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        both, code = (model, torch.compile(model)), "f(x).square().mean().backward()"
        eager, fast = (repeat(code, globals={"f": f, "x": x}, number=1, repeat=100) for f in both)
        print("slow first call:", fast[0] > 10 * min(eager))
        print("30 % faster or more:", min(eager) >= 1.3 * min(fast))
    """,
)
def compile_speedup(device: Hardware) -> Answer:
    """Forward and backward, and forward in inference mode, of torch's own transformer encoder.

    Compiled against eager in paired rounds, on a GPU under bf16 autocast. A size agrees if the
    first training call takes ten steps or more, training is 1.3 to 2 times as fast, and inference
    faster than that, by the intervals. Refuted if no size agrees; one that does not is a limit.
    """
    load_compiler(device)
    rows = {}
    for layers, width, heads, batch, tokens in SIZES[device.type]:
        torch.compiler.reset()
        model = transformer(layers, width, heads).to(device.torch_device)
        x = torch.randn(batch, tokens, width, device=device.torch_device)
        compiled, tensors = torch.compile(model), [*model.parameters(), x]
        train, fast_train = (partial(_train, each, tensors, device) for each in (model, compiled))
        infer, fast_infer = (partial(_infer, each, x, device) for each in (model, compiled))
        train()
        first_s, step_s = (first_call_s(step, device) for step in (fast_train, train))
        training, inference = (
            speedup(fast, slow, device, tensors, TIMED_S[device.type])
            for fast, slow in ((fast_train, train), (fast_infer, infer))
        )
        size = f"{layers} layers of {width}, {batch} × {tokens} tokens"
        rows[size] = first_s, step_s, training, inference
    return typical_gains(rows)


def transformer(layers: int, width: int, heads: int) -> nn.Module:
    """Torch's encoder, pre-norm, with GELU and without dropout, in training mode.

    In the other mode torch's encoder takes a path in eager that no other transformer has.
    """
    sizes = width, heads, 4 * width, 0.0, "gelu"
    layer = nn.TransformerEncoderLayer(*sizes, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def _train(model: Callable[..., Tensor], tensors: list[Tensor], device: Hardware) -> Tensor:
    *weights, x = tensors
    for weight in weights:
        weight.grad = None
    with _precision(device):
        loss = model(x).square().mean()
    loss.backward()
    return loss


def _infer(model: Callable[..., Tensor], x: Tensor, device: Hardware) -> Tensor:
    with torch.inference_mode(), _precision(device):
        return model(x)


def _precision(device: Hardware) -> Any:
    return torch.autocast("cuda", torch.bfloat16) if device.queues else nullcontext()


def typical_gains(rows: Mapping[str, tuple[float, float, Estimate, Estimate]]) -> Answer:
    """The verdict on first calls, steps in eager, and speedups of training and inference."""
    numbers: dict[str, float | Estimate] = {}
    disagreeing, unclear = [], []
    for size, (first_s, step_s, training, inference) in rows.items():
        numbers[f"first training call (one reading), {size} [s]"] = first_s
        numbers[f"a training step in eager (one reading), {size} [s]"] = step_s
        numbers[f"training, times as fast as eager, {size} [x]"] = training
        numbers[f"inference, times as fast as eager, {size} [x]"] = inference
        trained, more = side(training, 1.3, 2.0), "unclear"
        if training.low is not None and training.high is not None:
            more = side(inference, training.low, training.high)
        if first_s < 10 * step_s or trained in ("below", "above") or more == "below":
            disagreeing.append(size)
        elif (trained, more) != ("within", "above"):
            unclear.append(size)
    if unclear:
        return undecided(f"intervals contain a bound, or overlap: {', '.join(unclear)}", numbers)
    because = "training is 30 to 100 % faster, inference more than that"
    limits = [f"not for {size}" for size in disagreeing]
    wrong = numbers if len(disagreeing) == len(rows) else {}
    return judged(because, numbers, wrong, limits)
