"""A decoder in the style of Llama: it reads a whole prompt (`prefill`) or one token (`decode`).

Both keep keys and values of earlier tokens in buffers, the KV cache, as gpt-fast does. The cache
starts with random numbers, as if earlier tokens had written it. So a step that reads or writes a
wrong entry of the cache gives a different result.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

MLP_EXPANSION = 4  # hidden width over model width, as in Llama 3.2 1B
ROTARY_BASE = 10_000.0  # of the wavelengths (Su et al., 2021)
EPS = 1e-5  # of the norms, as in Llama


class Attention(nn.Module):
    """Causal multi-head attention with rotary positions and a cache of keys and values."""

    keys: Tensor
    values: Tensor

    def __init__(self, batch: int, seq: int, width: int, heads: int) -> None:
        super().__init__()
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.heads = heads
        cache = (batch, heads, seq, width // heads)
        self.register_buffer("keys", torch.randn(cache))
        self.register_buffer("values", torch.randn(cache))

    def prompt(self, x: Tensor, rotation: Tensor) -> Tensor:
        """Applies attention to a prompt `x`, (batch, n, width); the result has the same shape.

        After `eval()`, keys and values are written to the first n entries of the cache. `rotation`
        is (n, head width).
        """
        query, key, value = self._project(x, rotation)
        if not self.training:
            batch, _, tokens, _ = key.shape
            self.keys[:batch, :, :tokens] = key.detach()
            self.values[:batch, :, :tokens] = value.detach()
        return self._mix(scaled_dot_product_attention(query, key, value, is_causal=True))

    def step(self, x: Tensor, rotation: Tensor, input_pos: Tensor, known: Tensor) -> Tensor:
        """Applies attention to one token per sequence, `x`, (batch, 1, width); keeps the shape.

        The token's key and value are written to the cache at `input_pos`, (batch,). The token
        attends to the entries of the cache where the mask `known`, (batch, 1, 1, seq), is true.
        """
        query, key, value = self._project(x, rotation)
        place = input_pos[:, None, None, None].expand_as(key)
        keys, values = self.keys[: len(x)], self.values[: len(x)]
        keys.scatter_(2, place, key.detach().to(keys.dtype))  # detached: no tape across calls
        values.scatter_(2, place, value.detach().to(values.dtype))
        keys, values = keys.to(query.dtype), values.to(query.dtype)
        return self._mix(scaled_dot_product_attention(query, keys, values, attn_mask=known))

    def _project(self, x: Tensor, rotation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns query and key, rotated, and value: each is (batch, heads, n, head width)."""
        parts = self.query_key_value(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        return rotate(query, rotation), rotate(key, rotation), value

    def _mix(self, heads: Tensor) -> Tensor:
        mixed: Tensor = self.out(heads.transpose(1, 2).flatten(2))
        return mixed


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Applies rotary position embeddings to `x`, (..., n, head width).

    `rotation`, (..., n, head width), has cosines in the first half of its last dimension and sines
    in the second. Element i of `x` and element i + head width / 2 are rotated as a pair.
    """
    (left, right), (cos, sin) = x.chunk(2, -1), rotation.to(x.dtype).chunk(2, -1)
    return torch.cat([left * cos - right * sin, left * sin + right * cos], -1)


class Mlp(nn.Module):
    """The gated MLP of Llama (SwiGLU)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(width, 2 * MLP_EXPANSION * width, bias=False)
        self.down = nn.Linear(MLP_EXPANSION * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the MLP's output for `x`, (..., width), in the same shape."""
        gate, up = self.gate_up(x).chunk(2, -1)
        y: Tensor = self.down(silu(gate) * up)
        return y


class Block(nn.Module):
    """The layers of a pre-norm block; `Prefill` and `Decode` call them in different ways."""

    def __init__(self, batch: int, seq: int, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(width, eps=EPS)
        self.attention = Attention(batch, seq, width, heads)
        self.mlp_norm = nn.RMSNorm(width, eps=EPS)
        self.mlp = Mlp(width)


class Decoder(nn.Module):
    """What `Prefill` and `Decode` have in common: the weights, the cache and its size.

    Raises:
        ValueError: `width` cannot be split into heads of even width.
    """

    rotations: Tensor
    places: Tensor

    def __init__(
        self, batch: int, seq: int, width: int, heads: int, depth: int, vocab: int
    ) -> None:
        super().__init__()
        if width % (2 * heads):
            raise ValueError(
                f"width={width} cannot be split into heads={heads} of an even width: choose a "
                f"width that is a multiple of {2 * heads}, or another number of heads"
            )
        self.words = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(batch, seq, width, heads) for _ in range(depth))
        self.norm = nn.RMSNorm(width, eps=EPS)
        self.head = nn.Linear(width, vocab, bias=False)
        self.register_buffer("rotations", rotations(seq, width // heads))
        self.register_buffer("places", torch.arange(seq))

    def logits(self, x: Tensor) -> Tensor:
        """Returns logits, (..., vocab), for the last block's output `x`, (..., width)."""
        y: Tensor = self.head(self.norm(x))
        return y


def rotations(seq: int, head_width: int) -> Tensor:
    """Returns cosines and sines of the rotary angles at each position, (seq, head width)."""
    wavelengths = ROTARY_BASE ** (torch.arange(0, head_width, 2) / head_width)
    angles = torch.arange(seq)[:, None] / wavelengths
    return torch.cat([angles.cos(), angles.sin()], -1)


class Prefill(Decoder):
    """Reads a whole prompt at once. It fills the cache only after `eval()`, not in training."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns the next token's logits, (batch, n, vocab), at each of `tokens`, (batch, n)."""
        x, rotation = self.words(tokens), self.rotations[: tokens.shape[1]]
        for block in self.blocks:
            assert isinstance(block, Block)
            x = x + block.attention.prompt(block.attention_norm(x), rotation)
            x = x + block.mlp(block.mlp_norm(x))
        return self.logits(x)


class Decode(Decoder):
    """One step of generation: reads one token, writes it to the cache, and attends to the cache."""

    cannot_train = (
        "model=decode only generates, because its cache is written without gradients; train "
        "model=prefill, which has the same layers"
    )

    def forward(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        """Returns logits, (batch, vocab), of the token after the one at `input_pos`, (batch,).

        Only the token at `input_pos` is read from `tokens`, (batch, seq). The cache's entries
        before that position come from earlier calls; those after it are masked out.
        """
        x = self.words(tokens.gather(1, input_pos[:, None]))
        rotation = self.rotations[input_pos][:, None, None]
        known = (self.places <= input_pos[:, None])[:, None, None]
        for block in self.blocks:
            assert isinstance(block, Block)
            normed = block.attention_norm(x)
            x = x + block.attention.step(normed, rotation, input_pos, known)
            x = x + block.mlp(block.mlp_norm(x))
        return self.logits(x[:, 0])


def prefill(
    batch: int, seq: int, width: int, heads: int, depth: int, vocab: int
) -> tuple[nn.Module, tuple[Tensor]]:
    """Builds a decoder that reads a prompt of `seq` tokens.

    Returns:
        The module and its input: token ids, (batch, seq).
    """
    module = Prefill(batch, seq, width, heads, depth, vocab)
    return module, (torch.randint(vocab, (batch, seq)),)


def decode(
    batch: int, seq: int, width: int, heads: int, depth: int, vocab: int
) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """Builds a decoder for one token; its cache has `seq` entries for each of `batch` sequences.

    Returns:
        The module and its inputs: token ids, (batch, seq), and the position of each sequence,
        (batch,), in the second half of the cache.
    """
    module = Decode(batch, seq, width, heads, depth, vocab)
    return module, (torch.randint(vocab, (batch, seq)), torch.randint(seq // 2, seq, (batch,)))
