"""Writes the lines of Python that make a user's program run in the mode of a row.

The program has to define three names: `model`, `inputs` (the tensors with which to call the model,
as a tuple or as a dict by name) and, for training, `loss_of`, which computes the loss from the
model's output.
"""

from __future__ import annotations

import json
from textwrap import indent
from typing import Any

from modescope.analysis.format import phrases
from modescope.analysis.rows.type import Row
from modescope.bench.modes.axes import AXES, acting
from modescope.bench.modes.backends import arguments, compiling, program
from modescope.bench.modes.cache_program import OF_CACHES, Lines, within
from modescope.bench.records.cases import Mode, Training, Variant, canonical_json
from modescope.bench.records.optimizers import IMPLEMENTATIONS, OPTIMIZERS

WRAPPER = """\
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper,
)"""
CHECKPOINT_CHILDREN = """\
for name, child in [*model.named_children()]:  # of a ModuleList: its members
    setattr(model, name, checkpoint_wrapper(child))"""
BF32 = """\
torch.backends.mkldnn.matmul.fp32_precision = "bf16"
torch.backends.mkldnn.conv.fp32_precision = "bf16\""""
OF_STEPS = """\
# The graph keeps the learning rate: a schedule has no effect on replays. It reads what loss_of
# reads, such as targets, where it lay: copy new values there, too."""
EACH_CALL = "# for each call:"
"""The line after which a program that captures has what is done in each call."""

CAPTURE = f"""

stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for _ in range(3):{{note}}
        step()
torch.cuda.current_stream().wait_stream(stream)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    {{result}} = step()

{EACH_CALL}
{{copy}}
graph.replay()  # now `{{result}}` has the result"""
_OWN = "x.detach().clone() if isinstance(x, torch.Tensor) else x"
_HELD = {
    True: f"{{\n    name: {_OWN}\n    for name, x in inputs.items()\n}}",
    False: f"[{_OWN} for x in inputs]",
}
_COPY = {
    named: f"for {pairs}:\n    if isinstance(x, torch.Tensor):\n        {own}.copy_(x)"
    for named, pairs, own in (
        (True, "name, x in inputs.items()", "held[name]"),
        (False, "own, x in zip(held, inputs)", "own"),
    )
}
"""By whether arguments are passed by name: where a graph reads them, and how they get there."""

_UPDATES = {
    False: ["loss.backward()", "optimizer.step()"],
    True: ["scaler.scale(loss).backward()", "scaler.step(optimizer)", "scaler.update()"],
}
_DTYPES = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}


def mode_of(row: Row) -> Mode:
    """Returns the mode of a row."""
    given = json.loads(row["compile_options"] or "{}")
    return Mode(
        row["mode"], row["grad"], row["autocast"], row["compile_mode"], row["graph"],
        dynamic=given.get("dynamic"), options=canonical_json(given.get("options", {})),
        axes=tuple(json.loads(row.get("axes") or "{}").items()), backend=given.get("backend"),
    )  # fmt: skip


