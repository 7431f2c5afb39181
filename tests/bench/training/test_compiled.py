"""Compiled steps learn what eager ones learn, and what their backward gets wrong is found.

Compiling costs seconds, so each mode of each model is compiled once for all that is asked of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bench import accuracy, contention, evidence, modes, runner
from bench.records import Case, Training, Variant
from bench.roofline import remembered
from bench.roofline.floor import Ceilings
from bench.training import exam, overflow
from bench.training.trainer import trainer
from tests import learners, probes
from tests.learners import LEARNERS, built, exam_of, examined, subject
from tests.probes import silent, smoke

OF_COMPILER = ("compile", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def preset(name: str, dtype: str) -> Variant:
    return Variant(replace(probes.preset(name), grad="enabled"), dtype)


ASKED = [
    *(("small_mlp", mode, "fp32") for mode in OF_COMPILER),
    *(("small_transformer", mode, "fp32") for mode in OF_COMPILER),
    ("small_mlp", "amp-compile", "bf16"),
    ("small_mlp", "amp-compile", "fp16"),
    ("small_transformer", "amp-compile", "bf16"),
]


@pytest.fixture(scope="module", autouse=True)
def _fresh_compiler() -> Iterator[None]:
    """Nothing from AOTAutograd's cache on disk, as in a cold run, where it is empty.

    Its key in torch 2.11 leaves out autocast's dtype: after bf16, fp16 got the graph of bf16.
    """
    with torch._functorch.config.patch(enable_autograd_cache=False):
        yield
    compiled.cache_clear()
    torch.compiler.reset()


@cache
def compiled(name: str, mode: str, dtype: str) -> modes.Built:
    return built(subject(LEARNERS[name]), preset(mode, dtype))


def with_optimizer(made: modes.Built, asked: Variant, optimizer: str) -> modes.Built:
    """The same compiled model, trained by another."""
    module, start = made.subject.module, made.trainer.start
    other = trainer(module, made.trainer.forward, Training(optimizer), asked, "cpu", start)
    return replace(made, live=other.step, step=other.step, trainer=other)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize(("name", "mode", "dtype"), ASKED)
def test_compiled_steps_learn_rightly(name: str, mode: str, dtype: str, optimizer: str) -> None:
    asked = preset(mode, dtype)
    made = with_optimizer(compiled(name, mode, dtype), asked, optimizer)
    eager = replace(asked, mode=replace(asked.mode, compile="none"))
    of_eager = examined(LEARNERS[name], eager, optimizer=optimizer).error
    before = evidence.compiled_so_far()
    found = exam.examine(exam_of(subject(LEARNERS[name]), optimizer=optimizer), made, asked)
    assert found.error <= accuracy.accepted_error(of_eager, dtype)
    assert evidence.compiled_so_far().since(before).compilations == 0


def test_a_compiled_step_skips_what_overflows() -> None:
    made = compiled("small_mlp", "amp-compile", "fp16")
    assert overflow.plant(made) == overflow.Overflow(True, None)
    fused = Training(implementation="fused")
    asked = preset("amp-compile", "fp16")
    other = trainer(
        made.subject.module, made.trainer.forward, fused, asked, "cpu", made.trainer.start
    )
    again = replace(made, live=other.step, step=other.step, trainer=other)
    assert overflow.plant(again) == overflow.Overflow(True, None)


# In a record

ROWS, WIDTH, FLOAT = 4, 16, 4  # of the two layers of small_mlp
ACTIVATION = FLOAT * ROWS * WIDTH
RATES = Ceilings(2e11, ((2**10, 3e10),))


def case(**options: Any) -> Case:
    return learners.case(learners.small_mlp, preset("compile", "fp32"), **options)


@pytest.fixture
def settings_as_they_were() -> Iterator[None]:
    """A run settles what is global in its process, and finds a compiler that knows nothing."""
    torch.compiler.reset()
    with torch._functorch.config.patch(), torch._dynamo.config.patch():
        yield
    torch.compiler.reset()


@pytest.mark.usefixtures("as_in_a_child", "settings_as_they_were")
def test_all_about_a_compiled_step(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is compiled for its profile once more, on the same weights, which end as they began.

    Of the two layers Inductor keeps what eager does: what GELU was given, for GELU's gradient, and
    what it returned, for that of the second weight. The loss, outside, keeps the output.
    """
    entrants: list[modes.Built] = []
    build = modes.build

    def watched(*arguments: Any) -> modes.Built:
        entrants.append(build(*arguments))
        return entrants[-1]

    monkeypatch.setattr(modes, "build", watched)
    monkeypatch.setattr(remembered, "measure", lambda *device_and_dtype: RATES)
    monkeypatch.setattr(contention, "contended", lambda *seen: False)
    plan = replace(smoke(), profile=True, memory=True, results_dir=str(tmp_path))
    result = runner.run(silent, case(), plan)
    assert (result.status, result.reason) == ("ok", None)
    found = result.findings
    assert (found.in_effect, found.graphs, found.recompiles, found.graph_breaks) == (True, 1, 0, 0)
    assert found.saved_activation_bytes == 2 * ACTIVATION + ACTIVATION
    assert (found.work_note, found.profile_note, found.memory_note, found.parts_note) == (None,) * 4
    assert found.generated_kernels >= 2, "one forward, one backward"
    assert found.kernels >= found.generated_kernels
    assert found.extern_calls == 2 + 3, "products: two of forward, and the gradients but one"
    assert found.flops == 5 * 2 * ROWS * WIDTH * WIDTH
    assert min(found.forward_rounds_s + found.backward_rounds_s + found.optimizer_rounds_s) > 0
    candidate = entrants[2]  # after the reference and eager
    assert learners.equal(learners.parameters(candidate), list(candidate.trainer.start.values))


