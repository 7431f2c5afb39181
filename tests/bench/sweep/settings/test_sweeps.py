"""The sweeps of an experiment: further ones beside the first, and what a command makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from modescope.bench.records.cases import Case
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep.settings import sweeps
from modescope.bench.sweep.settings.request_to_case import resolve
from modescope.bench.sweep.settings.sweeps import Values, narrowed
from tests.helpers.commands import Ask
from tests.helpers.made_up_records import CPU

BF16 = ["eager", "inference_mode", "compile"]
"""Modes of experiment=modes with weights in bf16."""

Cases = Callable[..., list[Case]]


@pytest.fixture
def cases(ask: Ask) -> Cases:
    """The cases of experiment=modes on one model, with further arguments."""

    def of(*arguments: str) -> list[Case]:
        requests = ask("-m", "experiment=modes", "model=pointwise", *arguments)
        return [resolve(request, lambda name: CPU)[0] for request in requests]

    return of


def weights_in_bf16(cases: list[Case]) -> list[str]:
    """The modes of these cases whose weights, not only operators, are in bf16."""
    chosen = (case.variant for case in cases if case.variant.dtype == "bf16")
    return [each.mode.name for each in chosen if not each.mode.autocast]


def test_modes_also_measures_weights_in_bf16_against_eager_in_fp32(cases: Cases) -> None:
    found = cases()
    assert weights_in_bf16(found) == BF16
    baselines = {(case.baseline.mode.name, case.baseline.dtype) for case in found if case.baseline}
    assert baselines == {("eager", "fp32")}
    assert len(found) == 11 + len(BF16)
    assert set(Counter(case.case_id for case in found).values()) == {1}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["mode=eager"], ["eager"]),
        (["mode=compile,amp,eager"], ["eager", "compile"]),
        (["mode=amp"], []),
        (["mode=choice(no_grad,inference_mode)"], ["inference_mode"]),
        (["dtype=fp32"], []),
        (["baseline.dtype=fp32"], []),
        (["shape.batch=1,8"], BF16 * 2),
        (["phase=train"], BF16),
    ],
)
def test_the_command_has_the_last_word(
    cases: Cases, arguments: list[str], expected: list[str]
) -> None:
    assert sorted(weights_in_bf16(cases(*arguments))) == sorted(expected)


def test_a_precision_of_the_command_is_compared_as_without_an_experiment(cases: Cases) -> None:
    found = cases("dtype=fp32,bf16", "mode=eager,compile")
    pairs = [(case.variant.dtype, case.baseline.dtype) for case in found if case.baseline]
    assert sorted(pairs) == [("bf16", "bf16")] * 2 + [("fp32", "fp32")] * 2


@pytest.mark.parametrize("baselines", ["none", "none,eager"])
def test_without_a_baseline_its_precision_is_left_out(cases: Cases, baselines: str) -> None:
    found = cases(f"baseline.mode={baselines}", "mode=eager")
    dtypes = [(case.variant.dtype, case.baseline and case.baseline.dtype) for case in found]
    compared = [("fp32", "fp32"), ("bf16", "fp32")] if "eager" in baselines else []
    assert Counter(dtypes) == Counter([("fp32", None), ("bf16", None), *compared])


@pytest.mark.parametrize(
    ("further", "typed", "expected"),
    [
        ({"dtype": ["bf16"], "mode": ["a", "b"]}, {}, [{"dtype": ["bf16"], "mode": ["a", "b"]}]),
        ({"mode": ["a", "b"]}, {"mode": ["b", "c"]}, [{"mode": ["b"]}]),
        ({"mode": ["a", "b"]}, {"mode": ["c"]}, []),
        ({"mode": ["a"]}, {"shape.batch": ["8"]}, [{"mode": ["a"]}]),
        ({"dtype": ["bf16"], "mode": ["a"]}, {"dtype": ["bf16"]}, []),
        (
            {"dtype": ["bf16"], "baseline.dtype": ["fp32"]},
            {"baseline.mode": ["none"]},
            [{"dtype": ["bf16"], "baseline.mode": ["none"]}],
        ),
        (
            {"dtype": ["bf16"], "baseline.dtype": ["fp32"]},
            {"baseline.mode": ["none", "a", "b"]},
            [
                {"dtype": ["bf16"], "baseline.dtype": ["fp32"], "baseline.mode": ["a", "b"]},
                {"dtype": ["bf16"], "baseline.mode": ["none"]},
            ],
        ),
        ({"baseline.dtype": ["fp32"]}, {"baseline.mode": ["none"]}, []),
        ({"baseline.mode": ["none"]}, {}, [{"baseline.mode": ["none"]}]),
    ],
)  # fmt: skip
def test_a_further_sweep_is_narrowed(
    further: Values, typed: Values, expected: list[Values]
) -> None:
    assert narrowed(further, typed, first={"mode": ["a", "b"]}) == expected


@pytest.fixture
def theirs(tmp_path: Path) -> Callable[[str], list[str]]:
    """Arguments for an experiment of the user's own with this content."""

    def arguments(content: str) -> list[str]:
        folder = tmp_path / "theirs" / "experiment"
        folder.mkdir(parents=True)
        first = "hydra: {sweeper: {params: {mode: 'eager,amp'}}}"
        (folder / "own.yaml").write_text(f"# @package _global_\n{first}\n{content}\n")
        return ["-m", f"--config-dir={tmp_path / 'theirs'}", "experiment=own"]

    return arguments


