"""Why a combination would measure something other than its name says: decided before it runs."""

from __future__ import annotations

from collections.abc import Callable

from bench.records import CAPTURING, Case, DeviceFacts, Training, Variant
from bench.training.choices import OPTIMIZERS

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

TrainingRule = Callable[[Variant, Training, DeviceFacts], bool]

TRAINING_RULES: tuple[tuple[TrainingRule, str], ...] = (
    (
        lambda variant, training, device: variant.mode.grad != "enabled",
        "under {grad} no gradient is recorded, so nothing can be trained; use {of}mode=eager, amp "
        "or compile",
    ),
    (
        lambda variant, training, device: variant.dtype == "fp16" and not variant.mode.autocast,
        "small gradients of fp16 weights vanish, and GradScaler refuses to scale them; use "
        "{of}mode=amp, which keeps fp32 weights, or {of}dtype=bf16",
    ),
    (
        lambda variant, training, device: (
            training.captures_step(variant.mode)
            and training.scales(variant)
            and training.implementation != "fused"
        ),
        "GradScaler asks the host whether to skip a step, which a CUDA graph cannot, unless the "
        "optimizer decides it on the device; add train.implementation=fused, or capture less with "
        "train.capture=forward_backward",
    ),
    (
        lambda variant, training, device: (
            training.capturable is not None and not OPTIMIZERS[training.optimizer].counts_steps
        ),
        "train.capturable is for optimizers that count their steps, and {optimizer} does not; "
        "leave it out, or use train.optimizer=adamw",
    ),
    (
        lambda variant, training, device: bool(training.capturable) and device.type != "cuda",
        "train.capturable=true needs an NVIDIA GPU, and this runs on {device}; leave it out",
    ),
    (
        lambda variant, training, device: (
            training.captures_step(variant.mode) and training.capturable is False
        ),
        "{optimizer} counts its steps on the host unless train.capturable=true, and torch refuses "
        "to capture that; leave train.capturable out",
    ),
)

TRAINING_CASE_RULES: tuple[tuple[Callable[[Case, Training], bool], str], ...] = (
    (
        lambda case, training: training.capture != "step" and not case.variant.mode.graph,
        "train.capture={training.capture} says what mode.graph=true captures; use mode=cuda-graph",
    ),
    (
        lambda case, training: (
            training.capture == "forward_backward" and case.variant.mode.compile != "none"
        ),
        "make_graphed_callables does not take compiled modules; use mode=cuda-graph, or "
        "train.capture=step",
    ),
    (
        lambda case, training: (
            training.activation_memory_budget is not None and case.variant.mode.compile == "none"
        ),
        "train.activation_memory_budget is the compiler's, and mode={case.variant.mode.name} does "
        "not compile; use mode=compile, or train.checkpoint in eager",
    ),
)
"""Of the case alone: its baseline has the same options, which need not concern it."""

MIXED_TF32 = (
    "tf32 is a switch of the whole process, so a baseline in {baseline} cannot run beside a case "
    "in {dtype}; drop baseline.dtype, and measure eager in both to compare them"
)


def objection(case: Case, device: DeviceFacts) -> str | None:
    """Why `case` cannot be measured on `device` as what it is called, and what to do instead."""
    reason = _of_variant(case.variant, case.training, device, of="") or _of_options(case)
    if reason or case.baseline is None:
        return reason
    reason = _of_variant(case.baseline, case.training, device, of="baseline.")
    if reason:
        return f"the baseline {case.baseline.mode.name}: {reason}"
    if "tf32" in (case.variant.dtype, case.baseline.dtype) and (
        case.variant.dtype != case.baseline.dtype
    ):
        return MIXED_TF32.format(baseline=case.baseline.dtype, dtype=case.variant.dtype)
    return None


def _of_variant(
    variant: Variant, training: Training | None, device: DeviceFacts, of: str
) -> str | None:
    reasons = [reason for applies, reason in RULES if applies(variant, device)]
    if training is not None:
        reasons += [
            reason for applies, reason in TRAINING_RULES if applies(variant, training, device)
        ]
    mode = variant.mode
    for reason in reasons:
        return reason.format(
            device=device.name,
            dtype=variant.dtype,
            compile=mode.compile,
            grad=mode.grad,
            optimizer=training.optimizer if training else None,
            of=of,
        )
    return None


def _of_options(case: Case) -> str | None:
    training = case.training
    if training is None:
        return None
    for applies, reason in TRAINING_CASE_RULES:
        if applies(case, training):
            return reason.format(case=case, training=training)
    return None
