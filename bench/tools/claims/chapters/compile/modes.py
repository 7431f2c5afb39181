"""What modes of torch.compile add to the default one: CUDA graphs, autotuning."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch._inductor.utils import fresh_cache
from torch.nn import functional

from modescope.bench.stats.estimates import verdict
from modescope.bench.tools.claims import lab
from modescope.bench.tools.claims.measuring import STEADY_CALLS

Forward = Callable[[Tensor], Tensor]
Model = tuple[Callable[[], Forward], tuple[int, ...]]
"""What makes it, and the shape of its input."""


def _documented() -> Forward:
    """The network of 003 §9.6."""
    return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024))


def _many_small() -> Forward:
    return nn.Sequential(*(each for _ in range(20) for each in (nn.Linear(256, 256), nn.GELU())))


class _Broken(nn.Module):
    """The document's network with a graph break in its middle."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(1024, 4096), nn.Linear(4096, 1024)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        torch._dynamo.graph_break()
        y: Tensor = self.second(x)
        return y


DOCUMENTED = "the document's network, batch 32"
LARGE = "the document's network, batch 16384"
BROKEN = "the document's network with a graph break"
REPLAYED: dict[str, Model] = {
    DOCUMENTED: (_documented, (32, 1024)),
    "20 layers of 256, batch 8": (_many_small, (8, 256)),
    LARGE: (_documented, (16384, 1024)),
    BROKEN: (_Broken, (32, 1024)),
}
BIG = 1.2
"""How many times as fast a big win is at least: the document gives no number."""


