"""Models whose outputs jump under rounding, or only amplify it, or have no elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.helpers.published import Built

WIDTH, ROWS = 32, 2048


class Scores(nn.Module):
    """Two linear layers, and a function of what each makes of the input."""

    def __init__(self, function: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.box, self.score = nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 1)
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(self.box(x), self.score(x).squeeze(-1).sigmoid())


def _scores(function: Callable[[Tensor, Tensor], Any]) -> Built:
    return Scores(function), (torch.randn(ROWS, WIDTH),)


def boxes() -> Built:
    """Those whose score exceeds a threshold, and the scores."""
    return _scores(lambda box, score: (box[score > 0.5], score[score > 0.5]))


def many_boxes() -> Built:
    """So many that what rounding to the nearest moves in one direction exceeds all else."""
    module, _ = boxes()
    return module, (torch.randn(16 * ROWS, WIDTH),)


def boxes_beside_all() -> Built:
    return _scores(lambda box, score: (box[score > 0.5], box))


def mask() -> Built:
    return _scores(lambda box, score: score > 0.5)


def labels() -> Built:
    return _scores(lambda box, score: box.argmax(-1))


def best() -> Built:
    return _scores(lambda box, score: box[score.topk(ROWS // 2).indices])


def gated() -> Built:
    return _scores(lambda box, score: torch.where(score > 0.5, score, score * 0))


def nothing() -> Built:
    return _scores(lambda box, score: (box[score > 2], score[score > 2]))


def nothing_beside_all() -> Built:
    return _scores(lambda box, score: (box[score > 2], box))


def cancelling() -> Built:
    """Smooth: what is left of a sum is hardly larger than its rounding in bf16."""
    return _scores(lambda box, score: (box + 40) - 40)
