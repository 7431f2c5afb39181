"""Are cold calls those of `triton.testing.do_bench`? A part of the step `graphs`.

Both write over the L2 cache before each call, and read the GPU's own marks around it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from modescope.bench.devices.devices import Hardware, evict_first
from modescope.bench.evidence.cold_data import with_its_time
from modescope.bench.timing import timers
from modescope.models import mlp, transformer
from tests.gpu.pretending import pretends

SIZES = (
    {"batch": 32, "width": 2048, "depth": 4},
    {"batch": 1, "seq": 256, "width": 1024, "heads": 16},
)
SMOKE = {"batch": 2, "width": 32, "depth": 2}, {"batch": 1, "seq": 8, "width": 32, "heads": 2}
BLOCKS, CALLS = 20, 10
NEAR = 0.03


@dataclass(frozen=True)
class Found:
    """Device times of a call of one model in bf16, in µs."""

    model: str
    warm_us: float
    cold_us: float
    triton_us: float | None  # None: not measured, on the pretended GPU

    @property
    def ratio(self) -> float | None:
        """modescope's cold time ÷ triton's."""
        return None if self.triton_us is None else self.cold_us / self.triton_us


def examine(name: str, build: Callable[..., Any], sizes: dict[str, int], device: Hardware) -> Found:
    """Times a warm and a cold call by modescope's timer, and the cold one by triton's."""
    made = build(**sizes)
    place = device.torch_device
    model, x = made[0].to(place).eval().to(torch.bfloat16), made[1][0].to(place, torch.bfloat16)

    def call() -> object:
        with torch.no_grad():
            return model(x)

    evictor = with_its_time(device.evictor([*model.parameters(), x], []), device)
    warm_us, cold_us = (
        median(timers.device_time(step, device, CALLS).samples_s[0] * 1e6 for _ in range(BLOCKS))
        for step in (call, evict_first(call, evictor))
    )
    if pretends():
        return Found(name, warm_us, cold_us, None)
    from triton.testing import do_bench

    return Found(name, warm_us, cold_us, do_bench(call, return_mode="median") * 1e3)


def problems(found: list[Found]) -> list[str]:
    """What contradicts triton's times by more than 3 %, in words."""
    known = [(each.model, each.ratio) for each in found if each.ratio is not None]
    return [f"{name}: {ratio:.3f} times triton's" for name, ratio in known if abs(ratio - 1) > NEAR]


def compare(device: Hardware, folder: Path) -> tuple[str, list[str]]:
    """Examines both models and writes cold.jsonl; returns what was found, and what is wrong."""
    sizes = SMOKE if pretends() else SIZES
    builders: dict[str, Callable[..., Any]] = {"mlp": mlp.build, "transformer": transformer.build}
    found = [
        examine(name, build, size, device)
        for (name, build), size in zip(builders.items(), sizes, strict=True)
    ]
    with (folder / "cold.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(each)) + "\n" for each in found)
    told = (
        f"{each.model}: warm {each.warm_us:.1f} µs, cold {each.cold_us:.1f}, by triton "
        + ("–" if each.triton_us is None else f"{each.triton_us:.1f} ({each.ratio:.3f}×)")
        for each in found
    )
    return "; ".join(told), problems(found)
