"""What all models share, and what each must agree with."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from modescope.models import decoder, embedding, lstm, mlp, pointwise, resnet, transformer
from tests.helpers.paths import ROOT

Build = Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]

TEXT = {"batch": 3, "seq": 8, "width": 16, "heads": 2, "depth": 2, "vocab": 40}

BUILDS: dict[str, tuple[Build, tuple[int, ...]]] = {
    "mlp": (lambda: mlp.build(batch=4, width=32, depth=3), (4, 32)),
    "transformer": (lambda: transformer.build(batch=2, seq=8, width=32, heads=4), (2, 8, 32)),
    "blocks": (
        lambda: transformer.build_blocks(batch=2, seq=8, width=32, heads=4, blocks=2),
        (2, 8, 32),
    ),
    "pointwise": (lambda: pointwise.build(batch=4, width=32, ops=10), (4, 32)),
    "decode": (lambda: decoder.decode(**TEXT), (3, 40)),
    "prefill": (lambda: decoder.prefill(**TEXT), (3, 8, 40)),
    "resnet": (lambda: resnet.build(batch=3, pixels=64, width=4, depth=1), (3, 1000)),
    "lstm": (lambda: lstm.build(batch=3, seq=5, width=8, depth=2), (3, 5, 8)),
    "embedding": (lambda: embedding.build(batch=3, tables=2, rows=9, width=4, hot=2), (3, 1)),
}
every_model = pytest.mark.parametrize("name", BUILDS)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def relative_rms(found: Tensor, reference: Tensor) -> float:
    wrong = found.double() - reference
    return (wrong.square().mean() / reference.square().mean()).sqrt().item()


TESTED_ELSEWHERE = {"fused": "test_fused.py", "libraries": "test_libraries.py"}
"""Modules of models with tests of their own."""

HELPERS = {"__init__", "cpp_library"}
"""Files of models/ that build no model."""


def test_each_model_has_an_option_and_is_tested() -> None:
    files = {path.stem: path for path in (ROOT / "conf/model").glob("*.yaml")}
    targets = {option: str(OmegaConf.load(path).model.target) for option, path in files.items()}
    ours = {
        option: target.removeprefix("modescope.models.").partition(":")[0].partition(".")[0]
        for option, target in targets.items()
        if target.startswith("modescope.models.")
    }
    for path in (ROOT / "models").glob("*.py"):
        assert path.stem in {*ours.values(), *HELPERS}, (
            f"models/{path.name} is the target of no option: add conf/model/{path.stem}.yaml"
        )
    for option, module in ours.items():
        assert option in BUILDS or module in TESTED_ELSEWHERE, (
            f"conf/model/{option}.yaml is not tested: add a line to BUILDS in "
            "tests/models/test_models.py, and its sizes to docs/running.md"
        )


@every_model
def test_a_seed_builds_a_model_in_fp32_and_its_inputs(name: str) -> None:
    build, shape = BUILDS[name]
    outputs = []
    for _ in range(2):
        torch.manual_seed(7)
        module, inputs = build()
        assert module.training
        assert {each.dtype for each in module.parameters()} == {torch.float32}
        outputs.append(module.eval()(*inputs))
    assert outputs[0].shape == shape
    assert torch.equal(*outputs)


@every_model
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_empty_batch_is_accepted(name: str, dtype: torch.dtype) -> None:
    build, shape = BUILDS[name]
    module, inputs = build()
    empty = [each[:0].to(dtype) if each.is_floating_point() else each[:0] for each in inputs]
    output = module.eval().to(dtype)(*empty)
    assert (output.shape, output.dtype) == ((0, *shape[1:]), dtype)


@pytest.mark.parametrize("name", [name for name in BUILDS if name != "decode"])
def test_every_parameter_gets_a_gradient(name: str) -> None:
    module, inputs = BUILDS[name][0]()
    module(*inputs).square().mean().backward()
    for each, parameter in module.named_parameters():
        assert parameter.grad is not None, each
        assert parameter.grad.count_nonzero() > 0, each


def test_transformer_agrees_with_causal_attention_written_out() -> None:
    module, (x,) = transformer.build(batch=1, seq=4, width=8, heads=2)
    assert isinstance(module, transformer.Block)
    query, key, value = module.query_key_value(x).split(8, dim=-1)
    heads = []
    for part in (slice(0, 4), slice(4, 8)):
        scores = query[..., part] @ key[..., part].mT / 4**0.5
        weights = scores.masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf).softmax(-1)
        heads.append(weights @ value[..., part])
    torch.testing.assert_close(module.attend(x), module.attention_out(torch.cat(heads, dim=-1)))


@pytest.mark.parametrize(
    ("build", "sizes"),
    [(transformer.build, {"seq": 4, "width": 30, "heads": 4}),
     (decoder.decode, {"seq": 4, "width": 12, "heads": 4, "depth": 1, "vocab": 8})],
)  # fmt: skip
def test_a_width_that_does_not_fit_is_refused(
    build: Callable[..., Any], sizes: dict[str, int]
) -> None:
    with pytest.raises(ValueError, match=rf"width={sizes['width']} .*heads=4"):
        build(batch=1, **sizes)


class DispatchedOps(TorchDispatchMode):
    """Names of the ops that reach the dispatcher, in order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("ops", [1, 3, 1000])
