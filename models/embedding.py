"""Embedding bags and MLPs, as recommender systems have: a small DLRM (Naumov et al., 2019)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

FEATURES = 13  # numbers that describe a sample, as in the Criteo data set


class Recommender(nn.Module):
    """Embedding bags for categories, an MLP for numbers, and an MLP for the pairs' dot products."""

    first: Tensor
    second: Tensor

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.below = nn.Sequential(
            nn.Linear(FEATURES, 4 * width), nn.ReLU(), nn.Linear(4 * width, width), nn.ReLU()
        )
        first, second = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("first", first)
        self.register_buffer("second", second)
        self.above = nn.Sequential(
            nn.Linear(width + len(first), 4 * width), nn.ReLU(), nn.Linear(4 * width, 1)
        )

    def forward(self, numbers: Tensor, ids: Tensor) -> Tensor:
        """Returns a score, (batch, 1); `numbers` is (batch, 13), `ids` is (batch, tables, hot).

        An id is a row of its table; the `hot` rows of a bag are added.
        """
        below = self.below(numbers)
        looked_up = [bag(rows) for bag, rows in zip(self.bags, ids.unbind(1), strict=True)]
        vectors = torch.stack([below, *looked_up], 1)
        products = torch.bmm(vectors, vectors.mT)[:, self.first, self.second]
        score: Tensor = self.above(torch.cat([below, products], 1))
        return score


def build(
    batch: int, tables: int, rows: int, width: int, hot: int
) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """Builds a recommender with `tables` embedding tables of `rows` x `width`.

    A sample reads `hot` rows of each table.

    Returns:
        The module and its inputs: numbers, (batch, 13), and ids, (batch, tables, hot).
    """
    inputs = torch.randn(batch, FEATURES), torch.randint(rows, (batch, tables, hot))
    return Recommender(tables, rows, width), inputs
