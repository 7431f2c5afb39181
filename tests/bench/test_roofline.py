"""FLOPs, bytes and floors worked out by hand; ceilings on a device that waits for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from bench import modes
from bench.devices import Cpu, Step
from bench.roofline import ceilings, counting
from bench.roofline.floor import Ceilings, Floor, Work, floor
from bench.subject import Inputs, Subject
from models import transformer
from tests.probes import Counts, variant

FLOAT = 4


def counted(module: nn.Module, *inputs: Tensor, **axes: Any) -> Work:
    subject = Subject(module, Inputs(inputs, {}))
    axes = {"grad": "enabled", **axes}
    asked = variant("bf16" if axes.get("autocast") else "fp32", **axes)
    return counting.count(modes.build(subject, asked, True, Cpu()).live, subject)


class Calls(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function


# Counting

GRAD = ("enabled", "no_grad", "inference_mode")


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("grad", GRAD)
def test_linear_layer(grad: str, autocast: bool) -> None:
    batch, inner, outer = 8, 16, 32
    found = counted(
        nn.Linear(inner, outer), torch.randn(batch, inner), grad=grad, autocast=autocast
    )
    output_bytes = batch * outer * (2 if autocast else FLOAT)
    assert found.flops == 2 * batch * inner * outer
    assert found.least_bytes == (batch * inner + inner * outer + outer) * FLOAT + output_bytes
    assert found.note is None


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("grad", GRAD)
def test_attention(grad: str, is_causal: bool) -> None:
    """Queries times keys, and their weights times values: two products of 2 x S x S x D each."""
    batch, heads, seq, width = 2, 3, 16, 8
    parts = [torch.randn(batch, heads, seq, width) for _ in range(3)]
    attend = Calls(lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=is_causal))
    found = counted(attend, *parts, grad=grad)
    assert found.flops == batch * heads * 2 * (2 * seq * seq * width)
    assert found.least_bytes == 4 * batch * heads * seq * width * FLOAT


def test_transformer_block() -> None:
    batch, seq, width, heads = 2, 16, 64, 4
    module, inputs = transformer.build(batch, seq, width, heads)
    found = counted(module, *inputs)
    tokens = batch * seq
    products = 2 * tokens * width * (3 * width + width + 4 * width + 4 * width)
    attention = 4 * batch * seq * seq * width  # all heads together are as wide as the model
    weights = sum(weight.numel() for weight in module.parameters())
    assert found == Work(products + attention, (weights + 2 * tokens * width) * FLOAT)


@pytest.mark.parametrize(
    ("function", "shapes", "flops"),
    [
        (torch.mv, [(3, 5), (5,)], 2 * 3 * 5),
        (torch.addmv, [(3,), (3, 5), (5,)], 2 * 3 * 5),
        (torch.dot, [(5,), (5,)], 2 * 5),
        (torch.bmm, [(2, 3, 5), (2, 5, 7)], 2 * 2 * 3 * 5 * 7),
        (torch.add, [(3, 5), (3, 5)], 0),
    ],
    ids=["mv", "addmv", "dot", "bmm", "pointwise"],
)
def test_products(function: Callable[..., Tensor], shapes: list[tuple[int]], flops: int) -> None:
    assert counted(Calls(function), *map(torch.randn, shapes)).flops == flops


@pytest.mark.parametrize(
    ("function", "floats"),
    [
        (lambda x: x + 1, 20 + 20),
        (lambda x: (x + 1) * x * 2, 20 + 20),  # read once, and what is in between not at all
        (lambda x: x[:2] + 1, 10 + 10),  # half of it is never read
        (lambda x: x.t(), 0),  # a view moves nothing
        (lambda x: x[:1].expand(4, 5) + 1, 5 + 20),
        (lambda x: (y := x + 1, y.t(), y[0]), 20 + 20),  # outputs that share their storage
        (lambda x: x.sum(), 20 + 1),
        (lambda x: torch.ones(7), 7),
        (lambda x: {"a": x + 1, "b": [x.sum(), None]}, 20 + 20 + 1),
        (lambda x: (x + 1)[:1], 20 + 5),  # the rest of the storage is nobody's output
    ],
    ids=[
        *("once", "chain", "half", "view", "expanded", "shared", "sum", "made", "nested", "slice"),
    ],
)
def test_least_bytes(function: Callable[[Tensor], Any], floats: int) -> None:
    assert counted(Calls(function), torch.randn(4, 5)).least_bytes == floats * FLOAT


def test_a_lookup_reads_no_more_than_it_returns() -> None:
    found = counted(nn.Embedding(1000, 8), torch.tensor([1, 2, 3]))
    assert found == Work(flops=0, least_bytes=3 * 8 + 2 * (3 * 8 * FLOAT))


def test_tied_weights_are_read_once_and_unused_ones_never() -> None:
    module = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    module[1].weight = module[0].weight
    module.register_parameter("unused", nn.Parameter(torch.zeros(1000)))
    found = counted(module, torch.randn(1, 8))
    assert found == Work(flops=2 * (2 * 8 * 8), least_bytes=(8 * 8 + 8 + 8) * FLOAT)


def test_operators_without_a_formula_leave_flops_unknown() -> None:
    found = counted(nn.LSTM(4, 4), torch.randn(3, 1, 4))
    assert found.flops is None
    assert "how many FLOPs these operators take: aten." in found.note
    assert "rnn" in found.note


def test_somebody_elses_operators_leave_flops_unknown() -> None:
    @torch.library.custom_op("modescope_test::doubled", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        return x + x

    found = counted(Calls(doubled), torch.randn(5))
    assert found.flops is None
    assert found.note.endswith("take: modescope_test.doubled")
    assert found.least_bytes == 10 * FLOAT


def test_a_call_that_cannot_be_counted_says_why() -> None:
    found = counted(Calls(lambda x: x.to_sparse()), torch.eye(3))
    assert (found.flops, found.least_bytes) == (None, None)
    assert found.note.startswith("torch cannot count this call: NotImplementedError")


def test_counting_leaves_buffers_as_they_were() -> None:
    module = Counts(in_place=True)
    counted(module, torch.randn(2, 4))
    assert module.calls == 1


# Floors

KIB_MIB_GIB = ((2**10, 100.0), (2**20, 40.0), (2**30, 10.0))


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (Work(flops=3000, least_bytes=2**30), Floor(2**30 / 10.0, "memory")),
        (Work(flops=10**13, least_bytes=2**30), Floor(10**10, "compute")),
        (Work(flops=0, least_bytes=2**20), Floor(2**20 / 40.0, "memory")),
        (Work(flops=None, least_bytes=2**20), None),
        (Work(flops=3000, least_bytes=None), None),
    ],
)
def test_floor(work: Work, expected: Floor | None) -> None:
    assert floor(work, Ceilings(1000.0, KIB_MIB_GIB)) == expected


@pytest.mark.parametrize("known", [Ceilings(None, KIB_MIB_GIB), Ceilings(1000.0, ())])
def test_no_floor_without_ceilings(known: Ceilings) -> None:
    assert floor(Work(3000, 2**20), known) is None


@pytest.mark.parametrize(
    ("moved_bytes", "bytes_per_s"),
    [(1, 100.0), (2**10, 100.0), (2**20 - 1, 100.0), (2**20, 40.0), (2**31, 10.0)],
)
def test_bandwidth_is_that_of_the_next_smaller_copy(moved_bytes: int, bytes_per_s: float) -> None:
    assert Ceilings(None, KIB_MIB_GIB).bytes_per_s(moved_bytes) == bytes_per_s


def test_a_small_copy_that_was_slow_sets_no_ceiling() -> None:
    """Launching it took longer than copying: what a larger one reached can be reached."""
    assert Ceilings(None, ((2**10, 1.0), (2**20, 40.0))).bytes_per_s(2**10) == 40.0


# Ceilings


class Scripted(Cpu):
    """A CPU whose every call takes as long as `call_s` says, by the number of calls so far."""

    def __init__(self, call_s: Callable[[], float]) -> None:
        self.now_s = 0.0
        self.call_s = call_s
        self.clock = lambda: self.now_s

    def step(self) -> None:
        self.now_s += self.call_s()


def rates(call_s_per_work: float, sizes: tuple[int, ...]) -> list[tuple[int, float]]:
    built: list[int] = []
    device = Scripted(lambda: call_s_per_work * built[-1])

    def building(size: int) -> Callable[[], Step]:
        def build() -> Step:
            built.append(size)
            return device.step

        return build

    found = list(ceilings._rates(device, [(size, building(size)) for size in sizes]))
    assert built == [size for size, _ in found], "a size was set up only to be left out"
    return found


def test_rate_is_work_per_time() -> None:
    assert [rate for _, rate in rates(0.25e-3, (8, 16))] == pytest.approx([4000.0, 4000.0])


def test_sizes_that_would_take_too_long_are_left_out() -> None:
    assert [size for size, _ in rates(1e-3, (8, 16, 50, 51, 64))] == [8, 16, 50]
    assert [size for size, _ in rates(1.0, (8, 16))] == [8], "the first is tried whatever it takes"


def test_measured_ceilings_of_this_cpu_are_plausible() -> None:
    found = ceilings.measure(Cpu(), "fp32", sides=(64, 128), copy_bytes=(2**16, 2**20))
    assert 1e6 < found.flops_per_s < 1e14
    assert found.copies[0][0] == 2**16
    assert all(1e6 < rate < 1e13 for _, rate in found.copies)


def test_precision_is_set_for_tf32_and_put_back() -> None:
    before = torch.get_float32_matmul_precision()
    with ceilings._precision("tf32"):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which dtypes were measured; the first has a ceiling of 1, the second of 2, ..."""
    made: list[str] = []

    def measure(device: Cpu, dtype: str) -> Ceilings:
        made.append(dtype)
        return Ceilings(float(len(made)), ((2**20, 3.0), (2**22, 1.0)))

    monkeypatch.setattr(ceilings, "measure", measure)
    return made


def test_ceilings_are_measured_once_per_dtype_and_threads(
    measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "new" / "ceilings.json"
    first = ceilings.remembered(Cpu(), "fp32", file)
    assert ceilings.remembered(Cpu(), "fp32", file) == first
    assert ceilings.remembered(Cpu(), "bf16", file).flops_per_s == 2.0
    assert ceilings.remembered(Cpu(), "fp32", file) == first
    assert measurements == ["fp32", "bf16"]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 61)
    assert ceilings.remembered(Cpu(), "fp32", file).flops_per_s == 3.0
    assert [path.name for path in file.parent.iterdir()] == ["ceilings.json"]


@pytest.mark.parametrize(
    "content", ["", "[1, 2]", '{"a": {}}', '{"a": {"flops_per_s": 1, "copies"']
)
def test_a_file_that_makes_no_sense_is_measured_again(
    content: str, measurements: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "ceilings.json"
    file.write_text(content)
    ceilings.remembered(Cpu(), "fp32", file)
    assert measurements == ["fp32"]
    assert len(json.loads(file.read_text())) == 1
