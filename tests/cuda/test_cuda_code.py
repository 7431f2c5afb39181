"""The code beside an answer, run on a GPU."""

from __future__ import annotations

import pytest
import torch

from modescope.bench.records.cases import Training
from tests.helpers.probe_models import WIDTH
from tests.helpers.programs import lines, named, run

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("fresh_compiler")]


@pytest.mark.parametrize(
    "words", ["amp fp16", "reduce-overhead fp32", "cuda-graph fp32", "compile-cuda-graph bf16"]
)
def test_lines_compute_what_the_model_does(words: str) -> None:
    ran = run(lines(named(words), device="cuda"), device="cuda")
    if named(words).mode.graph:
        ran.held[0].copy_(torch.ones(2, WIDTH))
        ran.graph.replay()
    with torch.inference_mode():
        expected = ran.given(*ran.inputs)
    torch.testing.assert_close(ran.output.to(expected), expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("capture", ["step", "forward_backward"])
@pytest.mark.parametrize("words", ["cuda-graph fp32", "compile-cuda-graph fp32"])
def test_lines_train(words: str, capture: str) -> None:
    training = Training(optimizer="adamw", capture=capture)
    ran = run(lines(named(words, "enabled"), training, "cuda"), device="cuda")
    torch.manual_seed(0)
    start = torch.nn.Linear(WIDTH, WIDTH).weight
    assert torch.isfinite(ran.loss)
    assert not torch.equal(ran.given.weight.cpu(), start)
