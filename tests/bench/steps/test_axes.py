"""A further axis of a mode is one entry: its setting, its context, its preparation, its proof."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from modescope.bench.devices.devices import Cpu
from modescope.bench.records.cases import Variant
from modescope.bench.steps import axes, modes
from modescope.bench.steps.axes import AXES, Axis
from modescope.bench.steps.building import build
from modescope.bench.steps.evidence import mode_effect
from modescope.bench.steps.phases import ONE_CALL
from modescope.bench.steps.subject import Built, Subject
from tests.helpers.probe_models import model, tells, variant
from tests.helpers.programs import lines

ENTERED: list[str] = []


@contextmanager
def _loudly() -> Iterator[None]:
    ENTERED.append("loud")
    try:
        yield
    finally:
        ENTERED.pop()


def _layout(module: torch.nn.Module, device_type: str) -> str:
    return str(getattr(module, "layout", "plain"))


def _lay_out(subject: Subject, asked: Variant) -> Subject:
    layout = axes.asked("layout", asked)
    return subject.change(lambda module: setattr(module, "layout", layout))


VOLUME = Axis(
    read=lambda module, device_type: ENTERED[-1] if ENTERED else "quiet",
    values=("quiet", "loud"),
    enter=lambda asked, device: _loudly if axes.asked("volume", asked) == "loud" else None,
    context=lambda asked, device: "loudly()" if axes.asked("volume", asked) == "loud" else "",
)
LAYOUT = Axis(
    read=_layout,
    values=("plain", "tall"),
    prepare=_lay_out,
    code=lambda asked, device: (
        ("model.layout = 'tall'",) if axes.asked("layout", asked) == "tall" else ()
    ),
)


@pytest.fixture(autouse=True)
def _two_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AXES, "volume", VOLUME)
    monkeypatch.setitem(AXES, "layout", LAYOUT)


def of(**values: str) -> Variant:
    plain = variant()
    return replace(plain, mode=replace(plain.mode, axes=tuple(values.items())))


def built(asked: Variant) -> Built:
    subject = modes.prepare(build(model(tells), {}), asked, ONE_CALL)
    return modes.build(subject, asked, True, Cpu(), ONE_CALL)


def doubts(asked: Variant, made: Built) -> list[str]:
    return axes.doubts(asked, mode_effect.observe(made, asked, Cpu()).axes)


@pytest.mark.parametrize("values", [{}, {"volume": "loud"}, {"layout": "tall"}])
def test_what_is_asked_for_is_in_effect_in_each_call_and_left_behind(
    values: dict[str, str],
) -> None:
    asked = of(**values)
    made = built(asked)
    assert doubts(asked, made) == []
    seen = mode_effect.observe(made, asked, Cpu())
    assert {n: seen.axes[n] for n in ("volume", "layout")} == {
        "volume": "quiet", "layout": "plain", **values
    }  # fmt: skip
    assert ENTERED == []
    told = json.loads(seen.columns["seen_axes"])
    assert told == {"volume": seen.axes["volume"], "layout": seen.axes["layout"]}


def test_the_default_of_an_axis_prepares_nothing() -> None:
    assert not hasattr(built(of()).subject.module, "layout")
    assert not hasattr(built(of(volume="loud")).subject.module, "layout")


@pytest.mark.parametrize("name", ["volume", "layout"])
def test_an_axis_that_is_dropped_on_the_floor_is_seen(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = of(volume="loud", layout="tall")
    monkeypatch.setitem(AXES, name, replace(AXES[name], enter=None, prepare=None))
    wanted = {"volume": "quiet instead of loud", "layout": "plain instead of tall"}
    assert doubts(asked, built(asked)) == [f"{name} was {wanted[name]}"]


def test_a_program_does_the_same() -> None:
    program = lines(of(volume="loud", layout="tall")).splitlines()
    assert program.index("model.layout = 'tall'") < program.index("with loudly():")
    assert not {"model.layout = 'tall'", "with loudly():"} & {*lines(of()).splitlines()}


def test_its_values_are_those_of_a_setting() -> None:
    given: Any = axes.settings()
    expected = {"volume": ("quiet", "loud"), "layout": ("plain", "tall")}
    assert {name: given[name] for name in expected} == expected
