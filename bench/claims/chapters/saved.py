"""How much a forward keeps for the backward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import torch

from bench.claims.claim import Verdict, claim, holds, refuted, within_limits
from bench.devices import Hardware
from bench.memory.reading import saved_activation_bytes, weights_bytes
from bench.subject import Inputs, Subject

FACTOR = (4.0, 8.0)
WIDTH, HEADS, LAYERS = 128, 2, 2
BATCHES = ((1, 128), (8, 64), (8, 128), (16, 128), (4, 512))  # sequences and their length
DROPOUT = {"": 0.0, ", dropout": 0.1}  # with dropout attention is not fused on a CPU


@dataclass(frozen=True)
class Saved:
    """What is saved, as multiples of the parameters' bytes, by batch."""

    factors: Annotated[Mapping[str, float], "saved ÷ parameters:", "x"]
    tokens: Annotated[Mapping[str, float], "tokens per unit of width, without dropout, for"]


def four_to_eight_times(seen: Saved) -> Verdict:
    """Holds if the factor lies within 4 to 8 for every batch, is refuted if for none.

    Within limits if for some.
    """
    low, high = FACTOR
    inside = {batch: each for batch, each in seen.factors.items() if low <= each <= high}
    outside = {batch: each for batch, each in seen.factors.items() if batch not in inside}
    if not inside:
        return refuted("no factor lies within 4 to 8", _listed(outside))
    told = (
        f"{len(inside)} of {len(seen.factors)} batches, for transformer layers {WIDTH} wide: "
        f"{_listed(inside)}"
    )
    if not outside:
        return holds(told)
    of_width = " to ".join(f"{each:.1f}" for each in seen.tokens.values())
    return within_limits(
        told,
        _listed(outside),
        "what is saved grows with the tokens in a batch, parameters with the square of the width: "
        f"4 to 8 times are {of_width} tokens per unit of width, without dropout",
    )


def _listed(factors: Mapping[str, float]) -> str:
    return "; ".join(f"{batch}: {each:.1f} times" for batch, each in factors.items())


@claim(
    id="saved-dominate",
    statement="saved activations take 4 to 8 times the parameters' bytes",
    source=("002 Autograd: the dynamic tape",),
    needs=("cpu",),
    decide=four_to_eight_times,
    snippet="""
        import torch
        from bench.memory.reading import saved_activation_bytes, weights_bytes
        from bench.subject import Inputs, Subject

        layer = torch.nn.TransformerEncoderLayer(128, 2, 512, dropout=0.0, batch_first=True)
        for shape in ((1, 128, 128), (8, 64, 128), (8, 512, 128)):
            subject = Subject(layer, Inputs((torch.ones(shape),), {}))
            saved = saved_activation_bytes(lambda: layer(*subject.inputs.args), subject)
            print(shape, f"{saved / weights_bytes(layer):.1f} times the parameters")
    """,
)
def saved_dominate(device: Hardware) -> Saved:
    """Bytes that a forward in training saves ÷ bytes of the parameters.

    Of two transformer layers of torch (pre-norm, GELU), with and without dropout; storages count
    once, parameters and inputs do not count.
    """
    factors = {
        f"{sequences} × {length} tokens{words}": _factor(sequences, length, dropout)
        for words, dropout in DROPOUT.items()
        for sequences, length in BATCHES
    }
    sequences, length = BATCHES[0]
    per_token = factors[f"{sequences} × {length} tokens"] / (sequences * length) * WIDTH
    return Saved(factors, {f"{bound:g} times": bound / per_token for bound in FACTOR})


def _factor(sequences: int, length: int, dropout: float) -> float:
    layer = torch.nn.TransformerEncoderLayer(
        *(WIDTH, HEADS, 4 * WIDTH, dropout, "gelu"), batch_first=True, norm_first=True
    )
    model = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
    subject = Subject(model, Inputs((torch.rand(sequences, length, WIDTH),), {}))
    saved = saved_activation_bytes(lambda: model(*subject.inputs.args), subject)
    weights = weights_bytes(model)
    assert saved is not None
    assert weights is not None
    return saved / weights