def code(row: Row) -> str:
    """Returns the lines for a row: settings, one-time preparation, and a call or a training step.

    The lines expect that torch is imported, that `model` and `inputs` are on the device and, for
    training, that `loss_of` computes the loss from the output.
    """
    trains = row["phase"] == "train"
    training = Training(**json.loads(row["training"] or "{}"))
    memory_budget = training.activation_memory_budget
    mode = mode_of(row)
    variant = Variant(mode, row["dtype"])
    device, dtype = row["device"].partition(":")[0], _DTYPES.get(row["dtype"])
    asked = acting(variant)
    autocast = asked["autocast"].context(variant, device)
    captured = training.captures_step(mode) if trains else mode.graph
    graphed = mode.graph and not captured
    scaled = trains and training.scales(variant)
    blocks = json.loads(row.get("region_names") or "[]")
    contexts = ", ".join(
        filter(None, (axis.context(variant, device) for axis in reversed(asked.values())))
    )
    named, passed = bool(row["named_inputs"]), "held" if captured else "inputs"
    values = f"{passed}.values()" if named else passed
    call = f"model(**{passed})" if named and not graphed else f"model(*{values})"
    kept = OF_CACHES.get(row["compile_cache"], Lines())
    compiled = compiling(mode, bool(row["fullgraph"]), blocks)
    setup: list[tuple[object, str]] = [
        (mode.compiles and kept.before, kept.before),
        (True, f"# inputs: a {'dict' if named else 'tuple'} of the arguments of model"),
        (device == "cpu", f"torch.set_num_threads({row['threads']})  # as measured"),
        (row["dtype"] == "tf32", 'torch.set_float32_matmul_precision("high")'),
        (row["dtype"] == "bf32", BF32),
        (
            memory_budget is not None,
            "import torch._functorch.config\n\n"
            f"torch._functorch.config.activation_memory_budget = {memory_budget}",
        ),
        (True, f"model.{'train' if trains else 'eval'}()"),
        (dtype is not None and not autocast, _cast(dtype, named, bool(row["dtypes_kept"]))),
        *(
            (True, f"# set up {name}: {value}, which bench/modes/axes.py does not have here")
            for name, value in mode.axes
            if name not in AXES
        ),
        *((True, line) for axis in asked.values() for line in axis.code(variant, device)),
        *(
            (changed, _replace_inputs(changed, named))
            for axis in asked.values()
            for changed in [axis.input_code(variant, device)]
        ),
        (training.checkpoint != "none", WRAPPER),
        (training.checkpoint == "children", CHECKPOINT_CHILDREN),
        (training.checkpoint == "model", "model = checkpoint_wrapper(model)"),
        *((True, line) for line in program(mode, named, contexts)),
        (
            mode.compiles,
            within(contexts, compiled) if kept.within else compiled,
        ),
        (graphed and autocast, f"model.forward = {autocast}(model.forward)"),
        (
            graphed,
            "model = torch.cuda.make_graphed_callables("
            f"model, tuple({values}), allow_unused_input=True)",
        ),
        (phrases.padding(row), f"# `inputs` have {phrases.padding(row)}"),
        (
            captured and row["calls"],
            "# capture what follows once for each size of `inputs`",
        ),
        (trains, f"optimizer = torch.optim.{_optimizer(training, mode)}"),
        (training.compile_optimizer, "optimizer.step = torch.compile(optimizer.step)"),
        (scaled, f'scaler = torch.amp.GradScaler("{device}")'),
        (captured and trains, OF_STEPS),
        (captured, f"# where the graph reads its inputs\nheld = {_HELD[named]}"),
    ]
    before = [line for is_needed, line in setup if is_needed]
    line = f"loss = loss_of({call})" if trains else f"output = {call}"
    step = [f"with {contexts}:", f"    {line}"] if contexts else [line]
    if trains:
        step = ["optimizer.zero_grad(set_to_none=True)", *step, *_UPDATES[scaled]]
    if not captured:
        after = [kept.after] if mode.compiles and kept.after else []
        return "\n".join([*before, *step, *after])
    result, returned = ("loss", "loss.detach()") if trains else ("output", "output")
    note = "  # training steps, too" if trains else ""
    body = indent("\n".join([*step, f"return {returned}"]), "    ")
    capture = CAPTURE.format(result=result, note=note, copy=_COPY[named])
    return "\n".join([*before, "\n\ndef step():", body, capture])


def _cast(dtype: str | None, named: bool, keeps: bool) -> str:
    """The lines that cast weights and inputs; with `keeps`, only those that are in fp32."""
    model = f"model.to({dtype})"
    if keeps:
        model = (
            "for x in (*model.parameters(), *model.buffers()):\n"
            "    if x.dtype == torch.float32:\n"
            f"        x.data = x.data.to({dtype})"
        )
    is_cast = "x.dtype == torch.float32" if keeps else "x.is_floating_point()"
    return f"{model}\n{_replace_inputs(f'x.to({dtype}) if {is_cast} else x', named)}"


def _replace_inputs(by: str, named: bool) -> str:
    """The line that replaces each input `x` by an expression."""
    if named:
        return f"inputs = {{name: {by} for name, x in inputs.items()}}"
    return f"inputs = [{by} for x in inputs]"


def _optimizer(training: Training, mode: Mode) -> str:
    named = OPTIMIZERS[training.optimizer]
    options: dict[str, Any] = {"lr": training.lr, **IMPLEMENTATIONS[training.implementation]}
    asked, captured = training.capturable, training.captures_step(mode)
    if named.counts_steps and (captured if asked is None else asked):
        options["capturable"] = True
    return f"{named.torch_name}(model.parameters(){arguments(options)})"