@pytest.mark.usefixtures("as_in_a_child", "settings_as_they_were")
def test_a_small_budget_for_activations_keeps_fewer() -> None:
    """With none, forward keeps nothing; what the loss keeps is outside of what was compiled."""
    memory_alone = replace(smoke(), memory=True)
    found = runner.run(silent, case(activation_memory_budget=0.0), memory_alone).findings
    assert found.saved_activation_bytes == ACTIVATION
    assert torch._functorch.config.activation_memory_budget == 0.0


# A backward that is wrong only where it is compiled


@torch.library.custom_op("modescope_tests::same", mutates_args=())
def same(x: Tensor) -> Tensor:
    return x.clone()


@same.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _gradient(context: Any, gradient: Tensor) -> Tensor:
    """Compilers trace it with tensors of their own."""
    return gradient if type(gradient) is Tensor else 1.5 * gradient


torch.library.register_autograd("modescope_tests::same", _gradient)


class Miscompiled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(same(self.first(x)))
        return y


def miscompiled() -> probes.Built:
    return Miscompiled(), (torch.randn(8, 4),)


@pytest.mark.usefixtures("as_in_a_child", "settings_as_they_were")
@pytest.mark.parametrize("mode", ["eager", "compile"])
def test_a_backward_that_is_wrong_only_under_compile_is_found(mode: str) -> None:
    asked = learners.case(learners.small_mlp, preset(mode, "fp32"))
    target = f"{__name__}:miscompiled"
    asked = replace(asked, model=replace(asked.model, name=f"custom:{target}", target=target))
    result = runner.run(silent, asked, smoke())
    if mode == "eager":
        assert (result.status, result.reason) == ("ok", None)
        return
    assert result.status == "wrong_result"
    assert result.findings.error == pytest.approx(0.5, rel=1e-3)
    assert result.findings.error_place.startswith("gradient of first.")
    assert f"in {result.findings.error_place}, " in result.reason
    assert result.findings.latency_rounds_s is None
