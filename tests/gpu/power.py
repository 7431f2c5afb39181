"""Does bf16 alone take as long as bf16 beside fp32? `python -m tests.gpu.power FOLDER`.

A case is timed in turns with its baseline. On a card at its power limit, a bf16 call that follows
a long fp32 call finds a cooler card, with a higher clock, than one that follows itself.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch

from modescope.bench.devices import nvml
from modescope.bench.devices.cuda import find
from modescope.bench.devices.devices import Hardware
from modescope.models.transformer import build
from tests.gpu.pretending import pretends

Call = Callable[[], object]

SHAPE = {"batch": 8, "seq": 512, "width": 2048, "heads": 16}  # of the kept rows
SMOKE_SHAPE = {"batch": 1, "seq": 8, "width": 32, "heads": 2}
TICK_S = 1.0  # a line of what was seen
PAUSE_S = 1.0  # before each part, to cool down
WARM_UP = 5


@dataclass(frozen=True)
class Seen:
    """The median time of each call in about a second, and the card's state at its end."""

    part: str
    at_s: float  # since the part began
    median_us: dict[str, float]
    clock_hz: float | None
    slowdowns: tuple[str, ...] | None  # why the card lowers its clock, by its driver


def watch(
    part: str, seconds: float, calls: dict[str, Call], device: Hardware, tick_s: float = TICK_S
) -> Iterator[Seen]:
    """Makes the calls in turns for about `seconds`; yields what was seen each `tick_s`."""
    begin = tick = device.clock()
    times: dict[str, list[float]] = {name: [] for name in calls}
    while (now := device.clock()) - begin < seconds or not all(times.values()):
        if now - tick > tick_s and all(times.values()):
            yield _seen(part, now - begin, times, device)
            tick, times = device.clock(), {name: [] for name in calls}
        for name, call in calls.items():
            start = device.clock()
            call()
            device.synchronize()
            times[name].append(device.clock() - start)
    yield _seen(part, device.clock() - begin, times, device)


def _seen(part: str, at_s: float, times: dict[str, list[float]], device: Hardware) -> Seen:
    reasons = nvml.clock_reasons(device.nvidia_id) if device.nvidia_id else None
    medians = {name: round(median(each) * 1e6, 2) for name, each in times.items() if each}
    return Seen(part, round(at_s, 2), medians, device.clock_hz(), reasons)


def last_us(seen: Sequence[Seen], part: str, name: str) -> float:
    """What a call took in the last second of a part."""
    return [each.median_us[name] for each in seen if each.part == part][-1]


def summary(seen: Sequence[Seen]) -> str:
    """What the parts say, in one line."""
    beside, alone = (last_us(seen, part, "bf16") for part in ("alternating", "bf16 alone"))
    fp32, tf32 = (last_us(seen, f"{name} alone", name) for name in ("fp32", "tf32"))
    return (
        f"bf16 {beside:.0f} µs beside fp32, {alone:.0f} µs alone ({alone / beside:.3f}×); fp32 "
        f"{fp32:.0f} µs, tf32 {tf32:.0f} µs; alone bf16 is {fp32 / alone:.2f}× as fast as fp32 and "
        f"{tf32 / alone:.2f}× as tf32"
    )


def measure(device: Hardware, shape: dict[str, int], share: float) -> Iterator[Seen]:
    """Yields what is seen of all parts, each for its seconds × `share`."""
    torch.manual_seed(0)
    place = device.torch_device
    model, (x,) = build(**shape)
    model, x = model.to(place).eval(), x.to(place)
    half = build(**shape)[0].to(place).eval().to(torch.bfloat16)
    x_half = x.to(torch.bfloat16)

    def fp32() -> object:
        return model(x)

    def bf16() -> object:
        return half(x_half)

    parts: tuple[tuple[str, float, dict[str, Call], str], ...] = (
        ("alternating", 6, {"fp32": fp32, "bf16": bf16}, "highest"),
        ("bf16 alone", 8, {"bf16": bf16}, "highest"),
        ("fp32 alone", 4, {"fp32": fp32}, "highest"),
        ("tf32 alone", 4, {"tf32": fp32}, "high"),
    )
    with torch.inference_mode():
        for part, seconds, calls, precision in parts:
            torch.set_float32_matmul_precision(precision)
            for call in [*calls.values()] * WARM_UP:
                call()
            device.synchronize()
            time.sleep(PAUSE_S * share)
            yield from watch(part, seconds * share, calls, device, TICK_S * min(1.0, share * 10))


def main(words: Sequence[str]) -> int:
    """Writes what was seen to power.jsonl; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.power", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds-share", type=float, default=1.0)
    options = parser.parse_args(words)
    shape = SMOKE_SHAPE if pretends() else SHAPE
    seen: list[Seen] = []
    with (options.folder / "power.jsonl").open("w", encoding="utf-8") as file:
        for each in measure(find("cuda"), shape, options.seconds_share):
            seen.append(each)
            file.write(f"{json.dumps(asdict(each))}\n")
            file.flush()
            print(f"{each.part} {each.at_s} s: {each.median_us}, {each.clock_hz}, {each.slowdowns}")
    print(summary(seen))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
