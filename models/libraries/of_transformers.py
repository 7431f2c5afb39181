"""Language models of transformers. A new one is a line of `ARCHITECTURES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from modescope.models.libraries import check_heads, check_name, library, refusals

FEED_FORWARD = 4  # hidden width of the MLP over model width, as in GPT-2, BERT and T5


@dataclass(frozen=True)
class Sizes:
    """The sizes of conf/model/transformers.yaml."""

    batch: int
    seq: int
    depth: int
    width: int
    heads: int
    vocab: int


@dataclass(frozen=True)
class Architecture:
    """How an architecture is built.

    Its configuration gets the arguments of `_common`, which have the same names in every
    configuration of transformers, and those that `numbers` returns.
    """

    model: str  # name of the model's class
    config: str  # name of its configuration's class
    numbers: Callable[[Sizes], dict[str, Any]]  # further arguments of the configuration
    inputs: tuple[str, ...] = ("input_ids",)


def _common(sizes: Sizes) -> dict[str, Any]:
    return {
        "vocab_size": sizes.vocab,
        "hidden_size": sizes.width,
        "num_hidden_layers": sizes.depth,
        "num_attention_heads": sizes.heads,
        "use_cache": False,
        "attn_implementation": "sdpa",
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id")),  # no id is special
    }


def _gpt2(sizes: Sizes) -> dict[str, Any]:
    return {"n_positions": sizes.seq, "n_inner": FEED_FORWARD * sizes.width}


def _bert(sizes: Sizes) -> dict[str, Any]:
    return {
        "max_position_embeddings": sizes.seq,
        "intermediate_size": FEED_FORWARD * sizes.width,
    }


def _gated(sizes: Sizes) -> dict[str, Any]:
    """Returns the configuration's sizes for an architecture with a gated MLP.

    The MLP's hidden width is two thirds of the usual one, because a gated MLP has three matrices
    and others have two.
    """
    return {
        "max_position_embeddings": sizes.seq,
        "intermediate_size": 2 * FEED_FORWARD * sizes.width // 3,
        "num_key_value_heads": sizes.heads,
        "head_dim": sizes.width // sizes.heads,
    }


def _t5(sizes: Sizes) -> dict[str, Any]:
    return {
        "num_decoder_layers": sizes.depth,
        "d_kv": sizes.width // sizes.heads,
        "d_ff": FEED_FORWARD * sizes.width,
    }


ARCHITECTURES = {
    "bert": Architecture("BertForMaskedLM", "BertConfig", _bert),
    "gpt2": Architecture("GPT2LMHeadModel", "GPT2Config", _gpt2),
    "llama": Architecture("LlamaForCausalLM", "LlamaConfig", _gated),
    "qwen3": Architecture("Qwen3ForCausalLM", "Qwen3Config", _gated),
    "t5": Architecture(
        "T5ForConditionalGeneration", "T5Config", _t5, ("input_ids", "decoder_input_ids")
    ),
}


def build(
    name: str, batch: int, seq: int, depth: int, width: int, heads: int, vocab: int
) -> tuple[nn.Module, dict[str, Tensor]]:
    """Builds a language model with its default dropouts, and random token ids, (batch, seq) each.

    An encoder-decoder has `depth` layers, and ids of this shape, for each of its halves.

    Raises:
        ValueError: no such architecture, transformers is missing, or sizes do not fit.
    """
    check_name("transformers", name, ARCHITECTURES)
    architecture = ARCHITECTURES[name]
    check_heads(width, heads)
    sizes = Sizes(batch, seq, depth, width, heads, vocab)
    transformers = library("transformers", extra="hf")
    with refusals("transformers", name, asdict(sizes)):
        numbers = {**_common(sizes), **architecture.numbers(sizes)}
        config = getattr(transformers, architecture.config)(**numbers)
        module: nn.Module = getattr(transformers, architecture.model)(config)
    ids = {key: torch.randint(0, vocab, (batch, seq)) for key in architecture.inputs}
    return module.train(), ids
