"""Rules that refuse a combination in training. Imports no torch."""

from __future__ import annotations

from modescope.bench.records.training_options import OPTIMIZERS
from modescope.bench.steps import backends
from modescope.bench.sweep.settings.rules import CaseRule, VariantRule

VARIANT_RULES: tuple[VariantRule, ...] = (
    (
        lambda variant, training, device: not backends.of(variant.mode).trains,
        "code from mode.compile={compile} cannot be trained; use {of}mode=eager, amp or compile",
    ),
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
        "GradScaler decides on the host whether to skip a step, which a CUDA graph cannot do; add "
        "train.implementation=fused, which decides on the device, or leave the optimizer out of "
        "the graph with train.capture=forward_backward",
    ),
    (
        lambda variant, training, device: (
            training.capturable is not None and not OPTIMIZERS[training.optimizer].counts_steps
        ),
        "train.capturable is for optimizers that count their steps, and {options.optimizer} does "
        "not; leave it out, or use train.optimizer=adamw",
    ),
    (
        lambda variant, training, device: bool(training.capturable) and device.type != "cuda",
        "train.capturable=true needs an NVIDIA GPU, and this runs on {device}; leave it out",
    ),
    (
        lambda variant, training, device: (
            training.captures_step(variant.mode) and training.capturable is False
        ),
        "{options.optimizer} counts its steps on the host unless train.capturable=true, and torch "
        "cannot capture that; leave train.capturable out",
    ),
)

CASE_RULES: tuple[CaseRule, ...] = (
    (
        lambda case, training: training.capture != "step" and not case.variant.mode.graph,
        "train.capture={case.options.capture} says what mode.graph=true captures; use "
        "mode=cuda-graph",
    ),
    (
        lambda case, training: (
            training.capture == "forward_backward" and case.variant.mode.compiles
        ),
        "make_graphed_callables does not take compiled modules; use mode=cuda-graph, or "
        "train.capture=step",
    ),
    (
        lambda case, training: (
            training.activation_memory_budget is not None and not case.variant.mode.compiles
        ),
        "train.activation_memory_budget is the compiler's, and mode={case.variant.mode.name} does "
        "not compile; use mode=compile, or train.checkpoint in eager",
    ),
)
