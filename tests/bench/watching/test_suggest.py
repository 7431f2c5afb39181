"""A case from the calls that a watch saw."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import modescope


class Embed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 4)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return torch.mul(self.table(ids), mask.unsqueeze(-1)).sum(1) * scale


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def calls(module: nn.Module, lengths: list[int], dynamic: bool | None = None) -> None:
    compiled = torch.compile(module, backend="eager", dynamic=dynamic)
    for length in lengths:
        ids = torch.arange(length).repeat(3, 1)
        compiled(ids, torch.ones(3, length), scale=0.5)


@pytest.mark.parametrize("dynamic", [True, False])
def test_sizes_by_frequency(dynamic: bool, tmp_path: Path) -> None:
    module = Embed()
    with modescope.watch(None, quiet=True) as result:
        calls(module, [4, 6, 4, 4], dynamic=dynamic)
    case = modescope.suggest(result, tmp_path)
    assert case.sizes == (({"ids_1": 4}, 3), ({"ids_1": 6}, 1))
    made, inputs = case.model(ids_1=6)
    assert made is module
    assert inputs["ids"].shape == inputs["mask"].shape == (3, 6)
    assert inputs["scale"] == 0.5
    assert inputs["ids"].dtype == torch.int64
    assert int(inputs["ids"].max()) < 6
    (file,) = tmp_path.iterdir()
    header, *lines = file.read_text().split()
    assert (header, sorted(lines)) == ("ids_1", ["4", "4", "4", "6"])
    assert case.overrides == ("calls=mix", f"calls.file={file}")


def test_one_size_needs_no_file(tmp_path: Path) -> None:
    module = Embed()
    with modescope.watch(None, quiet=True) as result:
        calls(module, [4, 4])
    case = modescope.suggest(result, tmp_path)
    assert (case.sizes, case.overrides, list(tmp_path.iterdir())) == ((({}, 2),), (), [])


def test_module_that_is_gone(tmp_path: Path) -> None:
    with modescope.watch(None, quiet=True) as result:
        calls(Embed(), [4])
    torch._dynamo.reset()
    with pytest.raises(modescope.UsageError, match="gone"):
        modescope.suggest(result, tmp_path)


def test_list_of_tensors_is_refused(tmp_path: Path) -> None:
    class Sum(nn.Module):
        def forward(self, parts: list[torch.Tensor]) -> torch.Tensor:
            return parts[0] + parts[1]

    module = Sum()
    compiled = torch.compile(module, backend="eager")
    with modescope.watch(None, quiet=True) as result:
        compiled([torch.ones(2), torch.ones(2)])
    with pytest.raises(modescope.UsageError, match="parts"):
        modescope.suggest(result, tmp_path)


def test_nothing_compiled(tmp_path: Path) -> None:
    with modescope.watch(None, quiet=True) as result:
        Embed()(torch.ones(1, 2, dtype=torch.int64), torch.ones(1, 2))
    with pytest.raises(modescope.UsageError, match="no module"):
        modescope.suggest(result, tmp_path)


def test_module_of_torch(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    compiled = torch.compile(module, backend="eager")
    with modescope.watch(None, quiet=True) as result:
        for rows in (2, 3, 3):
            compiled(torch.ones(rows, 4))
    case = modescope.suggest(result, tmp_path)
    assert sorted(count for _, count in case.sizes) == [1, 2]
    made, inputs = case.model()
    assert made(**inputs).shape == (3, 2)
