"""Faults and words of a watch's record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from modescope.analysis import watched
from modescope.bench.records.watched import (
    Arguments,
    Ask,
    Break,
    Compilation,
    Region,
    Wait,
    Watched,
    from_json,
)

QUIET = Watched(
    program="train.py", started_at="2026-11-29T20:00:00+00:00", python_version="3.11.7",
    wall_s=10.0, compiling_s=4.0, compiled_s=3.0, eager_s=2.0, eager_low_s=1.9, eager_high_s=2.1,
    samples=9, sampled_s=0.2, torch_version="2.13.0",
    compilations=(Compilation("Net.forward", "net.py:3", 1.0, 4.0, "MainThread"),),
    regions=(
        Region(
            "Net.forward", "net.py:3", 7, 3.0, (({"x": (2, 8)}, 7),),
            Arguments({"x": ("int64", 0, 9)}, {"scale": 1.0}, ("parts",)),
        ),
    ),
    asks=(Ask("Net", "train.py:9", "Net.forward net.py:3", 7, 7),),
)  # fmt: skip


def again(reason: str, seconds: float = 2.0) -> Compilation:
    return Compilation("Net.forward", "net.py:3", 5.0, seconds, "MainThread", reason=reason)


def codes(**changes: object) -> list[str]:
    return [fault.code for fault in watched.faults(replace(QUIET, **changes))]  # type: ignore[arg-type]


def asked(**changes: object) -> tuple[Ask, ...]:
    return (replace(QUIET.asks[0], **changes),)  # type: ignore[arg-type]


def test_functions_of_one_name_are_not_one() -> None:
    other = replace(QUIET.compilations[0], code=1)
    assert codes(compilations=(*QUIET.compilations, other)) == []
    assert codes(compilations=(*QUIET.compilations, other, other)) == ["compiled_anew"]


@pytest.mark.parametrize("ask", [{"is_part": True}, {"is_module": False}])
def test_what_has_no_calls_of_its_own_is_no_fault(ask: dict[str, object]) -> None:
    assert codes(asks=asked(calls=0, compiled_calls=0, **ask)) == []


def test_limit_of_one_function_hides_nothing_of_another() -> None:
    reason = "tensor 'x' size mismatch at index 0"
    last = replace(again(reason), failure=f"Unsupported: {watched.LIMIT}")
    other = replace(again("by == 1.0"), function="other", code=1)
    compilations = (*QUIET.compilations, *[again(reason)] * 6, last, *[other] * 3)
    asks = asked(first_eager_call=9, limit_hits=1)
    gave_up, recompiled = watched.faults(replace(QUIET, compilations=compilations, asks=asks))
    assert (gave_up.code, gave_up.texts["remedy"]) == ("gave_up", watched.FOR_SIZES)
    assert (recompiled.code, recompiled.texts["function"]) == ("recompiled", "other")


def test_record_survives_its_file() -> None:
    seen = replace(QUIET, breaks=(Break("net.py:4", "print"),), waits=(Wait("a", "b:1", "f", 1.5),))
    assert from_json(seen.to_json()) == seen


@pytest.mark.parametrize("text", ["{}", "[1]", "no json"])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_json(text)


def test_nothing_is_said_of_a_quiet_program() -> None:
    assert codes() == []


def test_second_compilation_for_all_sizes_is_no_fault() -> None:
    first, size = QUIET.compilations, again("tensor 'x' size mismatch at index 0")
    assert codes(compilations=(*first, size)) == []
    assert codes(compilations=(*first, size, size)) == ["recompiled"]


def test_another_kind_of_tensor_is_a_fault_at_once() -> None:
    other = again("tensor 'x' dispatch key set mismatch. expected a, actual b")
    assert codes(compilations=(*QUIET.compilations, other)) == ["recompiled"]


def test_threads_that_compile_at_once() -> None:
    race = again("Unexpected recompilation: runtime guards failed")
    (fault,) = watched.faults(replace(QUIET, compilations=(*QUIET.compilations, race, race)))
    assert fault.texts["remedy"] == watched.FOR_THREADS


def test_limit_hides_the_recompilations_before_it() -> None:
    size = again("tensor 'x' size mismatch at index 0")
    last = replace(size, failure=f"Unsupported: {watched.LIMIT}")
    (fault,) = watched.faults(
        replace(
            QUIET,
            compilations=(*QUIET.compilations, *[size] * 6, last),
            asks=asked(calls=12, compiled_calls=9, first_eager_call=9, limit_hits=1),
        )
    )
    assert fault.code == "gave_up"
    assert [fault.texts[name] for name in ("eager", "calls", "call")] == ["3", "12", "9"]
    assert fault.texts["remedy"] == watched.FOR_SIZES


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        ({"calls": 0, "compiled_calls": 0}, "never_called"),
        ({"calls": 0, "compiled_calls": 0, "is_method": True}, "passed_by"),
        (
            {"calls": 0, "compiled_calls": 0, "is_module": False, "ran_itself_at": "a:1"},
            "never_called",
        ),
        ({"compiled_calls": 0}, "never_compiled"),
        ({"limit_hits": 1}, "gave_up_partly"),
    ],
)
def test_what_was_asked(ask: dict[str, object], code: str) -> None:
    assert codes(asks=asked(**ask)) == [code]


def test_a_switch_explains_what_does_not_compile() -> None:
    off = ("TORCH_COMPILE_DISABLE=1 switches torch.compile off",)
    assert codes(asks=asked(compiled_calls=0), switches=off) == ["switched"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"breaks": (Break("net.py:4", "print"),)}, "graph_breaks"),
        ({"cache_bypasses": ("custom pass",)}, "not_cached"),
        ({"graph_skips": ("mutated inputs",)}, "graphs_skipped"),
        ({"graphs_recorded": 9, "graphs_recorded_again": 8}, "recorded_again"),
        ({"waits": (Wait("MainThread", "train.py:4", "Net.forward", 3.0),)}, "waited"),
        ({"compilations": QUIET.compilations * 2}, "compiled_anew"),
        (
            {"compilations": (replace(QUIET.compilations[0], failure="CppCompileError: no g++"),)},
            "failed",
        ),
    ],
)
def test_single_faults(changes: dict[str, object], code: str) -> None:
    assert codes(**changes) == [code]


def test_table_of_functions() -> None:
    backward = replace(QUIET.compilations[0], backward=True, seconds=1.0)
    seen = replace(QUIET, compilations=(*QUIET.compilations, again("x"), backward))
    (row,) = watched.frame(seen).to_dict("records")
    assert row == {
        "function": "Net.forward", "place": "net.py:3", "compilations": 2, "compile_s": 7.0,
        "reasons": ("x",), "calls": 7, "compiled_s": 3.0,
    }  # fmt: skip


def test_summary_adds_up_and_hides_a_wide_middle() -> None:
    assert "10.0 s = compiling 4.00 s + compiled code 3.00 s" in watched.summary(QUIET)
    wide = watched.summary(replace(QUIET, eager_low_s=1.0, eager_high_s=3.0))
    assert "eager operators 1.00 s to 3.00 s" in wide
    assert "eager operators at most 3.00 s" in watched.summary(
        replace(QUIET, eager_low_s=0.0, eager_high_s=3.0)
    )
    unknown = watched.summary(replace(QUIET, eager_s=None, eager_low_s=None, eager_high_s=None))
    assert "rest, eager operators too, 3.00 s" in unknown
