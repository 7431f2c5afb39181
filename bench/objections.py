"""Why a combination would measure something other than its name says: decided before it runs."""

from __future__ import annotations

from collections.abc import Callable

from bench.records import CAPTURING, Case, DeviceFacts, Variant

TF32_CAPABILITY = (8, 0)
"""First compute capability with TF32 tensor cores (NVIDIA Ampere)."""

Rule = Callable[[Variant, DeviceFacts], bool]

RULES: tuple[tuple[Rule, str], ...] = (
    (
        lambda variant, device: variant.mode.graph and device.type != "cuda",
        "a CUDA graph needs an NVIDIA GPU, and this runs on {device}; there, try {of}mode=compile",
    ),
    (
        lambda variant, device: variant.mode.graph and variant.mode.compile in CAPTURING,
        "compile mode {compile} captures CUDA graphs by itself; drop mode.graph=true, or capture "
        "another one by hand with {of}mode=compile-cuda-graph",
    ),
    (
        lambda variant, device: variant.mode.autocast and variant.dtype in ("fp32", "tf32"),
        "autocast to {dtype} casts nothing; use {of}dtype=bf16 or {of}dtype=fp16, or a mode "
        "without autocast",
    ),
    (
        lambda variant, device: (
            variant.dtype == "tf32"
            and (device.capability is None or device.capability < TF32_CAPABILITY)
        ),
        "tf32 needs an NVIDIA GPU of compute capability 8.0 or newer, and this runs on {device}; "
        "use {of}dtype=fp32",
    ),
)

MIXED_TF32 = (
    "tf32 is a switch of the whole process, so a baseline in {baseline} cannot run beside a case "
    "in {dtype}; drop baseline.dtype, and measure eager in both to compare them"
)


def objection(case: Case, device: DeviceFacts) -> str | None:
    """Why `case` cannot be measured on `device` as what it is called, and what to do instead."""
    reason = _of_variant(case.variant, device, of="")
    if reason or case.baseline is None:
        return reason
    reason = _of_variant(case.baseline, device, of="baseline.")
    if reason:
        return f"the baseline {case.baseline.mode.name}: {reason}"
    if "tf32" in (case.variant.dtype, case.baseline.dtype) and (
        case.variant.dtype != case.baseline.dtype
    ):
        return MIXED_TF32.format(baseline=case.baseline.dtype, dtype=case.variant.dtype)
    return None


def _of_variant(variant: Variant, device: DeviceFacts, of: str) -> str | None:
    for applies, reason in RULES:
        if applies(variant, device):
            return reason.format(
                device=device.name, dtype=variant.dtype, compile=variant.mode.compile, of=of
            )
    return None
