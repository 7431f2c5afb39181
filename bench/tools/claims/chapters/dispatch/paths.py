"""Which kernels a call goes through with gradients, under no_grad and in inference_mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from modescope.bench.tools.claims import lab
from modescope.bench.tools.claims.probing import probed, visited

AUTOGRAD = "AutogradCPU"

GRADIENTS, NO_GRAD, INFERENCE = "with gradients", "under no_grad", "in inference_mode"
MADE_IN_INFERENCE = "under no_grad, of tensors made in inference_mode"
CONTEXTS = {GRADIENTS: "enable_grad", INFERENCE: "inference_mode"}  # of torch; else no_grad

OPERATOR_OF = {  # each has a kernel for autograd
    "torch.add(x, w)": "aten::add.Tensor",
    "torch.mm(x, w)": "aten::mm",
    "x.relu()": "aten::relu",
    "x.view(-1)": "aten::view",
    "x.sum()": "aten::sum",
}
CALLS = lab.functions("x, w", OPERATOR_OF.keys())


def entered(path: str) -> bool:
    """Whether autograd's kernel is in it."""
    return AUTOGRAD in path


def skipped(path: str) -> bool:
    """Whether it is not."""
    return AUTOGRAD not in path


WALKED = "kernels, as torch's tables say, of"
USABLE = {
    "agree": lab.given("the tables and what was entered agree", True),
    "gradients": lab.given(WALKED, entered, "all calls enter autograd's kernel with gradients"),
}


def _paths(*modes: str) -> Iterator[object]:
    """Whether torch's tables agree with what was entered, then paths by the tables for each mode.

    What was entered is noted by kernels that stand in autograd's place.
    """
    agree, walked = True, []
    for mode in modes:
        paths = {}
        for code, operator in OPERATOR_OF.items():
            with _operands(mode) as (x, w):
                path = visited(operator, (x, w) if "(x, w)" in code else (x,))
                with probed(operator, [AUTOGRAD]) as kernels_run:
                    CALLS[code](x, w)
            paths[f"{code} {mode}"] = " → ".join(path)
            agree = agree and (AUTOGRAD in path) == bool(kernels_run)
        walked.append(paths)
    yield from (agree, *walked)


@contextmanager
def _operands(mode: str) -> Iterator[tuple[Tensor, Tensor]]:
    """An activation and a parameter, within `mode`; x is made there from an ordinary tensor."""
    x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
    if mode == MADE_IN_INFERENCE:
        with torch.inference_mode():
            x, w = torch.ones(4, 4), torch.ones(4, 4)
    with getattr(torch, CONTEXTS.get(mode, "no_grad"))():
        yield x if mode == MADE_IN_INFERENCE else x * 1, w


@lab.claim(
    "no_grad removes the autograd key from the dispatch path",
    "002 The dispatcher",
    figures={
        **USABLE,
        "no_grad": lab.must(
            WALKED,
            skipped,
            "no call enters autograd's kernel under no_grad",
            "calls enter autograd's kernel under no_grad",
        ),
    },
    snippet="""
        import torch
        from modescope.bench.tools.claims.probing import visited

        x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with mode():
                print(mode.__name__, visited("aten::mm", (x, w)))
    """,
)
def no_grad_removes_key(device: lab.Hardware) -> lab.Values:
    """The path of five calls through the dispatcher, computed from the active keys.

    And whether kernels put in autograd's place were entered accordingly.
    """
    yield from _paths(GRADIENTS, NO_GRAD)


@lab.claim(
    "under no_grad the autograd kernel is still entered; inference_mode skips it",
    "003 §7.2, §7.3; 003 Exercise 2",
    figures={
        **USABLE,
        "no_grad": lab.must(WALKED, entered, "all calls enter autograd's kernel under no_grad"),
        "inference": lab.must(WALKED, skipped, "none enters it in inference_mode"),
        "made_in_inference": lab.should(
            WALKED,
            entered,
            "calls under no_grad on tensors made in inference_mode enter it, too",
            "tensors made in inference_mode have no autograd key: no kernel of autograd is entered",
        ),
    },
    snippet="""
        import torch
        from modescope.bench.tools.claims.probing import probed

        x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with mode(), probed("aten::mm", ["AutogradCPU"]) as entered:
                torch.mm(x, w)
            print(mode.__name__, entered)
    """,
)
def no_grad_enters_kernel(device: lab.Hardware) -> lab.Values:
    """The same as in no-grad-removes-key, in inference_mode, too."""
    yield from _paths(GRADIENTS, NO_GRAD, INFERENCE, MADE_IN_INFERENCE)
