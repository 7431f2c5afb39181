"""Warnings of torch are collected and still shown; those of others are only shown."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import pytest
import torch

from modescope.bench.case import first_call

PLACE = str(Path(torch.__file__).parent / "nn" / "made_up.py")
FROM_CPP = "slow (Triggered internally at /pytorch/aten/src/ATen/x.cpp:1.)"


def test_warnings_of_torch_are_collected_once_and_shown() -> None:
    """Also one that was shown before, and one of C++ code, which has the place of its caller."""
    registry: dict[str | tuple[str, type[Warning], int], int] = {}

    def warn(text: str, place: str = PLACE) -> None:
        warnings.warn_explicit(text, UserWarning, place, 1, registry=registry)

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        warn("again")
        with first_call.watch_warnings() as found:
            for text in ("again", "again", "other"):
                warn(text)
            warn(FROM_CPP, "model.py")
            warn("mine", "model.py")
    assert found == ["again", "other", "slow"]
    assert [str(each.message) for each in shown] == ["again", "again", "other", FROM_CPP, "mine"]


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


def test_the_former_handlers_are_back_afterwards() -> None:
    before = warnings.showwarning, logging.getLogRecordFactory()
    with pytest.raises(KeyError), first_call.watch_warnings():
        raise KeyError
    assert (warnings.showwarning, logging.getLogRecordFactory()) == before
