"""The highest rates of cards, from their makers' data sheets (dense, without sparsity)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TERA = 1e12
MIB = 2**20


@dataclass(frozen=True)
class Peaks:
    """What a card cannot exceed, and the size of its last cache."""

    flops_per_s: Mapping[str, float]  # by dtype
    bytes_per_s: float
    cache_bytes: int


def _peaks(fp32: float, tf32: float, half: float, bandwidth: float, cache_mib: int) -> Peaks:
    rates = {"fp32": fp32, "tf32": tf32, "bf16": half, "fp16": half}
    flops = {dtype: tera * TERA for dtype, tera in rates.items()}
    return Peaks(flops, bandwidth * TERA, cache_mib * MIB)


CARDS = {
    "H200": _peaks(67, 495, 990, 4.8, 50),
    "H100 80GB HBM3": _peaks(67, 495, 990, 3.35, 50),
    "H100 PCIe": _peaks(51, 378, 757, 2.0, 50),
    "H100 NVL": _peaks(60, 418, 836, 3.9, 50),
    "GH200 480GB": _peaks(67, 495, 990, 4.0, 50),
    "A100-SXM4-80GB": _peaks(19.5, 156, 312, 2.04, 40),
    "A100 80GB PCIe": _peaks(19.5, 156, 312, 1.94, 40),
    "A100-SXM4-40GB": _peaks(19.5, 156, 312, 1.56, 40),
    "L40S": _peaks(91.6, 183, 366, 0.864, 96),
    "L4": _peaks(30.3, 60, 121, 0.300, 48),
    "RTX 4090": _peaks(82.6, 82.6, 165.2, 1.008, 72),
}  # fmt: skip
"""The end of a card's name, by the driver -> its rates."""


def peaks_of(name: str) -> Peaks | None:
    """Returns the rates of the card that the driver calls `name`; None if it is not known."""
    return next((peaks for end, peaks in CARDS.items() if name.endswith(f" {end}")), None)
