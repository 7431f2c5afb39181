"""Lines of memory are evicted from this CPU's caches, and keep what they hold."""

from __future__ import annotations

import weakref
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch

from modescope.bench.devices import cache_lines, devices
from modescope.bench.devices.devices import Cpu, Evictor, evict_first, sweeper
from modescope.bench.timing import timers

MIB = 2**20


@pytest.fixture
def data() -> list[torch.Tensor]:
    return [torch.arange(MIB // 4, dtype=torch.float32) for _ in range(4)]


def times_s(evictor: Evictor) -> tuple[float, float]:
    """Medians of reading after an eviction, and again."""
    cold, warm = evict_first(evictor.read, evictor), evictor.read
    return (
        median(timers.latency(cold, Cpu(), 25).samples_s),
        median(timers.latency(warm, Cpu(), 25).samples_s),
    )


def test_evicted_data_are_read_from_memory(data: list[torch.Tensor]) -> None:
    if cache_lines.functions() is None:
        pytest.skip("no instruction or no compiler here")
    evictor = Cpu().evictor(data, [])
    assert evictor.means in ("clflushopt", "dc civac")
    cold_s, warm_s = times_s(evictor)
    assert cold_s > 1.1 * warm_s
    assert all(torch.equal(t, torch.arange(MIB // 4, dtype=torch.float32)) for t in data)


def test_moved_data_are_found_when_they_are_located(data: list[torch.Tensor]) -> None:
    seen: list[dict[int, int]] = []

    def note(begins: Any, sizes: Any, count: Any) -> None:
        assert count.value == len(begins)
        seen.append(dict(zip(begins, sizes, strict=True)))

    functions = cache_lines.Functions("made up", note, note)
    lines = cache_lines.Lines(functions, [*data, data[0][:8]])  # a view of the first
    lines.evict()
    held = data[1].data
    data[1].data = held.clone()
    lines.locate()
    lines.read()
    assert seen[0] == {t.data_ptr(): MIB for t in (data[0], held, data[2], data[3])}
    assert seen[1] == {t.data_ptr(): MIB for t in data}


def test_memory_that_a_call_gives_up_is_kept_until_data_are_located() -> None:
    weight = torch.ones(4)
    given_up = weakref.ref(weight.untyped_storage())
    functions = cache_lines.Functions("made up", lambda *ranges: None, lambda *ranges: None)
    lines = cache_lines.Lines(functions, [weight])
    weight.data = torch.ones(8)
    assert given_up() is not None
    lines.locate()
    assert given_up() is None


def test_without_an_instruction_other_data_take_the_place(
    data: list[torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_lines, "functions", lambda: None)
    monkeypatch.setattr(cache_lines, "sizes_bytes", lambda: (MIB, 8 * MIB))
    evictor = Cpu().evictor(data, [data[0]])
    assert evictor.means == f"a write of {16 * MIB} bytes"
    evictor.evict()
    evictor.read()


def test_what_stays_warm_is_read_after_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = torch.ones(4)
    read: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(devices, "_read", read.append)
        sweeper([torch.ones(8)], [kept], 64).evict()
    assert read == [[kept]]
    others = [torch.ones(8, dtype=torch.int64), torch.ones(8).to(torch.float8_e4m3fn)]
    evictor = sweeper([kept, *others], [kept], 64)
    evictor.evict()
    evictor.read()  # whole numbers and float8, too
    assert torch.equal(kept, torch.ones(4))


@pytest.mark.parametrize(
    "broken",
    ["CC", "machine"],
)
def test_no_compiler_or_another_processor(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "CC":
        monkeypatch.setattr("shutil.which", lambda name: None)
    else:
        monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert cache_lines.functions.__wrapped__() is None


def test_a_compiler_that_fails_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_lines, "SOURCE", "this is no C")
    assert cache_lines.functions.__wrapped__() is None


def test_sizes_are_those_of_the_second_and_of_the_last_level(tmp_path: Path) -> None:
    for index, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "64K"), ("2", "Unified", "2048K"),
         ("3", "Unified", "32768K")]
    ):  # fmt: skip
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    assert cache_lines.sizes_bytes(tmp_path) == (2 * MIB, 32 * MIB)
    assert cache_lines.sizes_bytes(tmp_path / "nothing") == (None, None)
