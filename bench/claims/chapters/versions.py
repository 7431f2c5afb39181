"""The counter that guards what is saved for the backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from bench.claims.claim import Verdict, claim, holds, refuted, within_limits
from bench.devices import Hardware

Change = Callable[[Tensor], object]


def _no_grad(x: Tensor) -> None:
    with torch.no_grad():
        x.add_(1)


def _inference(x: Tensor) -> None:
    with torch.inference_mode():
        x.add_(1)


# of x, which a product has saved
SEEN: dict[str, Change] = {
    "x.add_(1)": lambda x: x.add_(1),
    "x[0] = 5": lambda x: x.__setitem__(0, 5),
    "x.view(-1).add_(1)": lambda x: x.view(-1).add_(1),
    "x.detach().add_(1)": lambda x: x.detach().add_(1),
    "torch.add(torch.ones(3), 1, out=x.detach())": lambda x: torch.add(
        torch.ones(3), 1, out=x.detach()
    ),
    "x.add_(1) under no_grad": _no_grad,
    "x.add_(1) in inference_mode": _inference,
}
SAME_STORAGE: dict[str, Change] = {"x.data.add_(1)": lambda x: x.data.add_(1)}
OUTSIDE: dict[str, Change] = {
    "x.detach().numpy()[0] = 5": lambda x: x.detach().numpy().__setitem__(0, 5),
}


@dataclass(frozen=True)
class Versions:
    """Whether the backward of x * x raises after x was changed in place."""

    through_x: Annotated[Mapping[str, bool], "backward raises after"]
    same_storage: Annotated[Mapping[str, bool], "backward raises after"]
    outside: Annotated[Mapping[str, bool], "backward raises after"]
    storage_is_same: Annotated[bool, "x.data has x's storage"]
    counters: Annotated[Mapping[str, int], "counter after a change of x.data, of"]
    gradient: Annotated[float | None, "gradient at x = 2 after x.data.add_(1), where 4 is right"]


def counter_of_storage(seen: Versions) -> Verdict:
    """Refuted if the backward does not notice a change made through x, a view, or a detached x.

    Refuted, too, if it does not notice one made through another tensor of torch on x's very
    storage, as this then has a counter of its own. Within limits if only changes that are not made
    by torch go unnoticed; else holds.
    """
    missed = [change for change, raises in seen.through_x.items() if not raises]
    if missed:
        return refuted("backward does not raise", f"after {missed[0]} it gave a gradient")
    told = f"backward raised after each of {len(seen.through_x)} changes"
    missed = [change for change, raises in seen.same_storage.items() if not raises]
    if missed and seen.storage_is_same:
        counters = ", ".join(f"{tensor} {count}" for tensor, count in seen.counters.items())
        return refuted(
            f"{told} through x, its views and x.detach(), which share x's counter; but the counter "
            "is not the storage's",
            f"{missed[0]} changes x's storage and leaves x's counter alone ({counters}): the "
            f"backward of x * x at x = 2 then gives {seen.gradient}, not 4, without a complaint",
        )
    missed = [change for change, raises in seen.outside.items() if not raises]
    return within_limits(told, f"not noticed: {', '.join(missed)}") if missed else holds(told)


@claim(
    id="version-counter",
    statement="each storage carries a version counter; in-place change of a saved tensor raises "
    "in backward",
    source=("003 §6.6",),
    needs=("cpu",),
    decide=counter_of_storage,
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
def version_counter(device: Hardware) -> Versions:
    """The backward of x * x, which saves x, after x was changed in nine ways.

    And the counters of x, `x.detach()` and `x.data`, which lie in one storage.
    """
    x = torch.full((3,), 2.0)
    detached, data = x.detach(), x.data
    same = data.untyped_storage()._cdata == x.untyped_storage()._cdata
    data.add_(1)
    counters = {"x": x._version, "x.detach()": detached._version, "x.data": data._version}
    return Versions(
        through_x={name: _changed(change) is None for name, change in SEEN.items()},
        same_storage={name: _changed(change) is None for name, change in SAME_STORAGE.items()},
        outside={name: _changed(change) is None for name, change in OUTSIDE.items()},
        storage_is_same=same,
        counters=counters,
        gradient=_changed(lambda x: x.data.add_(1)),
    )


def _changed(change: Change) -> float | None:
    """The gradient that comes out; None where backward says that x was changed in place."""
    w = torch.full((3,), 2.0, requires_grad=True)
    x = w * 1
    y = x * x
    change(x)
    try:
        y.sum().backward()
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return None
    assert w.grad is not None
    return w.grad[0].item()
