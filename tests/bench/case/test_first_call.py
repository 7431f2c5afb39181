"""Warnings of torch are collected and still shown; those of others are only shown."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from modescope.bench.case import first_call

PLACE = str(Path(torch.__file__).parent / "nn" / "made_up.py")
FROM_CPP = "slow (Triggered internally at /pytorch/aten/src/ATen/x.cpp:1.)"


Shown = list[warnings.WarningMessage]


@pytest.fixture
def shown() -> Iterator[Shown]:
    """The warnings that are shown in a test."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        yield seen


def warn(text: str, place: str = PLACE) -> None:
    warnings.warn_explicit(text, UserWarning, place, 1)


def test_warnings_of_torch_are_collected_once_and_shown(shown: Shown) -> None:
    with first_call.watch_warnings() as found:
        for text in ("no tensor cores", "no tensor cores", "other"):
            warn(text)
    assert found == ["no tensor cores", "other"]
    assert [str(each.message) for each in shown] == ["no tensor cores"] * 2 + ["other"]


def test_a_warning_of_c_plus_plus_has_the_place_of_its_caller(shown: Shown) -> None:
    with first_call.watch_warnings() as found:
        warn(FROM_CPP, "model.py")
        warn("mine", "model.py")
    assert found == ["slow"]


def test_what_torch_logs_as_a_warning_is_collected() -> None:
    log = logging.getLogger("torch._dynamo.made_up")
    with first_call.watch_warnings() as found:
        log.warning("hit the limit of %d", 8)
        log.error("worse")
        log.info("unimportant")
        logging.getLogger("other").warning("not torch")
    assert found == ["hit the limit of 8", "worse"]
    log.warning("later")
    assert len(found) == 2


def test_a_warning_shown_before_is_collected_again(shown: Shown) -> None:
    registry: dict[str | tuple[str, type[Warning], int], int] = {}
    for _ in range(2):
        warnings.warn_explicit("again", UserWarning, PLACE, 1, registry=registry)
    assert len(shown) == 1
    with first_call.watch_warnings() as found:
        warnings.warn_explicit("again", UserWarning, PLACE, 1, registry=registry)
    assert found == ["again"]


def test_texts_are_short_and_few(shown: Shown) -> None:
    with first_call.watch_warnings() as found:
        for number in range(20):
            warn(f"{number} " + "long " * 100)
    assert len(found) == first_call.MOST_WARNINGS
    assert max(map(len, found)) == first_call.WARNING_MAX_LENGTH


def test_the_former_handlers_are_back_afterwards() -> None:
    before = warnings.showwarning, logging.getLogRecordFactory()
    with pytest.raises(KeyError), first_call.watch_warnings():
        raise KeyError
    assert (warnings.showwarning, logging.getLogRecordFactory()) == before
