"""Claims about autograd, the casts of autocast, and gradient scaling."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter, functional
from torch.utils._python_dispatch import TorchDispatchMode

from modescope.bench.devices.devices import Hardware
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.passes.memory import CASTS, saved_activation_bytes, weights_bytes
from modescope.bench.stats.estimates import Estimate
from modescope.bench.tools.claims.claim import (
    Answer,
    claim,
    holds,
    in_range,
    refuted,
    say,
    undecided,
)
from modescope.bench.tools.claims.compiled_speed import transformer
from modescope.bench.tools.claims.dispatch import probed
from modescope.bench.tools.claims.measuring import calls, refusal


@claim("autograd's kernel runs before autocast's", "003 §1.2, §1.3; 003 §4.6")
def autograd_above_autocast(device: Hardware) -> Answer:
    """The order in which three operators under autocast call the kernels of autograd and autocast.

    import torch
    from modescope.bench.tools.claims.dispatch import visited
    x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        print(visited("aten::mm", (x, w)))
        y = torch.mm(x, w)
    print(y.grad_fn.name(), [node.name() for node, _ in y.grad_fn.next_functions if node])
    """
    numbers: dict[str, str] = {}
    x, keys = torch.ones(4, 4), ["AutocastCPU", "AutogradCPU"]
    for name, arguments in (("mm", (x, x)), ("addmm", (x, x, x)), ("bmm", (x[None], x[None]))):
        with torch.autocast("cpu", torch.bfloat16), probed(f"aten::{name}", keys) as entered:
            getattr(torch, name)(*arguments)
        numbers[f"kernels of {name}"] = " → ".join(entered)
    if not all("Autograd" in order for order in numbers.values()):
        return undecided("autograd's kernel is not seen to run", numbers)
    if any(order.startswith("Autocast") for order in numbers.values()):
        return refuted("autocast's kernel runs first", numbers)
    return holds("autograd's kernel runs first", numbers)


@claim("gradients of a tensor reached by two paths add up (the a·b + a example)", "003 §6.3")
def tape_accumulates(device: Hardware) -> Answer:
    """Gradients for a = 2 and b = 3, and the sums over all paths worked out by hand.

    import torch
    a = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor(3.0, requires_grad=True)
    d = a * b + a
    a.register_hook(lambda gradient: print("a gets", gradient))
    d.backward()
    print(a.grad, b.grad)
    """
    sums = {
        "a * b + a": (4.0, 2.0),
        "a * a + b": (4.0, 1.0),
        "a + a + a - b": (3.0, -1.0),
        "(a * b) * (a * b)": (36.0, 24.0),
    }
    found = {}
    for code in sums:
        a, b = (torch.tensor(value, requires_grad=True) for value in (2.0, 3.0))
        y = calls(code, a=a, b=b)[code]()
        gradients = torch.autograd.grad(y, (a, b), materialize_grads=True)
        found[code] = tuple(gradient.item() for gradient in gradients)
    if found != sums:
        return refuted("a gradient is not the sum over all paths", found)
    return holds("gradients are the sums over all paths", found)


@claim(
    "saved activations take 4 to 8 times the parameters' bytes", "002 Autograd: the dynamic tape"
)
def saved_dominate(device: Hardware) -> Answer:
    """Bytes that a training forward of two transformer layers saves ÷ bytes of the parameters.

    Each storage counts once. Parameters and inputs do not count.

    import torch
    from modescope.bench.passes.memory import saved_activation_bytes, weights_bytes
    from modescope.bench.model.subject import Inputs, Subject
    layer = torch.nn.TransformerEncoderLayer(128, 2, 512, dropout=0.0, batch_first=True)
    for shape in ((1, 128, 128), (8, 64, 128), (8, 512, 128)):
        subject = Subject(layer, Inputs((torch.ones(shape),), {}))
        saved = saved_activation_bytes(lambda: layer(*subject.inputs.args), subject)
        print(shape, f"{saved / weights_bytes(layer):.1f} times the parameters")
    """
    model = transformer(layers=2, width=128, heads=2)
    factors = {}
    for sequences, length in ((1, 128), (8, 64), (8, 128), (16, 128), (4, 512)):
        subject = Subject(model, Inputs((torch.rand(sequences, length, 128),), {}))
        saved = saved_activation_bytes(partial(model, *subject.inputs.args), subject)
        weights = weights_bytes(model)
        assert saved is not None
        assert weights is not None
        factor = saved / weights
        label = f"saved ÷ parameters, {sequences} × {length} tokens"
        factors[label] = Estimate(factor, factor, factor)
    return in_range(factors, 4, 8)


@claim(
    "each storage carries a version counter; in-place change of a saved tensor raises in backward",
    "003 §6.6",
)
def version_counter(device: Hardware) -> Answer:
    """Whether backward of x * x, which saves x, raises after changes of x and of its storage.

    import torch
    for change in (lambda x: x.detach().add_(1), lambda x: x.data.add_(1)):
        w = torch.full((3,), 2.0, requires_grad=True)
        x = w * 1
        y = x * x
        change(x)
        try: y.sum().backward(); print(x._version, w.grad)
        except RuntimeError as error: print(x._version, str(error)[:99])
    """
    codes = "x.add_(1)", "x[0].fill_(5)", "x.view(-1).add_(1)", "x.detach().add_(1)"
    numbers = {}
    for code in (*codes, "x.data.add_(1)"):
        x = torch.full((3,), 2.0, requires_grad=True) * 1
        y = (x * x).sum()
        calls(code, x=x)[code]()
        numbers[f"after {code}"] = refusal(y.backward) or "no error"
    silent = {label: error for label, error in numbers.items() if error == "no error"}
    if silent:
        return refuted("backward does not raise after each change", numbers, silent)
    return holds("backward raises after each change of x's storage", numbers)


@claim("outputs of inference_mode cannot be used in autograd and track no version", "003 §7.3")
def inference_tensors(device: Hardware) -> Answer:
    """Which uses of a tensor made in inference_mode are refused outside of it.

    Tried are backward of operations with a weight, a change in place, and reading the version.

    import torch
    w = torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        y = torch.ones(3) * 2
    (w + y).sum().backward()
    print(y.is_inference(), w.grad)
    try: (w * y).sum().backward()
    except RuntimeError as error: print(str(error)[:50])
    """
    with torch.inference_mode():
        y = torch.ones(3) * 2
    w = torch.ones(3, requires_grad=True)
    uses = ["w * y", "functional.mse_loss(w, y)", "functional.linear(y, w)"]
    uses += ["w + y", "torch.cat((w, y))", "torch.where(y > 1, w, y)"]
    codes = [f"({use}).sum().backward()" for use in uses]
    tried = calls(*codes, "y._version", "y.add_(1)", w=w, y=y)
    outcomes = {code: refusal(call) or "allowed" for code, call in tried.items()}
    allowed = {code: outcome for code, outcome in outcomes.items() if outcome == "allowed"}
    if allowed:
        return refuted(f"{len(allowed)} of {len(outcomes)} are allowed", outcomes, allowed)
    return holds("each is refused", outcomes)


class Counted(TorchDispatchMode):
    """Counts, while it is active, the casts of `weight` or of a view of it."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count: int = 0
        self._storage = weight.untyped_storage()._cdata

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in CASTS and args[0].untyped_storage()._cdata == self._storage:
            self.count += int(result.dtype != args[0].dtype)
        return result


