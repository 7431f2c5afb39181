"""What a transformer gains from being compiled, in training and in inference."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from bench.claims.claim import Verdict, claim, holds, inconclusive, refuted, within_limits
from bench.claims.measuring import first_call_s, load_compiler, speedup
from bench.devices import Hardware, Step
from bench.stats import Estimate

FASTER = (1.3, 2.0)  # 30 to 100 %
SLOW_FIRST = 10  # steps that a first call takes at least where it is called slow
TIMED_S = 4.0  # for a comparison, at most: steps of milliseconds take longer than most claims' do


@dataclass(frozen=True)
class Size:
    """Of a transformer and its input."""

    layers: int
    width: int
    heads: int
    batch: int
    tokens: int

    def __str__(self) -> str:
        layers = "1 layer" if self.layers == 1 else f"{self.layers} layers"
        return f"{layers} of {self.width}, {self.batch} × {self.tokens} tokens"


SIZES = {
    "cpu": (Size(1, 128, 4, 2, 64), Size(1, 256, 4, 2, 32)),
    "cuda": (Size(4, 512, 8, 8, 128), Size(4, 1024, 16, 8, 1024)),
}


@dataclass(frozen=True)
class Gained:
    """Compiled code against eager in the same grad mode, by size."""

    training: Annotated[Mapping[str, Estimate], "training, times as fast as eager,", "x"]
    inference: Annotated[Mapping[str, Estimate], "inference, times as fast as eager,", "x"]
    first_s: Annotated[Mapping[str, float], "first training call (one reading),", "s"]
    step_s: Annotated[Mapping[str, float], "a training step in eager (one reading),", "s"]


def faster_by_30_to_100(seen: Gained) -> Verdict:
    """A size agrees if training's interval lies within 1.3 to 2, and inference's above that.

    It disagrees if training's lies outside 1.3 to 2, or inference's below training's; where they
    contain a bound or overlap, it says nothing. Holds if all sizes agree, refuted if all disagree,
    within limits if some do, undecided if one says nothing. Refuted, too, if a first call takes
    less than ten steps of eager, in one reading each.
    """
    for size, first_s in seen.first_s.items():
        if first_s < SLOW_FIRST * seen.step_s[size]:
            step = f"a step in eager {seen.step_s[size]:.3g} s, one reading each"
            return refuted("the first call was not slow", f"{size}: {first_s:.3g} s, {step}")
    found = {size: _agrees(seen.training[size], seen.inference[size]) for size in seen.training}
    told = {size: _ratios(seen.training[size], seen.inference[size]) for size in found}
    against = [f"{size}: {told[size]}" for size, agrees in found.items() if agrees is False]
    if len(against) == len(found):
        at = f"at none of {len(found)} sizes ({'; '.join(found)})"
        return refuted(
            f"{at} is training 30 to 100 % faster and inference more than that", "; ".join(against)
        )
    if None in found.values():
        unclear = next(size for size, agrees in found.items() if agrees is None)
        return inconclusive(f"intervals contain a bound, or overlap, {unclear}: {told[unclear]}")
    because = "; ".join(f"{size}: {told[size]}" for size, agrees in found.items() if agrees)
    return within_limits(because, *against) if against else holds(because)


def _agrees(training: Estimate, inference: Estimate) -> bool | None:
    low, high = FASTER
    if training.low is None or training.high is None:
        return None
    if inference.low is None or inference.high is None:
        return None
    if training.high < low or training.low > high or inference.high < training.low:
        return False
    within = low <= training.low and training.high <= high
    return True if within and inference.low > training.high else None


def _ratios(training: Estimate, inference: Estimate) -> str:
    return f"training {_times(training)}, inference {_times(inference)}"


def _times(ratio: Estimate) -> str:
    bounds = "" if ratio.low is None else f" [{ratio.low:.2f}, {ratio.high:.2f}]"
    return f"{ratio.value:.2f}×{bounds}"


@claim(
    id="compile-speedup",
    statement="after a slow first call, compiled code runs 30 to 100 % faster than eager for "
    "typical transformer training, more for inference",
    source=("002 Eager vs torch.compile", "002 What does torch.compile actually do?"),
    needs=("cpu", "cuda"),
    decide=faster_by_30_to_100,
    timed=True,
    compiles=True,
    limit_s=420,
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
def compile_speedup(device: Hardware) -> Gained:
    """Forward and backward, and forward in inference mode, of torch's own transformer encoder.

    Compiled against eager in paired rounds, on a GPU under bf16 autocast; without dropout and the
    optimizer's step. The first compiled call is timed once, after another small compilation.
    """
    load_compiler(device)
    first_s, step_s, training, inference = {}, {}, {}, {}
    for size in SIZES[device.type]:
        torch.compiler.reset()
        model, x = _transformer(size, device), _tokens(size, device)
        compiled = torch.compile(model)
        assert isinstance(compiled, nn.Module)
        tensors = [*model.parameters(), x]
        train, infer = (
            partial(_training, x=x, device=device),
            partial(_inferring, x=x, device=device),
        )
        eager = train(model)
        eager()
        first_s[str(size)] = first_call_s(train(compiled), device)
        step_s[str(size)] = first_call_s(eager, device)
        training[str(size)] = speedup(train(compiled), eager, device, tensors, TIMED_S)
        inference[str(size)] = speedup(infer(compiled), infer(model), device, tensors, TIMED_S)
    return Gained(training, inference, first_s, step_s)


def _transformer(size: Size, device: Hardware) -> nn.Module:
    """In training mode, which without dropout computes the same.

    In the other one torch's encoder takes a path in eager that no other transformer has.
    """
    layer = nn.TransformerEncoderLayer(
        size.width,
        size.heads,
        4 * size.width,
        dropout=0.0,
        activation="gelu",
        batch_first=True,
        norm_first=True,
    )
    encoder = nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
    return encoder.to(device.torch_device)


def _tokens(size: Size, device: Hardware) -> Tensor:
    return torch.randn(size.batch, size.tokens, size.width, device=device.torch_device)


def _training(model: nn.Module, x: Tensor, device: Hardware) -> Step:
    weights = list(model.parameters())

    def step() -> object:
        for weight in weights:
            weight.grad = None
        with _precision(device):
            loss = model(x).square().mean()
        loss.backward()
        return loss

    return step


def _inferring(model: nn.Module, x: Tensor, device: Hardware) -> Step:
    def step() -> object:
        with torch.inference_mode(), _precision(device):
            return model(x)

    return step


def _precision(device: Hardware) -> AbstractContextManager[Any]:
    return torch.autocast("cuda", torch.bfloat16) if device.queues else nullcontext()
