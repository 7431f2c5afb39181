"""Columns of what was checked: the mode, the results, and what the model itself changes."""

from __future__ import annotations

from dataclasses import dataclass

from modescope.bench.records.columns.column import nullable
from modescope.bench.records.outcomes import Checked


@dataclass(frozen=True)
class Checks:
    """Whether the mode took effect and its results are right, and how long its first call took."""

    in_effect: bool | None = nullable(
        "whether the mode did what its name says; false if torch ran something else"
    )
    in_effect_note: str | None = nullable(
        "what torch ran instead, or what to know about the mode, such as a variable that changes it"
    )
    matmul_precision: str | None = nullable(
        "torch.get_float32_matmul_precision() while measuring; null in bf32, which it cannot tell"
    )
    seen_grad: str | None = nullable("grad state in which the model was called")
    seen_autocast: str | None = nullable("dtype of autocast at that call, or none")
    seen_weight_dtype: str | None = nullable("dtypes of the weights at that call")
    seen_attention: str | None = nullable(
        "operators of attention that ran in a call where mode.attention is set, JSON; empty where "
        "the compiler made others of math"
    )
    seen_axes: str | None = nullable(
        "values of the mode's further axes at that call that are not their defaults, JSON"
    )
    kernel_use: str | None = nullable(
        "where mode.kernels is set: called (as they are), inlined (in compiled code), broke "
        "(called between pieces of a broken graph) or absent (torch's own code ran); null where "
        "unknown"
    )
    kernel_names: str | None = nullable(
        "operators and kernels of that implementation alone that ran, JSON"
    )
    layout_kept: bool | None = nullable(
        "true where the mode reads weights of its own, in a package or frozen, whose places in "
        "memory are not drawn anew between rounds: the speedup's interval lacks that part of the "
        "noise"
    )
    named_inputs: bool | None = nullable("true where the model takes its inputs by name")
    changed_arguments: str | None = nullable(
        "arguments that forward changes; they are put back before every call, untimed"
    )
    changed_state: str | None = nullable(
        "parameters, buffers and attributes that forward changes; they are put back before every "
        "call, untimed"
    )
    state_left: str | None = nullable(
        "attributes that forward may change and that cannot be put back"
    )
    dtypes_kept: str | None = nullable(
        "dtypes of weights, buffers and inputs, as they were built, that no variant changes; null "
        "if all floats are fp32"
    )
    steady_operators: str | None = nullable(
        "operators by which a steady call differs from a call of plain eager; null if by none"
    )
    checked: Checked | None = nullable(  # noqa: RUF009 (an enum cannot be changed)
        "exact (results of the timed step), without_randomness (of a copy without random numbers) "
        "or not"
    )
    checked_note: str | None = nullable(
        "how randomness was switched off, why nothing was checked, or what the check cannot show"
    )
    checked_inputs: str | None = nullable(
        "inputs of the check: fresh (all redrawn), floats (those redrawn), rebuilt (other seeds) "
        "or example"
    )
    checked_against: str | None = nullable(
        "reference of the check: float64, fp32, or own (plain eager in the model's dtypes)"
    )
    error: float | None = nullable(
        "relative RMS error against that reference: the worst output of two inputs, or the worst "
        "loss, gradient or update of three steps"
    )
    error_place: str | None = nullable("output, buffer, loss or parameter with that error")
    unchecked_outputs: str | None = nullable(
        "what forward returns and the check does not compare, or whose difference rounding explains"
    )
    eager_error: float | None = nullable(
        "error of plain eager at this dtype; null unless something is compared with float64"
    )
    baseline_note: str | None = nullable("why the baseline failed, so that there is no speedup")
    baseline_error: float | None = nullable(
        "error of the timed baseline; null if there was nothing to compare"
    )
    baseline_error_limit: float | None = nullable(
        "largest error of the baseline that is accepted without max_error"
    )
    error_limit: float | None = nullable(
        "the same for this case; 0 if plain eager's own error is too large to judge a mode by"
    )
    scale_error: float | None = nullable(
        "in training: how far gradients or updates are from float64's by a common factor (0.02: 2 "
        "%)"
    )
    eager_scale_error: float | None = nullable("the same for plain eager")
    scale_error_limit: float | None = nullable("largest scale_error that is accepted")
    drawn_spread: float | None = nullable(
        "of a model with random numbers: how much results differ between calls, relative to eager"
    )
    first_call_s: float | None = nullable(
        "first call with compiling, tuning and capturing; if the compiler records CUDA graphs, "
        "the first two"
    )
    baseline_first_call_s: float | None = nullable(
        "the same for the baseline; null if it compiles, as the case warmed its caches"
    )
    graphs: int | None = nullable("graphs that torch.compile made")
    graph_breaks: int | None = nullable(
        "expressions at which torch.compile broke its graph, each once; null if nothing was "
        "compiled"
    )
    graph_break_reasons: str | None = nullable("place and reason of each break, JSON")
    eager_functions: str | None = nullable("functions that a graph break leaves in eager, JSON")
    recompiles: int | None = nullable("compilations while the rounds were timed")
    torch_warnings: str | None = nullable("warnings of torch in the first call, JSON")
    autotuned: int | None = nullable("choices that the compiler timed to tune")
    graph_launches: int | None = nullable("CUDA graph launches in a steady call")


@dataclass(frozen=True)
class ModelsOwn:
    """Settings of torch that the model changes, and graphs that it compiles, in every mode."""

    settings_put_back: str | None = nullable(
        "torch's settings that building or first calls changed, put back before timing, JSON"
    )
    settings_in_calls: str | None = nullable("torch's settings that timed calls changed, JSON")
    own_graphs: int | None = nullable(
        "graphs that the model compiled by itself, in the baseline too"
    )


@dataclass(frozen=True)
class LossScaling:
    """What GradScaler did; null for inference."""

    loss_scale: float | None = nullable(
        "GradScaler's scale in the first step: a quarter of the largest without an overflow"
    )
    overflow_skipped: bool | None = nullable(
        "whether it skipped exactly the step that was made to overflow; null if none can be"
    )
