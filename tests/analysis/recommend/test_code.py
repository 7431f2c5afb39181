"""The printed lines are run: the model sees the grad state, dtypes and compiler of the row."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from modescope.bench.evidence import compiler_counts
from modescope.bench.model import torch_settings
from modescope.bench.modes import regions
from modescope.bench.records.cases import Training, Variant
from tests.helpers import stacks
from tests.helpers.emulated_graphs import emulated
from tests.helpers.probe_models import WIDTH, Inside, Tells, inside, preset, variant
from tests.helpers.programs import lines, named, run

GRAPH = variant(graph=True)
TRAINING = Training(optimizer="adamw", lr=0.01)
ON_CPU = [  # in the fast lane what does not compile
    *("eager fp32", "eager bf16", "eager fp16", "no_grad fp32", "inference_mode fp32"),
    *("inference_mode bf16", "amp bf16", "amp fp16"),
    *(
        pytest.param(name, marks=pytest.mark.full)
        for name in (
            *("compile fp32", "compile bf16", "amp-compile bf16"),
            "max-autotune-no-cudagraphs fp32",
        )
    ),
]


@pytest.fixture(autouse=True)
def _as_before(restored_settings: None) -> Iterator[None]:
    with torch_settings.keep():
        yield
    torch.compiler.reset()


def check(program: str, asked: Variant, training: bool) -> None:
    before = compiler_counts.read_compiled()
    ran = run(program, Tells())
    y, told = ran.outputs[0] if training else ran.output
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[asked.dtype]
    stored = torch.float32 if asked.mode.autocast else dtype
    grad = asked.mode.grad
    assert inside(told) == Inside(grad == "enabled", asked.mode.autocast, stored, stored, dtype)
    assert (y.requires_grad, y.is_inference()) == (grad == "enabled", grad == "inference_mode")
    assert ran.given.training == training
    assert (compiler_counts.read_compiled().since(before).graphs > 0) == asked.mode.compiles


@pytest.mark.parametrize("words", ON_CPU)
def test_the_model_sees_the_axes_of_its_row(words: str) -> None:
    check(lines(named(words)), named(words), training=False)


@pytest.mark.parametrize(
    "words",
    [
        *("eager fp32", "eager bf16", "amp bf16", "amp fp16"),
        pytest.param("compile fp32", marks=pytest.mark.full),
        pytest.param("amp-compile bf16", marks=pytest.mark.full),
    ],
)
def test_a_training_step_sees_them_too(words: str) -> None:
    asked = named(words, grad="enabled")
    check(lines(asked, Training()), asked, training=True)


@pytest.mark.parametrize("words", ["eager fp32", "eager bf16"])
def test_inputs_by_name_are_passed_by_name(words: str) -> None:
    program = lines(named(words), named_inputs=True)
    ran: dict[str, Any] = {"torch": torch, "model": Tells(), "inputs": {"x": torch.rand(2, WIDTH)}}
    exec(program, ran)
    dtype = torch.bfloat16 if "bf16" in words else torch.float32
    assert inside(ran["output"][1]).input == ran["inputs"]["x"].dtype == dtype


@pytest.mark.parametrize("kept", [None, "float64"])
def test_other_dtypes_are_kept_where_they_were(kept: str | None) -> None:
    net = Tells()
    net.register_buffer("wide", torch.ones(2, dtype=torch.float64))
    ran = run(lines(named("eager bf16"), dtypes_kept=kept), net)
    assert inside(ran.output[1]).weight == torch.bfloat16
    assert ran.given.wide.dtype == (torch.float64 if kept else torch.bfloat16)


def test_a_backend_of_ones_own_is_left_to_fill_in() -> None:
    own = replace(named("compile fp32"), mode=replace(preset("compile"), compile="unfused"))
    assert "model = build(model)" in lines(own)


def test_settings_of_the_process_are_those_of_the_row() -> None:
    torch.set_num_threads(2)
    run(lines(variant("tf32")))
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == (1, "high")


@pytest.mark.full
@pytest.mark.parametrize(("dynamic", "graphs"), [(True, 0), (False, 1)])
def test_compile_options_are_passed_on(dynamic: bool, graphs: int) -> None:
    asked = variant(compile="default", dynamic=dynamic)
    ran = run(lines(asked))
    before = compiler_counts.read_compiled()
    ran.model(torch.randn(3, WIDTH))
    assert compiler_counts.read_compiled().since(before).graphs == graphs


def test_a_captured_call_replays_on_new_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines behind the mark are those of each call."""
    emulated(monkeypatch)
    program = lines(GRAPH, device="cuda:1")
    ran = run(program)
    ran.inputs = [torch.ones(2, WIDTH)]  # another batch, elsewhere
    exec(program.partition("# for each call:")[2], vars(ran))
    torch.testing.assert_close(ran.output, ran.model(torch.ones(2, WIDTH)))


