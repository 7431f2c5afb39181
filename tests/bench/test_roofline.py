"""FLOPs, bytes and floors worked out by hand; ceilings on a device that waits for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from bench import contention, modes
from bench.contention import Contention
from bench.devices import Cpu, Step
from bench.memory.allocators import CpuAllocator
from bench.roofline import ceilings, counting, remembered
from bench.roofline.floor import Ceilings, Floor, Work, floor
from bench.subject import Inputs, Subject
from bench.timers import Timing
from models import transformer
from tests.probes import Counts, variant

FLOAT = 4


def counted(module: nn.Module, *inputs: Tensor, **axes: Any) -> Work:
    subject = Subject(module, Inputs(inputs, {}))
    axes = {"grad": "enabled", **axes}
    asked = variant("bf16" if axes.get("autocast") else "fp32", **axes)
    return counting.count(modes.build(subject, asked, True, Cpu()))


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
    assert found.flops == products + attention
    assert found.least_bytes == (weights + 2 * tokens * width) * FLOAT
    assert found.note is None


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


@pytest.mark.parametrize("grad", GRAD)
@pytest.mark.parametrize(
    ("function", "floats"),
    [
        (lambda x: x + 1, 20 + 20),
        (lambda x: (x + 1) * x * 2, (20 + 20) + (20 + 20 + 20) + (20 + 20)),
        (lambda x: x * x, 20 + 20),  # one argument given twice is read once
        (lambda x: (x + 1).view(-1)[5:].reshape(3, 5), 20 + 20),  # views move nothing
        (lambda x: x[:2] + 1, 10 + 10),
        (lambda x: x[:1].expand(4, 5) + 1, 5 + 20),
        (lambda x: x.t().contiguous(), 20 + 20),
        (lambda x: x.clone().add_(1), (20 + 20) + (20 + 20)),
        (lambda x: torch._foreach_add_([x.clone()], 1), (20 + 20) + (20 + 20)),  # returns nothing
        (lambda x: torch.empty(4, 5).copy_(x), 20 + 20),  # what is overwritten is not read
        (lambda x: torch.add(x, 1, out=torch.empty(4, 5)), 20 + 20),
        (lambda x: torch.zeros_like(x), 20),
        (lambda x: x.sum(), 20 + 1),
        (lambda x: torch.matmul(x.view(2, 2, 5), torch.ones(5, 3)), 15 + (20 + 15 + 12)),
    ],
    ids=[
        *("once", "chain", "squared", "views", "half", "expanded", "transposed", "in place"),
        *("list", "copied", "out", "made", "sum", "product"),
    ],
)
def test_eager_bytes(function: Callable[[Tensor], Any], floats: int, grad: str) -> None:
    """Arguments and results of each operator, one after the other."""
    found = counted(Calls(function), torch.randn(4, 5), grad=grad)
    assert found.eager_bytes == floats * FLOAT


def test_a_lookup_reads_no_more_than_it_returns() -> None:
    found = counted(nn.Embedding(1000, 8), torch.tensor([1, 2, 3]))
    assert found.flops == 0
    assert found.least_bytes == found.eager_bytes == 3 * 8 + 2 * (3 * 8 * FLOAT)


def test_tied_weights_are_read_once_and_unused_ones_never() -> None:
    module = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    module[1].weight = module[0].weight
    module.register_parameter("unused", nn.Parameter(torch.zeros(1000)))
    found = counted(module, torch.randn(1, 8))
    assert found.flops == 2 * (2 * 8 * 8)
    assert found.least_bytes == (8 * 8 + 8 + 8) * FLOAT
    assert found.eager_bytes == 2 * (8 * 8 + 8 + 8) * FLOAT, "eager reads them twice"


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
    assert found.least_bytes == found.eager_bytes == 10 * FLOAT


def test_a_call_that_cannot_be_counted_says_why() -> None:
    found = counted(Calls(lambda x: x.to_sparse()), torch.eye(3))
    assert (found.flops, found.least_bytes, found.eager_bytes) == (None, None, None)
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
def test_bandwidth_is_that_of_the_next_smaller_transfer(
    moved_bytes: int, bytes_per_s: float
) -> None:
    assert Ceilings(None, KIB_MIB_GIB).bytes_per_s(moved_bytes) == bytes_per_s


def test_a_small_transfer_that_was_slow_sets_no_ceiling() -> None:
    """Launching it took longer than moving anything: what a larger one reached can be reached."""
    assert Ceilings(None, ((2**10, 1.0), (2**20, 40.0))).bytes_per_s(2**10) == 40.0


# Ceilings


class Scripted(Cpu):
    """A CPU whose every call takes as long as `call_s` says, by the number of calls so far."""

    def __init__(self, call_s: Callable[[], float]) -> None:
        self.now_s = 0.0
        self.call_s = call_s
        self.clock = lambda: self.now_s

    def step(self) -> None:
        self.spend(self.call_s())

    def spend(self, seconds: float) -> None:
        self.now_s += seconds


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
    found = ceilings.measure(Cpu(), "fp32", sides=(64, 128), transfer_bytes=(2**16, 2**20))
    assert 1e6 < found.flops_per_s < 1e14
    assert [size for size, _ in found.transfers] == [2**16, 2**20]
    assert all(1e6 < rate < 1e13 for _, rate in found.transfers)


def test_precision_is_set_for_tf32_and_put_back() -> None:
    before = torch.get_float32_matmul_precision()
    with ceilings._precision("tf32"):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("slow", ["_copy", "_read"])
def test_the_faster_of_copy_and_read_counts_at_each_size(
    slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One moves 1 MB/s, the other 2 MB/s up to 4 kB and takes a second for more."""
    device = Scripted(lambda: 0.0)

    def moving(bytes_per_s: float, up_to: int) -> Callable[[Cpu, int], Step]:
        def build(on: Cpu, moved_bytes: int) -> Step:
            seconds = moved_bytes / bytes_per_s if moved_bytes <= up_to else 1.0
            return lambda: device.spend(seconds)

        return build

    (fast,) = {"_copy", "_read"} - {slow}
    monkeypatch.setattr(ceilings, slow, moving(1e6, up_to=8_000))
    monkeypatch.setattr(ceilings, fast, moving(2e6, up_to=4_000))
    found = ceilings.measure(device, "fp32", sides=(), transfer_bytes=(1_000, 4_000, 8_000))
    assert found.flops_per_s is None
    assert dict(found.transfers) == pytest.approx({1_000: 2e6, 4_000: 2e6, 8_000: 1e6})


