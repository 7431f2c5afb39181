"""Runs the code that a recommendation prints, on a small model."""

from __future__ import annotations

from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from modescope.analysis.recommend.code import code
from modescope.bench.records.cases import Inference, Training, Variant
from modescope.bench.records.results import work_of
from tests.helpers.probe_models import WIDTH, case, linear, model, preset, smoke
from tests.helpers.rows import row_with


def named(words: str, grad: str | None = None) -> Variant:
    """The variant that `words`, such as `amp bf16`, name; `grad` replaces that of inference."""
    name, dtype = words.split()
    return Variant(replace(preset(name), grad=grad or preset(name).grad), dtype)


def lines(
    asked: Variant,
    training: Training | None = None,
    device: str = "cpu",
    named_inputs: bool | None = None,
    dtypes_kept: str | None = None,
    region_names: str | None = None,
) -> str:
    """The code that is recommended for a row with this variant."""
    asked_case = case(model(linear), asked, device=device)
    plan = replace(smoke(), compile_cache="cold")  # whose code sets no folder
    work = work_of(replace(asked_case, options=training or Inference()), plan)
    found = {
        "named_inputs": named_inputs, "dtypes_kept": dtypes_kept, "region_names": region_names
    }  # fmt: skip
    return code(row_with(asdict(work), **found))


def run(program: str, net: nn.Module | None = None, device: str = "cpu") -> SimpleNamespace:
    """Runs `program` with a model and inputs drawn with seed 0; returns its names afterwards.

    Among them, `given` is the model before the program, and `outputs` lists what `loss_of` got.
    """
    torch.manual_seed(0)
    names: dict[str, Any] = {"torch": torch, "model": (net or nn.Linear(WIDTH, WIDTH)).to(device)}
    outputs: list[Any] = []

    def loss_of(output: Any) -> Any:
        outputs.append(output)
        return (output[0] if isinstance(output, tuple) else output).square().mean()

    names |= {"given": names["model"], "inputs": [torch.randn(2, WIDTH).to(device)]}
    names["loss_of"] = loss_of
    exec(program, names)
    return SimpleNamespace(**names, outputs=outputs)
