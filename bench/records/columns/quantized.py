"""Columns of weights with fewer bits (mode.quantize)."""

from __future__ import annotations

from dataclasses import dataclass

from modescope.bench.records.columns.column import nullable


@dataclass(frozen=True)
class Quantized:
    """What fewer bits changed, beside `error`; null where no weight has them."""

    quantized_share: float | None = nullable("share of the parameters that have fewer bits")
    quantizer: str | None = nullable("library that made them, with its version")
    output_cosine: float | None = nullable(
        "cosine of the angle between an output and that in float64: the least of all outputs; null "
        "where calls vary"
    )
    top1_agreement: float | None = nullable(
        "share of rows whose largest number stands where it does in float64; null unless an output "
        "looks like logits: by its name, or as a table of ten columns or more"
    )
