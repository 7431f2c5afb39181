"""What is refused: changes of saved tensors, and uses of tensors made in inference_mode."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from modescope.bench.tools.claims import lab

Change = Callable[[Tensor], object]

# of x, which a product has saved
THROUGH_X: dict[str, Change] = lab.functions(
    "x",
    (
        *("x.add_(1)", "x.view(-1).add_(1)", "x.detach().add_(1)"),
        "torch.add(torch.ones(3), 1, out=x.detach())",
    ),
) | lab.functions(
    "x",
    {
        "x[0] = 5": "x[0] = 5; return x",
        "x.add_(1) under no_grad": "with torch.no_grad(): return x.add_(1)",
        "x.add_(1) in inference_mode": "with torch.inference_mode(): return x.add_(1)",
    },
)
BY_DATA: dict[str, Change] = lab.functions("x", ["x.data.add_(1)"])
OUTSIDE: dict[str, Change] = lab.functions(
    "x", {"x.detach().numpy()[0] = 5": "x.detach().numpy()[0] = 5; return x"}
)


def counter_of_storage(o: lab.Observed) -> lab.Rule:
    """Refuted, too, if backward does not raise after a change of another tensor on x's storage.

    Undecided if `x.data` does not lie on x's storage.
    """
    yield lab.undecided_if(not o.storage_is_same, "x.data does not have x's storage")
    yield lab.require(
        "a change of another tensor on x's storage raises, too",
        all(o.same_storage.values()),
        o.say("same_storage", "counters", "gradient"),
        "a change of x.data, which has x's storage, does not raise",
    )


RAISES = "backward raises after"


@lab.claim(
    "each storage carries a version counter; in-place change of a saved tensor raises in backward",
    "003 §6.6",
    rule=counter_of_storage,
    figures={
        "through_x": lab.must(RAISES, True, "changes of x, its views and x.detach() raise"),
        "same_storage": RAISES,
        "outside": lab.should(RAISES, True, "changes by numpy raise, too"),
        "storage_is_same": "x.data has x's storage",
        "counters": "counter after a change of x.data, of",
        "gradient": "gradient at x = 2 after x.data.add_(1), where 4 is right",
    },
    snippet="""
        import torch

        for change in (lambda x: x.detach().add_(1), lambda x: x.data.add_(1)):
            w = torch.full((3,), 2.0, requires_grad=True)
            x = w * 1
            y = x * x
            change(x)
            try: y.sum().backward(); print(x._version, w.grad)
            except RuntimeError as error: print(x._version, str(error)[:99])
    """,
)
def version_counter(device: lab.Hardware) -> lab.Values:
    """The backward of x * x, which saves x, after x was changed in nine ways.

    And the counters of x, `x.detach()` and `x.data`, which lie in one storage.
    """
    for changes in (THROUGH_X, BY_DATA, OUTSIDE):
        yield {code: _changed(change) is None for code, change in changes.items()}
    x = torch.full((3,), 2.0)
    detached, data = x.detach(), x.data
    yield data.untyped_storage()._cdata == x.untyped_storage()._cdata
    data.add_(1)
    yield {"x": x._version, "x.detach()": detached._version, "x.data": data._version}
    yield _changed(BY_DATA["x.data.add_(1)"])


def _changed(change: Change) -> float | None:
    """The gradient that comes out; None where backward says that x was changed in place."""
    w = torch.full((3,), 2.0, requires_grad=True)
    x = w * 1
    y = x * x
    change(x)
    outcome = _outcome(y.sum().backward)
    if "modified by an inplace operation" in outcome:
        return None
    assert w.grad is not None, outcome
    return w.grad[0].item()


# w requires a gradient; y was made in inference_mode
USES = lab.functions(
    "w, y",
    (
        *("w * y", "mse_loss(w, y)", "linear(y, w)"),
        *("w + y", "torch.cat((w, y))", "torch.where(y > 1, w, y)"),
    ),
    mse_loss=functional.mse_loss,
    linear=functional.linear,
)
CHANGES = lab.functions("y", ("y.requires_grad_()", "y.add_(1)"))
VIEWS = lab.functions("x", ("x.view(-1)", "x[:2]", "x.add_(1)"))  # no memory of their own
ALLOWED, NO_GRADIENT = "allowed", "no error, no gradient"


def refused(outcome: str) -> bool:
    """Whether torch raised an error."""
    return outcome not in (ALLOWED, NO_GRADIENT)


@lab.claim(
    "outputs of inference_mode cannot be used in autograd and track no version",
    "003 §7.3",
    figures={
        "version": lab.must("y._version", refused, "an output of inference_mode tracks no version"),
        "uses": lab.must(
            "used in autograd,",
            refused,
            "autograd refuses an output of inference_mode",
            "autograd does not refuse an output of inference_mode",
        ),
        "changes": lab.must(
            "changed outside,", refused, "an output of inference_mode cannot be changed outside"
        ),
        "views": lab.should(
            "in inference_mode a view or a change of an ordinary x is an inference tensor,", True
        ),
    },
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
def inference_tensors(device: lab.Hardware) -> lab.Values:
    """Uses, changes and version of a tensor made in inference_mode, outside of it.

    Then whether views taken in inference_mode of an ordinary tensor are inference tensors.
    """
    x = torch.ones(3)
    with torch.inference_mode():
        y = torch.ones(3) * 2
        views = {code: view(x).is_inference() for code, view in VIEWS.items()}
    yield _outcome(lambda: y._version)
    yield {code: _used(use, y) for code, use in USES.items()}
    yield {code: _outcome(partial(change, y)) for code, change in CHANGES.items()}
    yield views


def _used(use: Callable[[Tensor, Tensor], Tensor], y: Tensor) -> str:
    """The outcome of a forward and a backward; NO_GRADIENT where w gets none, without an error."""
    w = torch.ones(3, requires_grad=True)
    outcome = _outcome(lambda: use(w, y).sum().backward())
    without = outcome == ALLOWED and (w.grad is None or not w.grad.any())
    return NO_GRADIENT if without else outcome


def _outcome(call: Callable[[], object]) -> str:
    """The first sentence of the error; ALLOWED where there is none."""
    return (lab.refusal(call) or ALLOWED).partition(". ")[0].partition(".You")[0]
