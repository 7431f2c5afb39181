"""What autograd records, adds up, saves, and refuses."""

from __future__ import annotations

from functools import partial

import torch

from modescope.bench.case.memory import saved_activation_bytes, weights_bytes
from modescope.bench.devices.devices import Hardware
from modescope.bench.stats.estimates import Estimate
from modescope.bench.steps.subject import Inputs, Subject
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
from modescope.bench.tools.claims.measuring import calls, refusal
from modescope.bench.tools.claims.probing import probed


@claim("autograd's kernel runs before autocast's", "003 §1.2, §1.3; 003 §4.6")
def autograd_above_autocast(device: Hardware) -> Answer:
    """Which of autocast's and autograd's kernels runs first in three operators under autocast.

    Noted by kernels in their place. Refuted if autocast's does, undecided if one is not seen.

    import torch
    from modescope.bench.tools.claims.probing import visited
    x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        print(visited("aten::mm", (x, w)))
        y = torch.mm(x, w)
    print(y.grad_fn.name(), [node.name() for node, _ in y.grad_fn.next_functions if node])
    """
    numbers: dict[str, str] = {}
    x, keys = torch.ones(1, 4, 4), ["AutocastCPU", "AutogradCPU"]
    codes = {"mm": "torch.mm(x[0], x[0])", "bmm": "torch.bmm(x, x)"}
    codes["addmm"] = "torch.addmm(x[0], x[0], x[0])"
    for operator, code in codes.items():
        with torch.autocast("cpu", torch.bfloat16), probed(f"aten::{operator}", keys) as entered:
            calls(code, x=x)[code]()
        numbers[f"kernels of {operator}"] = " → ".join(entered)
    if not all("Autograd" in order for order in numbers.values()):
        return undecided("autograd's kernel is not seen to run", numbers)
    wrong = {label: order for label, order in numbers.items() if order.startswith("Autocast")}
    if wrong:
        return refuted("autocast's kernel runs first", numbers, wrong)
    return holds("autograd's kernel runs first", numbers)


@claim("gradients of a tensor reached by two paths add up (the a·b + a example)", "003 §6.3")
def tape_accumulates(device: Hardware) -> Answer:
    """Gradients of a = 2 and b = 3 in expressions that reach them by several paths.

    Refuted unless they are the sums over all paths, worked out by hand.

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
        found[code] = tuple(each.item() for each in gradients)
    if found != sums:
        return refuted("a gradient is not the sum over all paths", found, found)
    return holds("gradients are the sums over all paths", found)


@claim(
    "saved activations take 4 to 8 times the parameters' bytes", "002 Autograd: the dynamic tape"
)
def saved_dominate(device: Hardware) -> Answer:
    """Bytes that a forward of two transformer layers saves in training ÷ those of the parameters.

    Storages count once, parameters and inputs do not. Holds if all factors lie within 4 to 8,
    within limits if some do, refuted if none does.

    import torch
    from modescope.bench.case.memory import saved_activation_bytes, weights_bytes
    from modescope.bench.steps.subject import Inputs, Subject
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

    Refuted if it does not after one of them. After one by numpy that is a limit.

    import torch
    for change in (lambda x: x.detach().add_(1), lambda x: x.data.add_(1)):
        w = torch.full((3,), 2.0, requires_grad=True)
        x = w * 1
        y = x * x
        change(x)
        try: y.sum().backward(); print(x._version, w.grad)
        except RuntimeError as error: print(x._version, str(error)[:99])
    """
    by_torch = (
        *("x.add_(1)", "x[0].fill_(5)", "x.view(-1).add_(1)", "x.detach().add_(1)"),
        "x.data.add_(1)",
    )
    numbers = {f"raises after {code}": _raises(code) for code in by_torch}
    silent = {label: raises for label, raises in numbers.items() if not raises}
    by_numpy = {"raises after x.detach().numpy().fill(5)": _raises("x.detach().numpy().fill(5)")}
    if silent:
        return refuted("backward does not raise after each change", numbers | by_numpy, silent)
    limits = [] if all(by_numpy.values()) else [say(by_numpy)]
    return holds("backward raises after each change of x's storage", numbers | by_numpy, limits)


def _raises(code: str) -> bool:
    x = torch.full((3,), 2.0, requires_grad=True) * 1
    y = (x * x).sum()
    calls(code, x=x)[code]()
    return "modified by an inplace operation" in (refusal(y.backward) or "")


@claim("outputs of inference_mode cannot be used in autograd and track no version", "003 §7.3")
def inference_tensors(device: Hardware) -> Answer:
    """Uses beside a weight, a change, and the version of a tensor made in inference_mode.

    Refuted unless all are refused outside of it.

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
    uses = (
        *("w * y", "functional.mse_loss(w, y)", "functional.linear(y, w)"),
        *("w + y", "torch.cat((w, y))", "torch.where(y > 1, w, y)"),
    )
    tried = calls(
        *(f"({use}).sum().backward()" for use in uses),
        *("y._version", "y.add_(1)"),
        w=torch.ones(3, requires_grad=True),
        y=y,
    )
    outcomes = {code: refusal(call) or "allowed" for code, call in tried.items()}
    allowed = {code: outcome for code, outcome in outcomes.items() if outcome == "allowed"}
    if allowed:
        return refuted(f"{len(allowed)} of {len(outcomes)} are allowed", outcomes, allowed)
    return holds("each is refused", outcomes)