@pytest.mark.parametrize("named_inputs", [None, True])
def test_a_captured_call_passes_on_what_is_no_tensor(
    named_inputs: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulated(monkeypatch)
    program = lines(GRAPH, device="cuda", named_inputs=named_inputs)
    given = {"x": torch.ones(2), "factor": 3}
    names: dict[str, Any] = {"torch": torch, "model": Scaled()}
    names["inputs"] = given if named_inputs else tuple(given.values())
    exec(program, names)
    assert names["output"].tolist() == [3.0, 3.0]


class Scaled(torch.nn.Module):
    def forward(self, x: Tensor, factor: float) -> Tensor:
        return x * factor


def trained(program: str, steps: int = 1) -> list[Tensor]:
    """The weights after the program's step and further ones by hand."""
    ran = run(program)
    for _ in range(steps - 1):
        ran.optimizer.zero_grad()
        ran.model(*ran.inputs).square().mean().backward()
        ran.optimizer.step()
    return list(ran.given.parameters())


def test_a_captured_step_trains_as_eager_does(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)
    captured = trained(lines(GRAPH, TRAINING, "cuda"))  # three steps before the capture, one replay
    torch.testing.assert_close(captured, trained(lines(variant(), TRAINING), steps=4))


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        (GRAPH, {"capture": "forward_backward"}),
        (variant(), {"checkpoint": "model"}),
        (variant(), {"implementation": "fused"}),
        (variant(), {"activation_memory_budget": 0.5}),
    ],
)
def test_options_of_training_make_the_same_step(
    asked: Variant, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    emulated(monkeypatch)
    program = lines(asked, replace(TRAINING, **options), "cuda")
    assert program != lines(variant(), TRAINING, "cuda")
    torch.testing.assert_close(trained(program), trained(lines(variant(), TRAINING, "cuda")))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_blocks_of_a_model_are_found_and_compiled(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the model runs in eager; equal blocks share a graph."""
    given: list[dict[str, Any]] = []

    def compiling(function: Any, **arguments: Any) -> Any:
        given.append(arguments)
        return compile_it(function, backend="aot_eager", fullgraph=arguments["fullgraph"])

    compile_it = torch.compile
    monkeypatch.setattr(torch, "compile", compiling)
    net, _ = stacks.sequentials()
    names = [*regions.find(net)]
    asked = variant(grad="no_grad", compile=mode, axes=(("regions", "blocks"),))
    program = lines(asked, region_names=json.dumps(names))
    before = compiler_counts.read_compiled()
    names_after: dict[str, Any] = {
        "torch": torch,
        "model": net,
        "inputs": [torch.randn(2, stacks.WIDTH)],
    }
    with torch._dynamo.config.patch(recompile_limit=8):
        exec(program, names_after)
    assert compiler_counts.read_compiled().since(before).graphs == 1
    own = {} if mode == "default" else {"mode": mode}
    assert given == [{**own, "fullgraph": True}] * 3
    assert all(len(line) <= 100 for line in program.splitlines())
    with torch.compiler.set_stance("force_eager"):
        torch.testing.assert_close(names_after["output"], net(*names_after["inputs"]))


def test_the_compilers_budget_is_set_where_torch_alone_was_imported() -> None:
    program = lines(variant(), replace(TRAINING, activation_memory_budget=0.5))
    settings = "import torch\n" + program.partition("model.train()")[0]
    subprocess.run([sys.executable, "-c", settings], check=True)
