"""What mode max-autotune of torch.compile costs, and what it gains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torch import Tensor, nn
from torch._inductor.utils import fresh_cache
from torch.nn import functional

from bench.claims.chapters.reduce_overhead import Case, Model, call, documented
from bench.claims.claim import Verdict, claim, holds, inconclusive, refuted, within_limits
from bench.claims.measuring import STEADY_CALLS, first_call_s, load_compiler, speedup
from bench.devices import Hardware
from bench.stats import Estimate, verdict


class _Attention(nn.Module):
    """Scores, softmax and weights by hand, so that there are products to tune."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.softmax(x @ x.mT / 8, dim=-1) @ x


class _Normed(nn.Module):
    """A layer norm and a pointwise chain: nothing but generated kernels."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.gelu(functional.layer_norm(x, x.shape[-1:])) * 2 + 1


MODES = ("default", "reduce-overhead", "max-autotune")
TUNED = (
    Case("the document's network, batch 32", documented, (32, 1024)),
    Case("the document's network, batch 8192", documented, (8192, 1024)),
    Case("softmax between two products", _Attention, (64, 512, 64)),
    Case("layer norm and GELU", _Normed, (8192, 4096)),
)


@dataclass(frozen=True)
class Tuned:
    """max-autotune beside the other modes, by model."""

    default_s: Annotated[Mapping[str, float], "first call (one reading), default,", "s"]
    graphs_s: Annotated[Mapping[str, float], "first call (one reading), reduce-overhead,", "s"]
    tuned_s: Annotated[Mapping[str, float], "first call (one reading), max-autotune,", "s"]
    over_default: Annotated[Mapping[str, Estimate], "times as fast as default,", "x"]
    over_graphs: Annotated[Mapping[str, Estimate], "times as fast as reduce-overhead,", "x"]


def longest_and_often_best(seen: Tuned) -> Verdict:
    """Refuted if for no model max-autotune took longest to compile, or was best.

    How long compiling took is one reading each. Best means more than 1 % faster than both other
    modes, intervals included. Holds if it took longest for all models and was best for half of them
    ("often"); within limits if for fewer; undecided where intervals leave open which of these it
    is.
    """
    shorter = [
        model
        for model, s in seen.tuned_s.items()
        if s <= max(seen.default_s[model], seen.graphs_s[model])
    ]
    if len(shorter) == len(seen.tuned_s):
        return refuted("it never took longest to compile", _first_calls(shorter[0], seen))
    found = {
        model: _best(seen.over_default[model], seen.over_graphs[model]) for model in seen.tuned_s
    }
    best = [model for model, is_best in found.items() if is_best]
    unclear = [model for model, is_best in found.items() if is_best is None]
    told = (
        f"took longest to compile, in one reading each, for {len(found) - len(shorter)} of "
        f"{len(found)} models, was best for {len(best)}"
    )
    seldom = 2 * len(best) < len(found)
    if seldom and unclear:
        return inconclusive(f"{told}; intervals leave open {', '.join(unclear)}")
    if not best:
        return refuted("it was best for no model", _gains(next(iter(found)), seen))
    limits = [
        f"another mode took longer to compile: {_first_calls(each, seen)}" for each in shorter
    ]
    if seldom:
        limits += [f"not best: {_gains(each, seen)}" for each in found if each not in best]
    return within_limits(told, *limits) if limits else holds(told)


def _best(over_default: Estimate, over_graphs: Estimate) -> bool | None:
    verdicts = {verdict(over_default), verdict(over_graphs)}
    if verdicts & {"slower", "equivalent"}:
        return False
    return True if verdicts == {"faster"} else None


def _first_calls(model: str, seen: Tuned) -> str:
    return (
        f"{model}: max-autotune {seen.tuned_s[model]:.1f} s, "
        f"default {seen.default_s[model]:.1f} s, reduce-overhead {seen.graphs_s[model]:.1f} s"
    )


def _gains(model: str, seen: Tuned) -> str:
    return (
        f"{model}: {seen.over_default[model].value:.2f} times as fast as default, "
        f"{seen.over_graphs[model].value:.2f} times as reduce-overhead"
    )


@claim(
    id="autotune-best",
    statement="max-autotune has the longest compile and often the best run time",
    source=("003 §9.5 Modes",),
    needs=("cuda",),
    decide=longest_and_often_best,
    timed=True,
    compiles=True,
    limit_s=900,
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
def autotune_best(device: Hardware) -> Tuned:
    """Time of the first call in each mode, from empty caches, once what all share has been loaded.

    And the time of a call in the other modes ÷ that in max-autotune, in paired rounds, in bf16. One
    compilation each: what autotuning chooses may differ from one to the next.
    """
    with fresh_cache():
        load_compiler(device)
    seconds: dict[str, dict[str, float]] = {mode: {} for mode in MODES}
    gains: dict[str, dict[str, Estimate]] = {mode: {} for mode in MODES[:-1]}
    for case in TUNED:
        torch.compiler.reset()
        module, x = case.on(device)
        compiled = {mode: torch.compile(module, mode=mode) for mode in MODES}
        for mode, model in compiled.items():
            seconds[mode][case.what] = _first_s(model, x, device)
            for _ in range(STEADY_CALLS):
                call(model, x)
        steps = {mode: partial(call, model, x) for mode, model in compiled.items()}
        for mode in gains:
            gains[mode][case.what] = speedup(steps["max-autotune"], steps[mode], device)
    return Tuned(
        default_s=seconds["default"],
        graphs_s=seconds["reduce-overhead"],
        tuned_s=seconds["max-autotune"],
        over_default=gains["default"],
        over_graphs=gains["reduce-overhead"],
    )


def _first_s(compiled: Model, x: Tensor, device: Hardware) -> float:
    """How long a first call takes with an empty cache."""
    with fresh_cache():
        return first_call_s(partial(call, compiled, x), device)
