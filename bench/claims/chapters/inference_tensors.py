"""What outputs of inference_mode are good for outside of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from bench.claims.claim import Verdict, claim, holds, refuted, within_limits
from bench.devices import Hardware

# w requires a gradient; y was made in inference_mode. What each has to give, where it is allowed.
USES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "w * y": lambda w, y: w * y,
    "mse_loss(w, y)": lambda w, y: functional.mse_loss(w, y),
    "linear(y, w)": lambda w, y: functional.linear(y, w.view(1, -1)),
    "w + y": lambda w, y: w + y,
    "torch.cat((w, y))": lambda w, y: torch.cat((w, y)),
    "torch.where(y > 1, w, y)": lambda w, y: torch.where(y > 1, w, y),
}
CHANGES: dict[str, Callable[[Tensor], object]] = {
    "y.requires_grad_()": lambda y: y.requires_grad_(),
    "y.add_(1)": lambda y: y.add_(1),
}

# outputs that are no memory of their own
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "x.view(-1)": lambda x: x.view(-1),
    "x[:2]": lambda x: x[:2],
    "x.add_(1)": lambda x: x.add_(1),
}


ALLOWED = "allowed"


@dataclass(frozen=True)
class Inference:
    """What becomes of outputs of inference_mode outside of it."""

    version: Annotated[str, "y._version"]
    uses: Annotated[Mapping[str, str], "in autograd,"]
    changes: Annotated[Mapping[str, str], "outside,"]
    views: Annotated[Mapping[str, bool], "is an inference tensor, of an x from outside,"]


def unfit_for_autograd(seen: Inference) -> Verdict:
    """Refuted if a new tensor made in inference_mode tracks a version or takes part in a backward.

    That is, if the backward of an expression with it and a tensor that requires a gradient gives a
    gradient. Within limits if only views of tensors from outside are ordinary tensors; else holds.
    """
    if seen.version == ALLOWED:
        return refuted("the version is tracked", "y._version gives a number")
    allowed = [use for use, refusal in seen.uses.items() if refusal == ALLOWED]
    if allowed:
        return refuted(
            _refused(seen.uses),
            f"with y made in inference_mode, w gets its gradient from {', '.join(allowed)}",
        )
    open_ = [change for change, refusal in seen.changes.items() if refusal == ALLOWED]
    if open_:
        return refuted("y can be changed outside", f"{open_[0]} worked")
    told = f"none of {len(seen.uses)} uses in autograd is allowed, and y has no version"
    ordinary = [view for view, marked in seen.views.items() if not marked]
    if not ordinary:
        return holds(told)
    return within_limits(told, f"of tensors from outside, {', '.join(ordinary)} are ordinary")


def _refused(uses: Mapping[str, str]) -> str:
    """Which uses are refused, by what the refusal says."""
    by_refusal: dict[str, list[str]] = {}
    for use, refusal in uses.items():
        if refusal != ALLOWED:
            by_refusal.setdefault(refusal, []).append(use)
    told = "; ".join(f"{', '.join(each)} ({refusal})" for refusal, each in by_refusal.items())
    return f"in autograd are refused: {told or 'none'}"


@claim(
    id="inference-tensors",
    statement="outputs of inference_mode cannot be used in autograd and track no version",
    source=("003 §7.3",),
    needs=("cpu",),
    decide=unfit_for_autograd,
    snippet="""
        import torch

        w = torch.ones(3, requires_grad=True)
        with torch.inference_mode():
            y = torch.ones(3) * 2
        (w + y).sum().backward()
        print(y.is_inference(), w.grad)
        try: (w * y).sum().backward()
        except RuntimeError as error: print(str(error)[:50])
    """,
)
def inference_tensors(device: Hardware) -> Inference:
    """Six expressions of a tensor made in inference_mode and a weight, with their backward.

    Then changes of it outside, its version, and what views of an ordinary tensor are that are taken
    in inference_mode.
    """
    with torch.inference_mode():
        y = torch.ones(3) * 2
    views = {}
    for name, view in VIEWS.items():
        x = torch.ones(3)
        with torch.inference_mode():
            views[name] = view(x).is_inference()
    return Inference(
        version=_refusal(lambda: y._version),
        uses={name: _refusal(partial(_backward, use, y)) for name, use in USES.items()},
        changes={name: _refusal(partial(change, y)) for name, change in CHANGES.items()},
        views=views,
    )


def _backward(use: Callable[[Tensor, Tensor], Tensor], y: Tensor) -> None:
    """Raises RuntimeError where it is refused, or where no gradient comes of it."""
    w = torch.ones(3, requires_grad=True)
    use(w, y).sum().backward()
    if w.grad is None or not w.grad.any():
        raise RuntimeError("no gradient")


def _refusal(call: Callable[[], object]) -> str:
    """The first sentence of the complaint; ALLOWED where there is none."""
    try:
        call()
    except RuntimeError as error:
        return str(error).partition(". ")[0].partition(".You")[0]
    return ALLOWED