def test_a_read_gives_the_sum_of_all_it_reads() -> None:
    total: Any = ceilings._read(Cpu(), 4_000)()
    assert float(total) == 1_000


class Queued(Scripted):
    """A device that queues work; its blocks, in order, take what `blocks_s` says."""

    queues = True


@pytest.mark.parametrize("blocks_s", [(5.0, 4.0, 3.0, 2.0, 1.0), (1.0, 9.0, 9.0, 9.0, 9.0)])
def test_the_best_of_five_blocks_counts(
    blocks_s: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single block on a queue is a mean: an interrupted one would set a low ceiling."""
    waiting = iter(blocks_s)

    def device_time(step: Step, device: Cpu, calls: int) -> Timing:
        return Timing((next(waiting),))

    monkeypatch.setattr(ceilings, "device_time", device_time)
    device = Queued(lambda: 1e-3)
    assert ceilings._shortest_s(device, device.step) == 1.0
    assert list(waiting) == []


# What is remembered


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which dtypes were measured; the first has a ceiling of 1, the second of 2, ..."""
    made: list[str] = []

    def measure(device: Cpu, dtype: str) -> Ceilings:
        made.append(dtype)
        return Ceilings(float(len(made)), ((2**20, 3.0), (2**22, 1.0)))

    monkeypatch.setattr(remembered, "measure", measure)
    share_the_machine(False, monkeypatch)
    return made


def share_the_machine(felt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a core for others, or nothing at all, of ten seconds on two cores."""
    seen = Contention(10.0, 0.0, 0, 5.0 if felt else 0.0, 2, 0.0)
    monkeypatch.setattr(contention, "between", lambda before, after: seen)


def flops_per_s(file: Path, dtype: str = "fp32") -> float | None:
    return remembered.ceilings(Cpu(), dtype, file).ceilings.flops_per_s


def test_ceilings_are_measured_once_per_dtype_and_threads(
    measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "new" / "ceilings.json"
    first = remembered.ceilings(Cpu(), "fp32", file)
    assert remembered.ceilings(Cpu(), "fp32", file) == first
    assert flops_per_s(file, "bf16") == 2.0
    assert remembered.ceilings(Cpu(), "fp32", file) == first
    assert measurements == ["fp32", "bf16"]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 61)
    assert flops_per_s(file) == 3.0
    assert [path.name for path in file.parent.iterdir()] == ["ceilings.json"]


def test_what_is_remembered_says_when_and_beside_whom(
    measurements: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "ceilings.json"
    found = remembered.ceilings(Cpu(), "fp32", file)
    (entry,) = json.loads(file.read_text()).values()
    assert entry == json.loads(json.dumps(asdict(found.ceilings))) | {
        "measured_at": found.measured_at,
        "torch_version": torch.__version__,
        "contended": False,
        "seen": {**asdict(Contention(10.0, 0.0, 0, 0.0, 2, 0.0)), "gpu_processes": None},
    }
    age = datetime.now(UTC) - datetime.fromisoformat(found.measured_at)
    assert 0 <= age.total_seconds() < 600
    assert found.note is None


def test_what_was_measured_beside_others_is_used_once_and_not_remembered(
    measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ceilings.json"
    share_the_machine(True, monkeypatch)
    found = remembered.ceilings(Cpu(), "fp32", file)
    assert (found.ceilings.flops_per_s, found.note) == (1.0, remembered.CONTENDED)
    assert not file.exists()
    share_the_machine(False, monkeypatch)
    assert flops_per_s(file) == flops_per_s(file) == 2.0
    assert measurements == ["fp32", "fp32"]


def test_another_process_on_the_gpu_is_felt_too(
    measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes while measuring."""
    users = iter([0, 1])
    monkeypatch.setattr(Cpu, "other_processes", lambda self: next(users))
    assert remembered.ceilings(Cpu(), "fp32", tmp_path / "ceilings.json").contended


def test_what_the_allocator_keeps_is_out_of_the_way(
    measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large buffers find room, and leave it as they found it."""
    released: list[int] = []
    monkeypatch.setattr(
        CpuAllocator, "release_unused", lambda self: released.append(len(measurements))
    )
    for _ in range(2):  # the second time nothing is measured
        remembered.ceilings(Cpu(), "fp32", tmp_path / "ceilings.json")
    assert released == [0, 1]


OLD_ENTRY = '{"flops_per_s": 1, "copies": [[1048576, 2.0]]}'


@pytest.mark.parametrize(
    "content",
    [
        *("", "[1, 2]", "null", '{"a": {}}', '{"a": {"flops_per_s": 1, "transfers"'),
        *('{"a": 3}', f'{{"old": {OLD_ENTRY}}}'),
    ],
)
def test_a_file_that_makes_no_sense_is_measured_again(
    content: str, measurements: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "ceilings.json"
    file.write_text(content)
    assert flops_per_s(file) == flops_per_s(file) == 1.0
    assert measurements == ["fp32"]
    assert len(json.loads(file.read_text())) == 1


def test_of_several_entries_those_that_make_sense_stay(
    measurements: list[str], tmp_path: Path
) -> None:
    """One of an older version says neither when it was measured nor whether in peace."""
    file = tmp_path / "ceilings.json"
    flops_per_s(file, "fp32")
    entries = json.loads(file.read_text())
    (key,) = entries
    older = {key.replace("fp32", "bf16"): json.loads(OLD_ENTRY)}
    file.write_text(json.dumps(older | entries))
    assert [flops_per_s(file, dtype) for dtype in ("bf16", "fp32")] == [2.0, 1.0]
    assert measurements == ["fp32", "bf16"]
