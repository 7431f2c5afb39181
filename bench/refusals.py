"""Refuses a case before it runs if its mode would not do on the device what its name says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from modescope.bench.modes import axes, backends, freezing, kernels, quantizing, regions
from modescope.bench.records.caches import CACHES
from modescope.bench.records.cases import SWITCHED, WARM, Case, Inference, Training, Variant
from modescope.bench.records.cpu import BF16
from modescope.bench.records.environment import TF32_CAPABILITY, DeviceFacts
from modescope.bench.records.optimizers import OPTIMIZERS
from modescope.bench.records.plans import Plan

Rule = tuple[Callable[[Variant, Any, DeviceFacts], bool], str]
"""A condition for refusing a case (of the variant, the options of its phase, and the device), and
the message."""


def _has_tf32(device: DeviceFacts) -> bool:
    return device.capability is not None and device.capability >= TF32_CAPABILITY


def _has_bf32(device: DeviceFacts) -> bool:
    known = device.instructions
    return device.type != "cuda" and (known is None or not BF16.isdisjoint(known.split()))


NEEDS: Mapping[str, tuple[Callable[[DeviceFacts], bool], str]] = {
    "tf32": (_has_tf32, "an NVIDIA GPU of compute capability 8.0 or newer"),
    "bf32": (_has_bf32, "a CPU with bf16 instructions (AMX or AVX512_BF16)"),
}
"""Maps ways to multiply fp32 numbers to whether a device has them, and to what they need."""


RULES: tuple[Rule, ...] = (
    (
        lambda variant, options, device: (
            kernels.is_asked(variant.mode)
            and (backends.is_prebuilt(variant.mode) or variant.mode.backend is not None)
        ),
        "whether kernels={mode.kernels} runs is read from the code that Inductor makes in this "
        "process; use {of}mode=compile, or leave out mode.kernels",
    ),
    (
        lambda variant, options, device: (
            options.data != WARM
            and (freezing.is_asked(variant.mode) or backends.is_prebuilt(variant.mode))
        ),
        "copies of the weights, which such a mode keeps, cannot be evicted; leave out "
        "data={options.data}, or use {of}mode=compile",
    ),
    (
        lambda variant, options, device: options.data != WARM and variant.mode.backend is not None,
        "mode.backend={mode.backend} may keep copies of the weights, which cannot be evicted; "
        "leave out data={options.data} or mode.backend",
    ),
    (
        lambda variant, options, device: (
            variant.mode.backend is not None and variant.mode.compile != "default"
        ),
        "mode.backend={mode.backend} is a backend of torch.compile, which mode.compile="
        "{mode.compile} does not fit; use {of}mode=compile with mode.backend={mode.backend}",
    ),
    (
        lambda variant, options, device: (
            variant.mode.backend is not None and variant.mode.options != "{}"
        ),
        "mode.options are Inductor's, and mode.backend={mode.backend} ignores them; leave out one "
        "of the two",
    ),
    (
        lambda variant, options, device: freezing.NAME in json.loads(variant.mode.options),
        "torch decides on freezing before it reads options, and would ignore this one without a "
        "word; use mode.freezing=true",
    ),
    (
        lambda variant, options, device: (
            freezing.is_asked(variant.mode) and not backends.find(variant.mode).freezes
        ),
        "only Inductor freezes weights, and this mode does not compile with it; use "
        "{of}mode=freezing",
    ),
    (
        lambda variant, options, device: (
            freezing.is_asked(variant.mode)
            and variant.mode.grad == "enabled"
            and not isinstance(options, Training)
        ),
        "torch freezes weights only where no gradient is recorded; leave out mode.grad=enabled",
    ),
    (
        lambda variant, options, device: (
            quantizing.is_asked(variant.mode) and variant.mode.compile == "aot"
        ),
        "weights of fewer bits are made in each process, and compile_cache=aot loads what another "
        "one saved; leave out compile_cache=aot",
    ),
    (
        lambda variant, options, device: (
            quantizing.is_asked(variant.mode) and backends.is_prebuilt(variant.mode)
        ),
        "weights of fewer bits are made in this process, and mode.compile={mode.compile} runs what "
        "another one built; use {of}mode=compile with mode.quantize={mode.quantize}",
    ),
    (
        lambda variant, options, device: (
            quantizing.is_widened(variant.mode) and freezing.is_asked(variant.mode)
        ),
        "frozen code widens weights of mode.quantize={mode.quantize} once, and holds them with all "
        "bits; leave out one of the two",
    ),
    (
        lambda variant, options, device: (
            quantizing.is_asked(variant.mode) and variant.mode.autocast
        ),
        "autocast casts weights, and those of mode.quantize={mode.quantize} stay as they are; use "
        "{of}dtype=bf16 with a mode without autocast",
    ),
    (
        lambda variant, options, device: variant.mode.graph and device.type != "cuda",
        "a CUDA graph needs an NVIDIA GPU, and this runs on {device}; use {of}mode=compile instead",
    ),
    (
        lambda variant, options, device: variant.mode.graph and backends.captures(variant.mode),
        "mode.compile={mode.compile} captures CUDA graphs by itself; leave out mode.graph=true, or "
        "use {of}mode=compile-cuda-graph for a manual capture",
    ),
    (
        lambda variant, options, device: (
            variant.mode.dynamic is not None and not backends.find(variant.mode).dynamic
        ),
        "mode.compile={mode.compile} does not take mode.dynamic; leave out mode.dynamic, or use "
        "{of}mode=compile",
    ),
    (
        lambda variant, options, device: (
            variant.mode.options != "{}" and not backends.find(variant.mode).options
        ),
        "mode.compile={mode.compile} does not take mode.options; leave them out, or use "
        "{of}mode=compile",
    ),
    (
        lambda variant, options, device: (
            regions.are_asked(variant.mode) and not backends.find(variant.mode).of_blocks
        ),
        "mode.compile={mode.compile} does not take mode.regions; leave it out, or use "
        "{of}mode=regional",
    ),
    (
        lambda variant, options, device: (
            variant.mode.autocast and variant.dtype in ("fp32", *SWITCHED)
        ),
        "autocast to {dtype} casts nothing; use {of}dtype=bf16 or {of}dtype=fp16, or a mode "
        "without autocast",
    ),
    (
        lambda variant, options, device: variant.dtype == "tf32" and not _has_tf32(device),
        f"tf32 needs {NEEDS['tf32'][1]}, and this runs on {{device}}; use {{of}}dtype=fp32",
    ),
    (
        lambda variant, options, device: variant.dtype == "bf32" and device.type == "cuda",
        "bf32 is how oneDNN multiplies fp32 on a CPU, and this runs on {device}; use "
        "{of}dtype=tf32",
    ),
    (
        lambda variant, options, device: variant.dtype == "bf32" and not _has_bf32(device),
        f"bf32 needs {NEEDS['bf32'][1]}, and {{device}} has none; use {{of}}dtype=fp32",
    ),
)
"""Rules for every phase; they hold for a case and for its baseline."""


def _is_exported(variant: Variant) -> bool:
    return backends.find(variant.mode).exported


PREBUILT_RULES: tuple[Rule, ...] = (
    (
        lambda variant, options, device: options.phase == "train",
        "what is made ahead of time has no backward pass here, so nothing can be trained; use "
        "{of}mode=compile",
    ),
    (
        lambda variant, options, device: variant.mode.autocast and _is_exported(variant),
        "a package is exported without autocast; use {of}dtype=bf16 with {of}mode=aoti",
    ),
    (
        lambda variant, options, device: variant.mode.graph,
        "what is made ahead of time is not captured in a CUDA graph; leave out "
        "{of}mode.graph=true, or use {of}mode=compile-cuda-graph",
    ),
    (
        lambda variant, options, device: variant.mode.grad == "enabled" and _is_exported(variant),
        "results of a package carry no gradients; leave out {of}mode.grad=enabled",
    ),
    (
        lambda variant, options, device: getattr(options, "sizes_json", None) is not None,
        "what is made ahead of time is for one size of its inputs; use calls=repeat, or "
        "{of}mode=compile",
    ),
)
"""Rules for a mode whose code is made ahead of time (`backends.is_prebuilt`)."""

PREBUILT_BASELINE = (
    "a package is built for the case alone; measure mode={mode} with another baseline.mode, such "
    "as eager"
)

TRAINING_RULES: tuple[Rule, ...] = (
    (
        lambda variant, training, device: quantizing.is_asked(variant.mode),
        "weights of fewer bits have no gradients, so nothing can be trained; leave out "
        "{of}mode.quantize",
    ),
    (
        lambda variant, training, device: freezing.is_asked(variant.mode),
        "training changes the weights, and frozen code would go on with the old ones; use "
        "{of}mode=compile",
    ),
    (
        lambda variant, training, device: variant.mode.grad != "enabled",
        "under {mode.grad} no gradient is recorded, so nothing can be trained; use {of}mode=eager, "
        "amp or compile",
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
)

TRAINING_CASE_RULES: tuple[Rule, ...] = (
    (
        lambda variant, training, device: training.capture != "step" and not variant.mode.graph,
        "train.capture={options.capture} says what mode.graph=true captures; use mode=cuda-graph",
    ),
    (
        lambda variant, training, device: (
            training.capture == "forward_backward" and variant.mode.compiles
        ),
        "make_graphed_callables does not take compiled modules; use mode=cuda-graph, or "
        "train.capture=step",
    ),
    (
        lambda variant, training, device: (
            training.activation_memory_budget is not None and not variant.mode.compiles
        ),
        "train.activation_memory_budget is the compiler's, and mode={mode.name} does not compile; "
        "use mode=compile, or train.checkpoint in eager",
    ),
    (
        lambda variant, training, device: (
            training.compile_optimizer and training.captures_step(variant.mode)
        ),
        "mode={mode.name} captures the whole step, of which train.compile_optimizer=true would "
        "compile a part; leave that out, or capture the rest with train.capture=forward_backward",
    ),
)
"""Rules of training for the case alone: its baseline shares its options, and may ignore them."""

OF_PHASE: dict[str, tuple[tuple[Rule, ...], tuple[Rule, ...]]] = {
    "train": (TRAINING_RULES, TRAINING_CASE_RULES),
}
"""Further rules of a phase: those for a case and its baseline, and those for the case alone."""

MIXED = (
    "{switched} is set for the whole process and would be switched between this case in {dtype} "
    "and its baseline in {baseline}, but {why}; leave out baseline.dtype{link}"
)
LINK = ", and measure mode=tf32/eager, which links both"

WHY_NOT_MIXED: tuple[tuple[Callable[[Case], bool], str], ...] = (
    (
        lambda case: case.compiles and "tf32" in _dtypes(case),
        "compiled code is compiled again when it changes",
    ),
    (
        lambda case: any(side.mode.graph for side in (case.variant, case.baseline) if side),
        "a captured graph keeps what was set at its capture, which nothing shows later",
    ),
    (
        lambda case: getattr(case.options, "sizes_json", None) is not None,
        "calls that vary are timed as one pass, in which nothing can be set",
    ),
)
"""Conditions under which products cannot be switched between case and baseline, and why."""

STARTS = (
    "starts, and caches that processes start with, are measured for inference with calls of one "
    "size, not for {what}; leave out starts, and use compile_cache=cold or warm"
)

SAME_KERNELS = (
    "there are no CUDA graphs on {device}, so this would measure the kernels of mode={other} "
    "again, which is part of this sweep; measured alone it gets its own row"
)


def refusal(case: Case, device: DeviceFacts) -> str | None:
    """Says why `case` cannot be measured on `device` and what to do instead; None if it can be."""
    of_both, of_case = OF_PHASE.get(case.phase, ((), ()))
    first = PREBUILT_RULES if backends.is_prebuilt(case.variant.mode) else ()
    reason = _reason((*first, *RULES, *of_both, *of_case), case, case.variant, device, of="")
    if reason or case.baseline is None:
        return reason
    if backends.is_prebuilt(case.baseline.mode):
        return f"the baseline {PREBUILT_BASELINE.format(mode=case.baseline.mode.name)}"
    reason = _reason((*RULES, *of_both), case, case.baseline, device, of="baseline.")
    if reason:
        return f"the baseline {case.baseline.mode.name}: {reason}"
    if reason := freezing.mixed(case):
        return reason
    why = next((why for holds, why in WHY_NOT_MIXED if case.alternates and holds(case)), None)
    if why is None:
        return None
    dtype, baseline = _dtypes(case)
    switched = next(each for each in (dtype, baseline) if each in SWITCHED)
    link = LINK if switched == "tf32" else ""
    return MIXED.format(switched=switched, baseline=baseline, dtype=dtype, why=why, link=link)


def _dtypes(case: Case) -> list[str]:
    return [each.dtype for each in (case.variant, case.baseline) if each]


def unfit_for(case: Case, unfit: Mapping[str, str]) -> str | None:
    """Says why an axis that `case` or its baseline sets changes nothing in its model, or None.

    `unfit` has the reasons by axis.
    """
    variants = [each for each in (case.variant, case.baseline) if each]
    reasons = (why for name, why in unfit.items() if any(axes.is_set(name, v) for v in variants))
    return next(reasons, None)


def no_cache(case: Case, plan: Plan) -> str | None:
    """Says why the compiler's cache cannot be in the state that `plan` asks for; None if it can."""
    cache, sides = (
        CACHES[plan.compile_cache],
        [each for each in (case.variant, case.baseline) if each],
    )
    if any(freezing.is_asked(each.mode) for each in sides) and not cache.starts_empty:
        return freezing.UNCACHED
    if not (plan.starts or cache.is_saved):
        return None
    if case.phase != Inference.phase or getattr(case.options, "sizes_json", None):
        return STARTS.format(
            what="training" if case.phase != Inference.phase else "calls that vary"
        )
    if any(kernels.is_asked(each.mode) for each in sides):
        return STARTS.format(what="mode.kernels")
    if any(quantizing.is_asked(side.mode) for side in sides):
        return STARTS.format(what="mode.quantize")
    return None


def _reason(
    rules: tuple[Rule, ...], case: Case, variant: Variant, device: DeviceFacts, of: str
) -> str | None:
    for applies, reason in rules:
        if applies(variant, case.options, device):
            return reason.format(
                device=device.name, dtype=variant.dtype, mode=variant.mode, options=case.options,
                of=of,
            )  # fmt: skip
    return axes.refusal(variant, device)


def same_kernels(case: Case, device: DeviceFacts, sweep: Mapping[str, str]) -> str | None:
    """Says why `case` would repeat another case of its sweep; None if it would not.

    `sweep` maps case ids to the names of the sweep's modes. On a device without CUDA graphs, two
    modes that differ only in whether their backend captures graphs run the same code.
    """
    if device.type == "cuda":
        return None
    mode = backends.drop_graphs(case.variant.mode)
    other = replace(case, variant=replace(case.variant, mode=mode)).case_id
    if other == case.case_id or other not in sweep:
        return None
    return SAME_KERNELS.format(device=device.name, other=sweep[other])
