"""The steps of the gap between eager and a compiled mode, and what is tried beside the mode.

`bench.passes.gap_variants` builds a variant for each name here, and `bench.stats.gap` compares
them. A new step is a line here, and a line that builds its variant there.
"""

from __future__ import annotations

from dataclasses import dataclass

EAGER = "eager"
"""The first variant of the ladder, whose call is the unit of all steps."""

AGAIN = "again"
"""The control: the mode compiled once more, by which nothing differs."""

UNFUSED = "unfused"
"""The compiler's code without fusion, between the captured graphs and the code itself."""

ELSEWHERE = "in a second process"
"""The note on steps that a confirming process measured."""


@dataclass(frozen=True)
class GapStep:
    """What a variant of the ladder differs by from the one before.

    `name` is the variant's and the column's (`step_<name>`). `saves` and `adds` are its subject in
    a sentence, and `doc` says what the variant is.
    """

    name: str
    doc: str
    saves: str
    adds: str


LADDER = (
    GapStep("autograd", "eager under the grad axis of the mode",
            "leaving out autograd", "entering the grad mode"),
    GapStep("autocast", "the same under autocast",
            "autocast", "autocast (its casts and kernels)"),
    GapStep("python", "the graphs that Dynamo captured, called one after another without it",
            "leaving out the model's Python", "calling the captured graph"),
    GapStep("code", "the code that the compiler made of these graphs, called in the same way",
            "the compiler's code", "the compiler's code"),
    GapStep("entry", "the mode without guards and captured CUDA graphs",
            "entering compiled code", "entering compiled code"),
    GapStep("guards", "the mode without captured CUDA graphs",
            "guards", "guards"),
    GapStep("capture", "the mode with captured CUDA graphs",
            "the CUDA graph", "the CUDA graph"),
)  # fmt: skip
"""The steps from eager to the mode, in the order of a call. Those that do not apply to a mode are
left out, so the last one that applies is the mode."""

FUSION = GapStep("fusion", "the part of step_code that fusing adds; only with explain=fusion",
                 "fusion", "fusion")  # fmt: skip
"""The part of the step `code` beyond the variant UNFUSED."""

STEPS = (*LADDER, FUSION)


@dataclass(frozen=True)
class Trial:
    """One change to the mode as it is, whose gain is the column `with_<name>`."""

    name: str
    doc: str
    sentence: str  # the change, to stand before `made it 1.20× as fast`


def _filtered(name: str, what: str, risk: str) -> Trial:
    use = f"options={{'guard_filter_fn': torch.compiler.{name}}}"
    return Trial(name.removesuffix("_unsafe"), f"torch.compiler.{name} leaves out guards",
                 f"Leaving out guards of {what} ({use}, wrong once {risk} change)")  # fmt: skip


TRIALS = (
    _filtered("skip_guard_on_inbuilt_nn_modules_unsafe", "torch's own modules", "those"),
    _filtered("skip_guard_on_all_nn_modules_unsafe", "all modules", "those"),
    _filtered("keep_tensor_guards_unsafe", "all but inputs", "modules or globals"),
    _filtered("skip_all_guards_unsafe", "everything", "inputs, modules or globals"),
    Trial("flush_denormal", "subnormal numbers are flushed to zero",
          "Flushing subnormal numbers to zero (torch.set_flush_denormal(True))"),
    Trial("contiguous", "the inputs are contiguous", "Giving it contiguous inputs"),
    Trial("static", "sizes are constant", "Compiling it for these sizes alone (dynamic=False)"),
)  # fmt: skip
