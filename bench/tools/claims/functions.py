"""Functions made of the code that stands for them on the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.nn import functional


def functions(
    arguments: str, codes: Iterable[str] | Mapping[str, str], **names: object
) -> dict[str, Callable[..., Any]]:
    """Each code as a function of `arguments`, by its name or by itself.

    A code is an expression, or lines of statements with a return. It may use torch, functional
    (of torch.nn) and `names`.
    """
    named = codes if isinstance(codes, Mapping) else {code: code for code in codes}
    return {name: _function(arguments, code, names) for name, code in named.items()}


def _function(arguments: str, code: str, names: Mapping[str, object]) -> Callable[..., Any]:
    body = code if "return" in code else f"return {code}"
    lines = [line for part in body.split("; ") for line in part.splitlines()]
    scope: dict[str, Any] = {"torch": torch, "functional": functional, **names}
    exec("\n ".join([f"def made({arguments}):", *lines]), scope)
    made: Callable[..., Any] = scope["made"]
    return made
