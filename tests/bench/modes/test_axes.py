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
from modescope.bench.evidence import observing
from modescope.bench.model.building import build
from modescope.bench.model.subject import Built, Subject
from modescope.bench.modes import axes, modes
from modescope.bench.modes.axes import AXES, Axis
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.records.cases import Variant
from modescope.bench.records.columns.checks import Checks
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


def _height(module: torch.nn.Module, device_type: str) -> str:
    return str(getattr(module, "height", "plain"))


def _raise(subject: Subject, asked: Variant) -> Subject:
    height = axes.asked("height", asked)
    return subject.change(lambda module: setattr(module, "height", height))


VOLUME = Axis(
    read=lambda module, device_type: ENTERED[-1] if ENTERED else "quiet",
    values=("quiet", "loud"),
    enter=lambda asked, device: _loudly,
    context=lambda asked, device: "loudly()",
)
HEIGHT = Axis(
    read=_height,
    values=("plain", "tall"),
    prepare=_raise,
    code=lambda asked, device: ("model.height = 'tall'",),
)


@pytest.fixture(autouse=True)
def _two_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AXES, "volume", VOLUME)
    monkeypatch.setitem(AXES, "height", HEIGHT)


def of(**values: str) -> Variant:
    plain = variant()
    return replace(plain, mode=replace(plain.mode, axes=tuple(values.items())))


def built(asked: Variant) -> Built:
    subject = modes.prepare(build(model(tells), {}), asked, ONE_CALL)
    return modes.build(subject, asked, True, Cpu(), ONE_CALL)


def doubts(asked: Variant, made: Built) -> list[str]:
    return axes.doubts(asked, observing.observe(made, asked, Cpu()).axes)


@pytest.mark.parametrize("values", [{}, {"volume": "loud"}, {"height": "tall"}])
def test_what_is_asked_for_is_in_effect_in_each_call_and_left_behind(
    values: dict[str, str],
) -> None:
    asked = of(**values)
    made = built(asked)
    assert doubts(asked, made) == []
    seen = observing.observe(made, asked, Cpu())
    assert {n: seen.axes[n] for n in ("volume", "height")} == {
        "volume": "quiet", "height": "plain", **values
    }  # fmt: skip
    assert ENTERED == []
    assert json.loads(seen.add_to(Checks()).seen_axes or "{}") == values


def test_the_default_of_an_axis_prepares_nothing() -> None:
    assert not hasattr(built(of()).subject.module, "height")
    assert not hasattr(built(of(volume="loud")).subject.module, "height")


@pytest.mark.parametrize("name", ["volume", "height"])
def test_an_axis_that_is_dropped_on_the_floor_is_seen(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = of(volume="loud", height="tall")
    monkeypatch.setitem(AXES, name, replace(AXES[name], enter=None, prepare=None))
    wanted = {"volume": "quiet instead of loud", "height": "plain instead of tall"}
    assert doubts(asked, built(asked)) == [f"{name} was {wanted[name]}"]


def test_a_program_does_the_same() -> None:
    program = lines(of(volume="loud", height="tall")).splitlines()
    assert program.index("model.height = 'tall'") < program.index("with loudly():")
    assert not {"model.height = 'tall'", "with loudly():"} & {*lines(of()).splitlines()}


def test_a_program_names_an_axis_that_it_cannot_set_up() -> None:
    unknown, known = (lines(of(**{name: "tall"})) for name in ("depth", "height"))
    assert [("# set up depth: tall" in program) for program in (unknown, known)] == [True, False]


def test_its_values_are_those_of_a_setting() -> None:
    given: Any = axes.settings()
    assert given["volume"] == ("quiet", "loud")
    assert given["height"] == ("plain", "tall")