@claim("a weight used twice in one autocast forward is cast once", "003 §8.2")
def autocast_cache(device: Hardware) -> Answer:
    """How often two linear layers of one forward cast the weight that they share, to bfloat16.

    More casts of other kinds of weights, or in other modes, only limit the claim.

    import torch
    from modescope.bench.tools.claims.autograd import Counted
    x, w = torch.ones(4, 4), torch.nn.Parameter(torch.ones(4, 4))
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with mode(), torch.autocast("cpu", torch.bfloat16), Counted(w) as casts:
            torch.mm(torch.mm(x, w), w)
        print(mode.__name__, casts.count)
    """

    def casts(weight: Tensor, mode: Any = nullcontext, cached: bool = True) -> int:
        counted, cast = Counted(weight), torch.autocast("cpu", torch.bfloat16, cache_enabled=cached)
        with mode(), cast, counted:
            functional.linear(functional.linear(torch.ones(4, 4), weight), weight)
        return counted.count

    w = Parameter(torch.ones(4, 4))
    usual = casts(w)
    others = {
        "casts of a parameter under no_grad": casts(w, torch.no_grad),
        "casts of a parameter in inference_mode": casts(w, torch.inference_mode),
        "casts of a frozen weight": casts(torch.ones(4, 4)),
        "casts of a parameter with cache_enabled=False": casts(w, cached=False),
    }
    numbers = {"casts of a parameter with gradients": usual, **others}
    if usual == 0:
        return undecided("a parameter with gradients is not cast at all", numbers)
    if usual > 1:
        return refuted("a parameter with gradients is cast more than once", numbers)
    limits = [say({label: count}) for label, count in others.items() if count > 1]
    return holds("a parameter with gradients is cast once", numbers, limits)