@lab.claim(
    "reduce-overhead replays one CUDA graph per call in steady state, a big win for small batches",
    "003 §9.5 Modes; 003 §9.6 End-to-end example",
    needs="cuda",
    timed=True,
    compiles=True,
    limit_s=420,
    figures={
        "graphs": lab.must("CUDA graphs launched per call,", 1, "a call launches one CUDA graph"),
        "broken_graphs": lab.should(
            f"CUDA graphs launched per call, {BROKEN}", 1, "with a graph break it launches one, too"
        ),
        "with_grad_graphs": lab.should(
            "CUDA graphs launched per call with gradients on, no backward",
            1,
            "with gradients on it launches one, too",
        ),
        "gains": lab.must_lie(
            "times as fast as the default mode, [x]",
            *(BIG, math.inf),
            "gains of small batches over the default mode",
        ),
        "large_gain": f"times as fast as the default mode, {LARGE} [x]",
    },
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
def reduce_overhead_graphs(device: lab.Hardware) -> lab.Values:
    """CUDA graphs that a steady call launches, as the profiler sees them, in bf16 under no_grad.

    And the time of a call in the default mode ÷ that in reduce-overhead, in paired rounds.
    """
    # All timing comes first: profiling may slow what comes later.
    gains = {name: _gain(model, device) for name, model in REPLAYED.items() if name != BROKEN}
    graphs = {
        name: lab.work_of(_steady(model, "reduce-overhead", device), device).graph_launches
        for name, model in REPLAYED.items()
    }
    torch.compiler.reset()
    module, x = on(REPLAYED[DOCUMENTED], device)
    with_grad = partial(torch.compile(module, mode="reduce-overhead"), x)
    broken, large_gain = graphs.pop(BROKEN), gains.pop(LARGE)
    return graphs, broken, lab.work_of(with_grad, device).graph_launches, gains, large_gain


def on(model: Model, device: lab.Hardware) -> tuple[Forward, Tensor]:
    """A model with an input, both in bfloat16."""
    build, shape = model
    made, x = build(), torch.randn(shape, device=device.torch_device, dtype=torch.bfloat16)
    return made.to(x) if isinstance(made, nn.Module) else made, x


def _steady(model: Model, mode: str, device: lab.Hardware) -> lab.Step:
    """A steady call of the compiled model; what was compiled before stays."""
    module, x = on(model, device)
    step = partial(call, torch.compile(module, mode=mode), x)
    for _ in range(STEADY_CALLS):
        step()
    return step


def call(model: Forward, x: Tensor) -> Tensor:
    """As an inference is called."""
    with torch.no_grad():
        return model(x)


def _gain(model: Model, device: lab.Hardware) -> lab.Estimate:
    torch.compiler.reset()
    default = _steady(model, "default", device)
    return lab.speedup(_steady(model, "reduce-overhead", device), default, device)


def _attention(x: Tensor) -> Tensor:
    """By hand, so that there are products to tune."""
    return functional.softmax(x @ x.mT / 8, dim=-1) @ x


def _normed(x: Tensor) -> Tensor:
    """Nothing but generated kernels."""
    return functional.gelu(functional.layer_norm(x, x.shape[-1:])) * 2 + 1


TUNED: dict[str, Model] = {
    DOCUMENTED: (_documented, (32, 1024)),
    "the document's network, batch 8192": (_documented, (8192, 1024)),
    "softmax between two products": (lambda: _attention, (64, 512, 64)),
    "layer norm and GELU": (lambda: _normed, (8192, 4096)),
}
MODES = ("default", "reduce-overhead", "max-autotune")


def longest_and_often_best(o: lab.Observed) -> lab.Rule:
    """Refuted if max-autotune took longest to compile for no model, or was best for none.

    It is best where the intervals show it more than 1 % faster than both other modes. "Often" is
    for half of the models or more: if it was best for fewer, each other model is a limit, and it is
    undecided if intervals leave open whether it was best for one. A model for which it did not take
    longest is a limit, too.
    """
    shorter = o.tuned_s.only(lambda name, s: s <= max(o.default_s[name], o.graphs_s[name]))
    best = lab.Cases({name: _best(o, name) for name in o.tuned_s}, "max-autotune is best for")
    won = best.only(lambda _, is_best: is_best)
    unclear = best.only(lambda _, is_best: is_best is None)
    first, count = next(iter(best)), len(best)
    yield lab.require(
        f"it took longest to compile, in one reading each, for {count - len(shorter)} of {count}",
        len(shorter) < count,
        ", ".join(each.say(first) for each in (o.default_s, o.graphs_s, o.tuned_s)),
        "it never took longest to compile",
    )
    seldom = 2 * len(won) < count
    yield lab.undecided_if(seldom and bool(unclear), f"intervals leave open: {unclear.say_all()}")
    gains = f"{o.over_default.say(first)}, {o.over_graphs.say(first)}"
    yield lab.require(
        f"it was best for {len(won)} of {count}", bool(won), gains, "it was best for no model"
    )
    yield lab.each_a_limit(shorter, "another mode took longer: ")
    if seldom:
        yield lab.each_a_limit(best.only(lambda _, is_best: not is_best))


def _best(o: lab.Observed, name: str) -> bool | None:
    verdicts = {verdict(o.over_default[name]), verdict(o.over_graphs[name])}
    if verdicts & {"slower", "equivalent"}:
        return False
    return True if verdicts == {"faster"} else None


@lab.claim(
    "max-autotune has the longest compile and often the best run time",
    "003 §9.5 Modes",
    needs="cuda",
    timed=True,
    compiles=True,
    limit_s=900,
    rule=longest_and_often_best,
    figures={
        "default_s": "first call (one reading), default, [s]",
        "graphs_s": "first call (one reading), reduce-overhead, [s]",
        "tuned_s": "first call (one reading), max-autotune, [s]",
        "over_default": "times as fast as default, [x]",
        "over_graphs": "times as fast as reduce-overhead, [x]",
    },
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
def autotune_best(device: lab.Hardware) -> lab.Values:
    """Time of the first call in each mode, from empty caches but with the compiler loaded.

    And the time of a call in the other modes ÷ that in max-autotune, in paired rounds, in bf16. One
    compilation each: another one may choose other kernels.
    """
    with fresh_cache():
        lab.load_compiler(device)
    seconds: dict[str, dict[str, float]] = {mode: {} for mode in MODES}
    gains: dict[str, dict[str, lab.Estimate]] = {mode: {} for mode in MODES[:-1]}
    for name, model in TUNED.items():
        torch.compiler.reset()
        module, x = on(model, device)
        steps = {mode: partial(call, torch.compile(module, mode=mode), x) for mode in MODES}
        for mode, step in steps.items():
            with fresh_cache():
                seconds[mode][name] = lab.first_call_s(step, device)
            for _ in range(STEADY_CALLS):
                step()
        for mode in gains:
            gains[mode][name] = lab.speedup(steps["max-autotune"], steps[mode], device)
    return *seconds.values(), *gains.values()