def test_pointwise_dispatches_exactly_its_ops(ops: int) -> None:
    module, (x,) = pointwise.build(batch=2, width=4, ops=ops)
    for grad in (torch.enable_grad, torch.inference_mode):
        with grad(), DispatchedOps() as dispatched:
            module(x)
        assert len(dispatched.names) == ops
        assert dispatched.names[:4] == ["mul", "sin", "mul", "add"][:ops]


@pytest.mark.parametrize("ops", [1, 4, 999])
def test_pointwise_outputs_depend_on_input_and_ops_and_errors_do_not_grow(ops: int) -> None:
    module, (x,) = pointwise.build(batch=64, width=64, ops=ops)
    assert isinstance(module, pointwise.Chain)
    reference = deepcopy(module).double()(x.double())
    assert relative_rms(module(torch.randn_like(x)), reference) > 1
    assert 1e-3 < relative_rms(deepcopy(module).bfloat16()(x.bfloat16()), reference) < 5e-3
    assert reference.abs().max() < (x * module.get_parameter("scale")).abs().max() + 0.75
    module.ops += 3
    assert relative_rms(module(x), reference) > 1e-2


# The decoder with its cache, and published architectures


def caches(module: nn.Module) -> dict[str, Tensor]:
    named = module.named_buffers()
    return {name: each.clone() for name, each in named if name.endswith((".keys", ".values"))}


@torch.no_grad()
def test_steps_after_a_prompt_agree_with_the_whole_text_at_once() -> None:
    whole, (tokens,) = decoder.prefill(**TEXT)
    prompt, _ = decoder.prefill(**TEXT)
    step, _ = decoder.decode(**TEXT)
    prompt.load_state_dict(whole.eval().state_dict())
    expected = whole(tokens)
    prompt.eval()(tokens[:, :5])
    step.eval().load_state_dict(prompt.state_dict())
    for place in range(5, 8):
        found = step(tokens, torch.full((3,), place))
        torch.testing.assert_close(found, expected[:, place], rtol=1e-5, atol=1e-5)
    for name, each in caches(whole).items():
        torch.testing.assert_close(step.get_buffer(name), each, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_step_writes_one_entry_of_each_sequence_and_repeats_bit_by_bit() -> None:
    module, (tokens, _) = decoder.decode(**TEXT)
    input_pos = torch.tensor([7, 0, 4])
    before = caches(module.eval())
    first = module(tokens, input_pos)
    after = caches(module)
    assert len(after) == 4
    for name, each in after.items():
        changed = (each != before[name]).any(-1).any(1)  # (batch, seq)
        assert changed.nonzero().tolist() == [[0, 7], [1, 0], [2, 4]]
    assert torch.equal(module(tokens, input_pos), first)
    assert all(torch.equal(each, after[name]) for name, each in caches(module).items())


def test_training_leaves_the_cache_alone_and_no_call_records_a_tape_in_it() -> None:
    module, (tokens,) = decoder.prefill(**TEXT)
    before = caches(module)
    module(tokens)
    assert all(torch.equal(each, before[name]) for name, each in caches(module).items())
    module.eval()(tokens)
    assert not any(torch.equal(each, before[name]) for name, each in caches(module).items())
    assert not any(buffer.requires_grad for buffer in module.buffers())


def test_the_residual_network_has_the_parameters_of_resnet_18() -> None:
    module, _ = resnet.build(batch=1, pixels=64, width=64, depth=2)
    assert sum(parameter.numel() for parameter in module.parameters()) == 11_689_512


@torch.no_grad()
def test_a_bag_is_the_sum_of_its_rows() -> None:
    module, (numbers, ids) = embedding.build(batch=2, tables=1, rows=9, width=4, hot=3)
    assert isinstance(module, embedding.Recommender)
    below = module.below(numbers)
    table = module.bags[0]
    assert isinstance(table, nn.EmbeddingBag)
    product = (below * table.weight[ids[:, 0]].sum(1)).sum(1, keepdim=True)
    torch.testing.assert_close(module(numbers, ids), module.above(torch.cat([below, product], 1)))
