"""The models of published kinds: what each must agree with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from modescope.models import decoder, embedding, resnet

pytestmark = pytest.mark.full

Built = tuple[nn.Module, tuple[Tensor, ...]]

BATCH, SEQ, VOCAB = 3, 8, 40


def decoding(build: Callable[..., Built]) -> Built:
    return build(batch=BATCH, seq=SEQ, width=16, heads=2, depth=2, vocab=VOCAB)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def caches(module: nn.Module) -> dict[str, Tensor]:
    named = module.named_buffers()
    return {name: each.clone() for name, each in named if name.endswith((".keys", ".values"))}


@torch.no_grad()
def test_steps_after_a_prompt_agree_with_the_whole_text_at_once() -> None:
    whole, (tokens,) = decoding(decoder.prefill)
    prompt, _ = decoding(decoder.prefill)
    step, _ = decoding(decoder.decode)
    prompt.load_state_dict(whole.eval().state_dict())
    expected = whole(tokens)
    prompt.eval()(tokens[:, :5])
    step.eval().load_state_dict(prompt.state_dict())
    for place in range(5, SEQ):
        found = step(tokens, torch.full((BATCH,), place))
        torch.testing.assert_close(found, expected[:, place], rtol=1e-5, atol=1e-5)
    for name, each in caches(whole).items():
        torch.testing.assert_close(step.get_buffer(name), each, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_step_writes_one_entry_of_each_sequence_and_repeats_bit_by_bit() -> None:
    module, (tokens, _) = decoding(decoder.decode)
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


@pytest.mark.parametrize(("entry", "counts"), [(2, True), (3, False), (4, False)])
@torch.no_grad()
def test_entries_before_the_position_count_and_no_others(entry: int, counts: bool) -> None:
    module, (tokens, _) = decoding(decoder.decode)
    input_pos = torch.full((BATCH,), 3)
    before = module.eval()(tokens, input_pos)
    for name in caches(module):
        module.get_buffer(name)[:, :, entry] += 1
    assert (not torch.equal(module(tokens, input_pos), before)) == counts


def test_training_leaves_the_cache_alone_and_no_call_records_a_tape_in_it() -> None:
    module, (tokens,) = decoding(decoder.prefill)
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
