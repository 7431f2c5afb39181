"""The sizes of calls that vary, from settings to the options of a case."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.records.cases import Case, Inference
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import resolve
from tests.helpers.commands import Ask
from tests.helpers.made_up_records import CPU


@pytest.fixture
def case(ask_quickly: Ask) -> Callable[..., Case]:
    def resolved(*settings: str) -> Case:
        asked = ask_quickly("model=transformer", "mode=eager", *settings)
        return resolve(asked[0], lambda name: CPU)[0]

    return resolved


def seqs(options: Any, padded: bool = False) -> list[int]:
    return [each["seq"] for each in options.calls(padded)]


def test_sizes_are_drawn_by_the_seed_and_the_nth_a_nth_as_often_by_zipf(
    case: Callable[..., Case],
) -> None:
    def drawn(*settings: str) -> list[int]:
        return seqs(case("calls=mix", "calls.sizes={seq: [3, 5]}", *settings).options)

    assert (len(drawn()), {*drawn()}) == (200, {3, 4, 5})
    assert drawn() == drawn() != drawn("seed=1")
    counts = Counter(drawn("calls.draw=zipf", "calls.count=10000"))
    shares = [counts[size] / 10_000 for size in (3, 4, 5)]
    assert shares == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.02)


def test_two_sizes_change_together_as_in_a_file(case: Callable[..., Case], tmp_path: Path) -> None:
    file = tmp_path / "calls.csv"
    file.write_text("batch,seq\n1,20\n3,7\n2,9\n")
    asked = case("calls=mix", f"calls.file={file}", "calls.count=2")
    assert isinstance(asked.options, Inference)
    assert asked.options.calls() == [{"batch": 1, "seq": 20}, {"batch": 3, "seq": 7}]
    assert (asked.shape["batch"], asked.shape["seq"]) == (3, 20)


def test_padding_is_of_the_case_alone_and_enlarges_what_the_model_is_built_with(
    case: Callable[..., Case],
) -> None:
    sizes = "calls.draw=list", "calls.count=4", "calls.sizes={seq: [3, 8, 9, 16]}"
    asked = case("calls=mix", *sizes, "calls.pad=[20, 8]")
    assert seqs(asked.options, padded=True) == [8, 8, 20, 20]
    assert seqs(asked.options) == [3, 8, 9, 16]
    assert (asked.shape["seq"], asked.largest_shape["seq"]) == (16, 20)
    plain = case("calls=mix", *sizes)
    assert plain.shape == asked.shape  # so that both are compared
    assert plain.case_id != asked.case_id
    quantiles = case("calls=mix", *sizes[:1], "calls.count=5", sizes[2], "calls.pad=2")
    assert seqs(quantiles.options, padded=True) == [8, 8, 16, 16, 8]  # a list is repeated


def test_cold_data_are_another_case_and_warm_ones_change_no_id(case: Callable[..., Case]) -> None:
    cold = case("data=cold_weights")
    assert cold.options.columns()["data"] == "cold_weights"
    assert case("data=warm").case_id == case().case_id
    assert len({case().case_id, cold.case_id, case("data=cold").case_id}) == 3


@pytest.mark.parametrize("settings", [("phase=train",), ("calls=mix", "calls.sizes={seq: [3, 5]}")])
def test_cold_data_are_of_single_calls_of_inference(
    case: Callable[..., Case], settings: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError, match=rf"data=cold: .*{settings[0]}.*allowed: warm"):
        case("data=cold", *settings)
    with pytest.raises(UsageError, match=r"data=hot.*allowed: warm, cold, cold_weights$"):
        case("data=hot")


def test_calls_that_repeat_change_no_id(case: Callable[..., Case]) -> None:
    assert case().options == Inference()
    assert case().options.columns() == {"calls": None, "calls_pad": None, "data": None}
    assert json.loads(case("calls=mix", "calls.sizes={seq: [1, 2]}").options.columns()["calls"])


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        (["calls.count=7"], "calls.count=7"),
        (["calls=mix"], "calls.sizes"),
        (["calls=mix", "calls.sizes={length: [1, 2]}"], "batch, seq"),
        (["calls=mix", "calls.sizes={seq: [1, 2, 3]}"], "uniform"),
        (["calls=mix", "calls.sizes={seq: [0, 2]}"], "from 1"),
        (["calls=mix", "calls.sizes={seq: many}"], "whole numbers"),
        (["calls=mix", "calls.sizes={seq: [1, 9]}", "calls.pad=[4]"], "calls.pad"),
        (["calls=mix", "calls.sizes={seq: [1, 9]}", "calls.file=x.csv"], "calls.sizes"),
        (["calls=mix", "calls.sizes={seq: [1, 9]}", "phase=train"], "phase=train"),
        *((["calls=mix", f"calls.file={name}.csv"], rf"{name}\.csv")
          for name in ("none", "text", "short")),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_are_refused(
    case: Callable[..., Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    settings: list[str], part: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("none.csv").write_text("seq\n")
    Path("text.csv").write_text("seq\n1\nmany\n")
    Path("short.csv").write_text("a,b\n1\n")
    with pytest.raises(UsageError, match=part):
        case(*settings)


def test_a_model_of_the_users_takes_any_size(ask_quickly: Ask) -> None:
    own = "model=custom", "model.target=net:build", "mode=eager"
    (asked,) = ask_quickly(*own, "calls=mix", "calls.sizes={length: [3, 3]}")
    assert resolve(asked, lambda name: CPU)[0].shape == {"length": 3}