@claim("GradScaler skips the step and shrinks the scale on inf/NaN", "003 §8.3")
def scaler_skips(device: Hardware) -> Answer:
    """A step with finite gradients, and steps with inf, -inf and NaN.

    If a good step is not made after 200 bad ones, with a scale of 0, that only limits the claim.

    import torch
    w = torch.nn.Parameter(torch.ones(2))
    optimizer, scaler = torch.optim.SGD([w], lr=0.1), torch.amp.GradScaler("cpu")
    for factor in (1.0, float("inf"), float("nan"), 1.0):
        optimizer.zero_grad()
        scaler.scale((w * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        print(factor, w.tolist(), scaler.get_scale())
    """
    numbers: dict[str, object] = {}
    wrong: dict[str, object] = {}
    for factor in (1.0, math.inf, -math.inf, math.nan):
        w, scale = _scaled_steps([factor])
        moved, shrunk, label = w < 1, scale < 1024, f"parameter and scale, gradients of {factor}"
        numbers[label] = f"{w:g}, {scale:g}"
        if (moved, shrunk) != (factor == 1, factor != 1):
            wrong[label] = numbers[label]
    w, scale = _scaled_steps([math.nan] * 200 + [1.0])
    label = "parameter and scale after 200 bad steps and a good one"
    numbers[label] = f"{w:g}, {scale:g}"
    if wrong:
        return refuted("a bad step is made, or a good one is not", numbers, wrong)
    limits = [] if w < 1 else [say({label: numbers[label]})]  # it may be NaN
    return holds("good steps are made, others skipped", numbers, limits)


def _scaled_steps(factors: list[float]) -> tuple[float, float]:
    """Trains a parameter that starts at 1 by SGD with a GradScaler, a step for each of `factors`.

    The gradient of a step is its factor. Returns the parameter and the scale after all steps.
    """
    w = Parameter(torch.ones(1))
    optimizer, scaler = torch.optim.SGD([w], lr=0.1), torch.amp.GradScaler("cpu", init_scale=1024.0)
    for factor in factors:
        optimizer.zero_grad()
        scaler.scale((w * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    return w.item(), scaler.get_scale()


@claim("fp16 gradients underflow to zero without loss scaling; bf16's do not", "003 §8.3")
def scaler_underflow(device: Hardware) -> Answer:
    """A gradient of 2^k after a linear layer under autocast, with and without scaling.

    import torch
    for dtype, scaled in ((torch.float16, 0), (torch.float16, 1), (torch.bfloat16, 0)):
        w = torch.nn.Parameter(torch.ones(1, 1))
        with torch.autocast("cpu", dtype):
            y = torch.mm(torch.ones(1, 1), w)
        scaler = torch.amp.GradScaler("cpu", enabled=bool(scaled))
        scaler.scale(y.float().sum() * 1e-9).backward()
        print(dtype, "scaled" if scaled else "", w.grad.item())
    """

    def gradient(dtype: torch.dtype, k: int, scaled: bool = False) -> float:
        w = Parameter(torch.ones(1, 1))
        with torch.autocast("cpu", dtype):
            y = functional.linear(torch.ones(1, 1), w)
        scaler = torch.amp.GradScaler("cpu", enabled=scaled)
        scaler.scale((y.float() * 2.0**k).sum()).backward()
        return w.grad.item() if w.grad is not None else 0.0

    numbers = {
        "float16, 2^-30": gradient(torch.float16, -30),
        "float16 with scaling, 2^-30": gradient(torch.float16, -30, scaled=True),
        "bfloat16, 2^-30": gradient(torch.bfloat16, -30),
        "bfloat16, 2^-126, the smallest normal number": gradient(torch.bfloat16, -126),
    }
    lost, *kept = numbers.values()
    if lost or not all(kept):
        return refuted("float16 keeps 2^-30, or another loses its gradient", numbers)
    return holds("float16 loses 2^-30, the others keep theirs", numbers)
