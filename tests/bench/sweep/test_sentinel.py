"""The sentinel of a worker: plain eager of a sweep's first case, in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.records.cases import Training
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.errors import UsageError
from modescope.bench.records.scheduling import Scheduling
from modescope.bench.resolve import resolve
from modescope.bench.sweep import jobs, sentinel
from modescope.bench.sweep.process import isolation
from tests.helpers.commands import TINY, Ask
from tests.helpers.made_up_records import CPU, H100
from tests.helpers.stored_rows import rows_in
from tests.helpers.worlds import World

ON_N1 = Scheduling("n1", "slurm", "1234_5", 0, 12.5, "w3")


@pytest.mark.full
@pytest.mark.parametrize(
    ("arguments", "dtype"),
    [
        (["mode=compile", "dtype=bf16"], "bf16"),
        (["mode=reduce-overhead", "dtype=tf32", "device=cuda"], "tf32"),
        (["mode=amp", "dtype=fp16", "device=cuda"], "fp32"),  # whose weights are fp32
        (["mode=compile", "mode.dynamic=true", "baseline.mode=no_grad"], "fp32"),
        (["mode=eager", "budget=thorough", "budget.min_rounds=99", "replicates=3"], "fp32"),
        (["phase=train", "mode=compile", "train.activation_memory_budget=0.5"], "fp32"),
        (["phase=train", "mode=amp", "dtype=fp16", "train.scaler=true", "device=cuda"], "fp32"),
        (
            ["phase=train", "mode=cuda-graph", "train.capture=forward_backward", "device=cuda"],
            "fp32",
        ),
        (
            ["phase=train", "train.optimizer=adamw", "train.capturable=true", "device=cuda"],
            "fp32",
        ),
    ],
)
def test_the_sentinel_is_plain_eager_of_the_first_case(
    ask: Ask, arguments: list[str], dtype: str
) -> None:
    def describe(name: str) -> DeviceFacts:
        return H100 if name == "cuda" else CPU

    (first,) = ask(*arguments, "shape.batch=3", "+model.kwargs.bias=false")
    of_first, _ = resolve(first, describe)
    case, plan = resolve(sentinel.request_of(first), describe)
    assert (case.variant.mode.name, case.variant.dtype, case.baseline) == ("eager", dtype, None)
    assert (case.model, case.shape_json, case.device) == (
        of_first.model, of_first.shape_json, of_first.device,
    )  # fmt: skip
    assert (plan.budget.name, plan.profile, plan.memory) == ("quick", False, False)
    if isinstance(of_first.options, Training):
        assert case.options == replace(
            of_first.options, capture="step", capturable=None, activation_memory_budget=None,
            scaler=None,
        )  # fmt: skip
    (again,) = ask(*sentinel.request_of(first).overrides)
    assert resolve(again, describe)[0].case_id == case.case_id


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World()
    monkeypatch.setattr(isolation, "call", made.call)
    for remembered in (jobs.host, jobs._model_source):
        remembered.cache_clear()
    yield made
    for remembered in (jobs.host, jobs._model_source):
        remembered.cache_clear()


def test_its_row_names_the_node_and_is_no_result(ask: Ask, world: World, tmp_path: Path) -> None:
    first, *_ = ask(*TINY, "-m", "mode=compile,eager", f"results_dir={tmp_path}")
    attempt = sentinel.run(first, ON_N1, lambda phase: None)
    assert attempt is not None
    (path,) = tmp_path.rglob("*.parquet")
    assert path == tmp_path / "main" / "sentinels" / f"{attempt.run_id}.parquet"
    (row,) = rows_in(path)
    assert (row["node"], row["worker"], row["mode"], row["budget"]) == (
        "n1", "w3", "eager", "quick",
    )  # fmt: skip
    assert [case.variant.mode.name for case, _ in world.measured] == ["eager"]


def test_a_case_that_cannot_be_prepared_has_no_sentinel(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*requests: object) -> None:
        raise UsageError("threads=64: this process may use 2 cores")

    monkeypatch.setattr(jobs, "prepare", refuse)
    (first,) = ask(*TINY, "threads=64", f"results_dir={tmp_path}")
    assert sentinel.run(first, ON_N1, lambda phase: None) is None
    assert not list(tmp_path.rglob("*.parquet"))
