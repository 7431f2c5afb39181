"""Which kernels a call goes through with gradients, under no_grad and in inference_mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from bench.claims.claim import Verdict, claim, holds, inconclusive, refuted, within_limits
from bench.claims.probing import probed
from bench.devices import Hardware
from bench.instructions.keys import visited

AUTOGRAD = "AutogradCPU"

GRADIENTS, NO_GRAD, INFERENCE = "with gradients", "under no_grad", "in inference_mode"
MADE_IN_INFERENCE = "under no_grad, of tensors made in inference_mode"

# Looked up when it is entered, so that a test can plant another.
MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    GRADIENTS: lambda: torch.enable_grad(),
    NO_GRAD: lambda: torch.no_grad(),
    INFERENCE: lambda: torch.inference_mode(),
}


@dataclass(frozen=True)
class Call:
    """An operator that has a kernel for autograd, and how a user calls it."""

    operator: str
    make: Callable[[Tensor, Tensor], object]  # w is a parameter
    operands: int  # 1: x alone; 2: x and w


CALLS = {
    "torch.add(x, w)": Call("aten::add.Tensor", lambda x, w: torch.add(x, w), 2),
    "torch.mm(x, w)": Call("aten::mm", lambda x, w: torch.mm(x, w), 2),
    "x.relu()": Call("aten::relu", lambda x, w: x.relu(), 1),
    "x.view(-1)": Call("aten::view", lambda x, w: x.view(-1), 1),
    "x.sum()": Call("aten::sum", lambda x, w: x.sum(), 1),
}


@dataclass(frozen=True)
class Paths:
    """What each of CALLS went through."""

    calls: Annotated[int, "operators that have a kernel for autograd, called in each mode"]
    entered: Annotated[Mapping[str, int], "calls that entered autograd's kernel"]
    walked: Annotated[Mapping[str, str], "kernels, as torch's tables say, of"]
    agree: Annotated[bool, "the tables and what was entered agree"]

    def unfit(self) -> str | None:
        """Why nothing can be concluded, where that is so."""
        if not self.agree:
            return "the tables of the dispatcher and what was entered contradict each other"
        if self.entered[GRADIENTS] < self.calls:
            return "with gradients, too, not every call entered autograd's kernel"
        return None

    def example(self, mode: str, entering: bool) -> str:
        """The first call in `mode` that entered autograd's kernel, or did not, with its path."""
        return next(
            f"{call} went through {path}"
            for call, path in self.walked.items()
            if call.endswith(f" {mode}") and (AUTOGRAD in path) == entering
        )


def observed() -> Paths:
    """Each call in each mode: by torch's tables, and by kernels of one's own in autograd's place.

    x is made inside the mode from an ordinary tensor.
    """
    walked: dict[str, str] = {}
    entered = dict.fromkeys((*MODES, MADE_IN_INFERENCE), 0)
    agree = True
    for mode in entered:
        for name, call in CALLS.items():
            with _operands(mode) as (x, w):
                path = visited(call.operator, (x, w)[: call.operands])
                with probed(call.operator, [AUTOGRAD]) as seen:
                    call.make(x, w)
            walked[f"{name} {mode}"] = " → ".join(path)
            entered[mode] += bool(seen)
            agree = agree and (AUTOGRAD in path) == bool(seen)
    return Paths(len(CALLS), entered, walked, agree)


@contextmanager
def _operands(mode: str) -> Iterator[tuple[Tensor, Tensor]]:
    if mode == MADE_IN_INFERENCE:
        with MODES[INFERENCE]():
            x, w = torch.ones(4, 4), torch.ones(4, 4)
        with MODES[NO_GRAD]():
            yield x, w
    else:
        x, w = torch.ones(4, 4), torch.nn.Parameter(torch.ones(4, 4))
        with MODES[mode]():
            yield x * 1, w


def key_removed(seen: Paths) -> Verdict:
    """Refuted if a call under no_grad enters the kernel in autograd's place; else holds.

    Undecided if the same calls do not enter it with gradients either.
    """
    if unfit := seen.unfit():
        return inconclusive(unfit)
    if not seen.entered[NO_GRAD]:
        return holds(f"none of {seen.calls} calls entered autograd's kernel under no_grad")
    return refuted(
        f"{seen.entered[NO_GRAD]} of {seen.calls} calls still entered autograd's kernel under "
        f"no_grad, which then records nothing; in inference_mode {seen.entered[INFERENCE]} did",
        seen.example(NO_GRAD, entering=True),
    )


@claim(
    id="no-grad-removes-key",
    statement="no_grad removes the autograd key from the dispatch path",
    source=("002 The dispatcher",),
    needs=("cpu",),
    decide=key_removed,
    snippet="""
        import torch
        from bench.instructions.keys import visited

        x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with mode():
                print(mode.__name__, visited("aten::mm", (x, w)))
    """,
)
def no_grad_removes_key(device: Hardware) -> Paths:
    """The path of five calls through the dispatcher in each mode.

    Computed from the active keys and torch's tables, and seen by kernels that stand in autograd's
    place and note that they were entered.
    """
    return observed()


def kernel_entered(seen: Paths) -> Verdict:
    """Holds if every call enters autograd's kernel under no_grad and none in inference_mode.

    Within limits if only calls on tensors made in inference_mode do not enter it under no_grad;
    else refuted.
    """
    if unfit := seen.unfit():
        return inconclusive(unfit)
    if seen.entered[INFERENCE]:
        return refuted("inference_mode does not skip it", seen.example(INFERENCE, entering=True))
    if seen.entered[NO_GRAD] < seen.calls:
        return refuted(
            f"{seen.entered[NO_GRAD]} of {seen.calls} calls entered it under no_grad",
            seen.example(NO_GRAD, entering=False),
        )
    told = f"all {seen.calls} calls entered it under no_grad, none in inference_mode"
    if seen.entered[MADE_IN_INFERENCE] == seen.calls:
        return holds(told)
    return within_limits(
        told, "tensors made in inference_mode have no autograd key: no_grad has nothing to enter"
    )


@claim(
    id="no-grad-enters-kernel",
    statement="under no_grad the autograd kernel is still entered; inference_mode skips it",
    source=("003 §7.2, §7.3", "003 Exercise 2"),
    needs=("cpu",),
    decide=kernel_entered,
    snippet="""
        import torch
        from bench.claims.probing import probed

        x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with mode(), probed("aten::mm", ["AutogradCPU"]) as entered:
                torch.mm(x, w)
            print(mode.__name__, entered)
    """,
)
def no_grad_enters_kernel(device: Hardware) -> Paths:
    """The path of five calls through the dispatcher in each mode.

    Computed from the active keys and torch's tables, and seen by kernels that stand in autograd's
    place and note that they were entered.
    """
    return observed()
