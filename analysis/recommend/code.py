"""The lines of a user's program that do what a row's mode does.

They leave three names to the program: `model`, `inputs` (its arguments, a sequence of tensors) and,
in training, `loss_of`, which makes the loss of the model's output.
"""

from __future__ import annotations

import json
from textwrap import indent
from typing import Any

from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.bench.records.cases import IMPLEMENTATIONS, OPTIMIZERS, Mode, Training, Variant

SETUP = (
    ("threads", "torch.set_num_threads({threads})  # as measured"),
    ("tf32", 'torch.set_float32_matmul_precision("high")'),
    ("activations", "torch._functorch.config.activation_memory_budget = {activations}"),
    ("state", "model.{state}()"),
    (
        "cast",
        "model.to({cast})\ninputs = [x.to({cast}) if x.is_floating_point() else x for x in inputs]",
    ),
    (
        "checkpoints",
        "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (\n"
        "    checkpoint_wrapper,\n)",
    ),
    (
        "checkpoints_children",
        "for name, child in [*model.named_children()]:  # of a ModuleList: its members\n"
        "    setattr(model, name, checkpoint_wrapper(child))",
    ),
    ("checkpoints_model", "model = checkpoint_wrapper(model)"),
    ("compile", "model = torch.compile(model{compile})"),
    ("graphed_autocast", "model.forward = {graphed_autocast}(model.forward)"),
    (
        "graphed",
        "model = torch.cuda.make_graphed_callables(model, tuple(inputs), allow_unused_input=True)",
    ),
    ("padded", "# `inputs` have {padded}"),
    ("graph_per_size", "# capture what follows once for each size of `inputs`"),
    ("optimizer", "optimizer = torch.optim.{optimizer}"),
    ("scaled_on", 'scaler = torch.amp.GradScaler("{scaled_on}")'),
)
"""What comes before the first call: for each axis of `_axes` that is not None, its lines."""

CAPTURE = """

stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for _ in range(3):{note}
        step()
torch.cuda.current_stream().wait_stream(stream)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    {result} = step()

graph.replay()  # before it, copy new values into `inputs`; after it, `{result}` has the result"""

_GRAD = {"no_grad": "torch.no_grad()", "inference_mode": "torch.inference_mode()"}
_DTYPES = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}


def code(row: Row) -> str:
    """The lines for a derived row: settings, what is made once, and a call or a training step.

    They expect that torch is imported, and that `model` and `inputs` are on the device.
    """
    axes = _axes(row)
    setup = [text.format(**axes) for axis, text in SETUP if axes[axis] is not None]
    step = _training_step(axes) if axes["trains"] else _call(axes, "output = model(*inputs)")
    if not axes["captured"]:
        return "\n".join([*setup, *step])
    result, returned = ("loss", "loss.detach()") if axes["trains"] else ("output", "output")
    note = "  # training steps, too" if axes["trains"] else ""
    body = indent("\n".join([*step, f"return {returned}"]), "    ")
    return "\n".join([*setup, "\n\ndef step():", body, CAPTURE.format(result=result, note=note)])


def _axes(row: Row) -> dict[str, Any]:
    """The values in the templates; None where an axis needs no line."""
    trains = row["phase"] == "train"
    training = Training(**json.loads(row["training"] or "{}"))
    mode = Mode(row["mode"], row["grad"], row["autocast"], row["compile_mode"], row["graph"])
    device, dtype = row["device"].partition(":")[0], _DTYPES.get(row["dtype"])
    autocast = f'torch.autocast("{device}", {dtype})' if mode.autocast else None
    captured = training.captures_step(mode) if trains else mode.graph
    graphed = mode.graph and not captured
    checkpoint = training.checkpoint if trains else "none"
    scaled = trains and training.scales(Variant(mode, row["dtype"]))
    return {
        "trains": trains,
        "captured": captured,
        "contexts": ", ".join(filter(None, (_GRAD.get(mode.grad), autocast))),
        "threads": row["threads"] if device == "cpu" else None,
        "tf32": row["dtype"] == "tf32" or None,
        "activations": training.activation_memory_budget,
        "state": "train" if trains else "eval",
        "cast": None if autocast else dtype,
        "checkpoints": None if checkpoint == "none" else True,
        "checkpoints_children": True if checkpoint == "children" else None,
        "checkpoints_model": True if checkpoint == "model" else None,
        "compile": _compile_arguments(row) if mode.compiles else None,
        "graphed": True if graphed else None,
        "graphed_autocast": autocast if graphed else None,
        "padded": phrases.padding(row) or None,
        "graph_per_size": True if captured and row["calls"] else None,
        "optimizer": _optimizer(training, mode) if trains else None,
        "scaled_on": device if scaled else None,
    }


def _compile_arguments(row: Row) -> str:
    """`, mode="reduce-overhead", fullgraph=True, dynamic=True`: those that are not torch's."""
    mode = {} if row["compile_mode"] == "default" else {"mode": row["compile_mode"]}
    fullgraph = {"fullgraph": True} if row["fullgraph"] else {}
    return _arguments(mode | fullgraph | json.loads(row["compile_options"] or "{}"))


def _optimizer(training: Training, mode: Mode) -> str:
    """`AdamW(model.parameters(), lr=0.001, capturable=True)`."""
    named = OPTIMIZERS[training.optimizer]
    options: dict[str, Any] = {"lr": training.lr, **IMPLEMENTATIONS[training.implementation]}
    asked, captured = training.capturable, training.captures_step(mode)
    if named.counts_steps and (captured if asked is None else asked):
        options["capturable"] = True
    return f"{named.torch_name}(model.parameters(){_arguments(options)})"


def _arguments(named: dict[str, Any]) -> str:
    texts = (f", {k}={json.dumps(v) if isinstance(v, str) else repr(v)}" for k, v in named.items())
    return "".join(texts)


def _training_step(axes: dict[str, Any]) -> list[str]:
    loss = _call(axes, "loss = loss_of(model(*inputs))")
    if axes["scaled_on"]:
        rest = ["scaler.scale(loss).backward()", "scaler.step(optimizer)", "scaler.update()"]
    else:
        rest = ["loss.backward()", "optimizer.step()"]
    return ["optimizer.zero_grad(set_to_none=True)", *loss, *rest]


def _call(axes: dict[str, Any], line: str) -> list[str]:
    """The line that calls the model, in its contexts."""
    return [f"with {axes['contexts']}:", f"    {line}"] if axes["contexts"] else [line]
