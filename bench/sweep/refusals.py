"""Rules that refuse a case before it runs, because it would not measure what its name says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from modescope.bench.records.cases import Case, Variant
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.steps import backends
from modescope.bench.sweep.settings.phase_settings import PHASE_SETTINGS
from modescope.bench.sweep.settings.rules import VariantRule

TF32_CAPABILITY = (8, 0)
"""First compute capability with TF32 tensor cores (NVIDIA Ampere)."""

RULES: tuple[VariantRule, ...] = (
    (
        lambda variant, options, device: variant.mode.graph and device.type != "cuda",
        "a CUDA graph needs an NVIDIA GPU, and this runs on {device}; use {of}mode=compile instead",
    ),
    (
        lambda variant, options, device: variant.mode.graph and backends.captures(variant.mode),
        "mode.compile={compile} captures CUDA graphs by itself; leave out mode.graph=true, or use "
        "{of}mode=compile-cuda-graph for a manual capture",
    ),
    (
        lambda variant, options, device: bool(backends.options_refused(variant.mode)),
        "mode.compile={compile} does not take {refused}; leave out {refused}, or use "
        "{of}mode=compile",
    ),
    (
        lambda variant, options, device: (
            variant.mode.autocast and variant.dtype in ("fp32", "tf32")
        ),
        "autocast to {dtype} casts nothing; use {of}dtype=bf16 or {of}dtype=fp16, or a mode "
        "without autocast",
    ),
    (
        lambda variant, options, device: (
            variant.dtype == "tf32"
            and (device.capability is None or device.capability < TF32_CAPABILITY)
        ),
        "tf32 needs an NVIDIA GPU of compute capability 8.0 or newer, and this runs on {device}; "
        "use {of}dtype=fp32",
    ),
)

MIXED_TF32 = (
    "tf32 is set for the whole process, so a baseline in {baseline} cannot run beside a case in "
    "{dtype}; leave out baseline.dtype, and measure eager in both dtypes to compare them"
)


SAME_KERNELS = (
    "there are no CUDA graphs on {device}, so this would measure the kernels of mode={other} "
    "again, which is part of this sweep; measured alone it gets its own row"
)


def same_kernels(case: Case, device: DeviceFacts, sweep: Mapping[str, str]) -> str | None:
    """Why `case` would repeat another case of its sweep, or None.

    `sweep`: the mode's name by case id. Without CUDA graphs, modes that differ in nothing but those
    that their backend captures run the same code.
    """
    if device.type == "cuda":
        return None
    mode = backends.without_graphs(case.variant.mode)
    other = replace(case, variant=replace(case.variant, mode=mode)).case_id
    if other == case.case_id or other not in sweep:
        return None
    return SAME_KERNELS.format(device=device.name, other=sweep[other])


def untuned(case: Case, device: DeviceFacts, sweep: Mapping[str, str]) -> str | None:
    """The mode of the sweep whose kernels `case` has if there is nothing to tune, or None.

    `sweep`: the mode's name by case id. Only compiling tells whether something is tuned.
    """
    mode = backends.without_tuning(case.variant.mode)
    if device.type != "cuda":
        mode = backends.without_graphs(mode)
    other = replace(case, variant=replace(case.variant, mode=mode)).case_id
    return None if other == case.case_id else sweep.get(other)


def refusal(case: Case, device: DeviceFacts) -> str | None:
    """Why `case` cannot be measured on `device` under its name, and what to do instead; or None."""
    reason = _of_variant(case, case.variant, device, of="")
    for applies, text in PHASE_SETTINGS[case.phase].case_rules:
        if reason is None and applies(case, case.options):
            reason = text.format(case=case)
    if reason or case.baseline is None:
        return reason
    reason = _of_variant(case, case.baseline, device, of="baseline.")
    if reason:
        return f"the baseline {case.baseline.mode.name}: {reason}"
    dtype, baseline = case.variant.dtype, case.baseline.dtype
    if dtype != baseline and "tf32" in (dtype, baseline):
        return MIXED_TF32.format(baseline=baseline, dtype=dtype)
    return None


def _of_variant(case: Case, variant: Variant, device: DeviceFacts, of: str) -> str | None:
    mode = variant.mode
    for applies, reason in (*RULES, *PHASE_SETTINGS[case.phase].variant_rules):
        if applies(variant, case.options, device):
            return reason.format(
                device=device.name,
                dtype=variant.dtype,
                compile=mode.compile,
                refused=", ".join(f"mode.{name}" for name in backends.options_refused(mode)),
                grad=mode.grad,
                options=case.options,
                of=of,
            )
    return None