def test_an_experiment_of_the_users_own_has_further_sweeps(
    ask: Ask, theirs: Callable[[str], list[str]]
) -> None:
    further = "experiment: {further: [{threads: '1,2', mode: eager}, {seed: 3}]}"
    requests = ask(*theirs(further), "budget=smoke")
    named = [(each.config["mode"]["name"], each.config["threads"], each.config["seed"])
             for each in requests]  # fmt: skip
    assert named == [
        ("eager", 1, 0), ("amp", 1, 0), ("eager", 1, 0), ("eager", 2, 0), ("eager", 1, 3),
        ("amp", 1, 3),
    ]  # fmt: skip
    assert {each.budget.name for each in requests} == {"smoke"}


@pytest.mark.parametrize("written", ["'1,2'", "[1, 2]", "'${thread_counts:}'"])
def test_values_of_a_further_sweep_are_a_text_a_list_or_computed(
    ask: Ask, theirs: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setattr(sweeps, "usable_cores", lambda: 2)
    monkeypatch.setattr(sweeps, "quota_cores", lambda: None)
    requests = ask(*theirs(f"experiment: {{further: [{{threads: {written}, mode: eager}}]}}"))
    further = requests[2:]  # after eager and amp
    assert [each.config["threads"] for each in further] == [1, 2]


@pytest.mark.parametrize(
    "content",
    ["experiment: {further: 5}", "experiment: {further: [bf16]}", "experiment: {other: []}",
     "experiment: {further: [{dtpye: bf16}]}", "experiment: {further: [{dtype: 'bf'}]}"],
)  # fmt: skip
def test_a_mistake_in_a_further_sweep_is_refused(
    ask: Ask, theirs: Callable[[str], list[str]], content: str
) -> None:
    with pytest.raises(UsageError) as refused:
        ask(*theirs(content))
    assert len(str(refused.value).splitlines()) == 1


def test_an_unknown_name_in_a_further_sweep_is_refused(
    ask: Ask, theirs: Callable[[str], list[str]]
) -> None:
    with pytest.raises(UsageError, match="no_such"):
        ask(*theirs("experiment: {further: [{threads: '${no_such:}'}]}"))


@pytest.mark.parametrize(
    ("cores", "quota", "expected"),
    [
        (1, None, "1"),
        (2, None, "1,2"),
        (6, None, "1,2,4,6"),
        (8, None, "1,2,4,8"),
        (64, 2.5, "1,2"),
        (64, 0.5, "1"),
        (3, 8.0, "1,2,3"),
    ],
)
def test_thread_counts_are_powers_of_two_and_the_cores_of_this_machine(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, cores: int, quota: float | None, expected: str
) -> None:
    monkeypatch.setattr(sweeps, "usable_cores", lambda: cores)
    monkeypatch.setattr(sweeps, "quota_cores", lambda: quota)
    requests = ask("-m", "experiment=threads", "model=mlp", "mode=eager")
    assert ",".join(str(request.config["threads"]) for request in requests) == expected


def test_typed_threads_replace_those_of_the_experiment(ask: Ask) -> None:
    requests = ask("-m", "experiment=threads", "model=mlp", "mode=eager", "threads=3")
    assert [request.config["threads"] for request in requests] == [3]
