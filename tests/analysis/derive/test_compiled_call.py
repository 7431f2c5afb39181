"""The parts of a profiled call of compiled code, worked out by hand."""

from __future__ import annotations

import pytest

from modescope.analysis.derive import profile

ROW = {"profiled_span_s": 200e-6, "guards_s": 30e-6, "compiled_wrapper_s": 20e-6}


def test_the_parts_add_up_to_the_call() -> None:
    call = profile.compiled_call(ROW)
    assert call is not None
    assert (call.lookup_s, call.wrapper_s) == (30e-6, 20e-6)
    assert call.rest_s == pytest.approx(150e-6)
    assert call.overhead_share == pytest.approx(0.25)


@pytest.mark.parametrize("name", ROW)
def test_without_one_of_the_columns_nothing_is_known(name: str) -> None:
    assert profile.compiled_call({**ROW, name: None}) is None
    assert profile.compiled_call({key: value for key, value in ROW.items() if key != name}) is None


def test_parts_longer_than_the_call_are_not_of_it() -> None:
    assert profile.compiled_call({**ROW, "guards_s": 180e-6}) is not None
    assert profile.compiled_call({**ROW, "guards_s": 181e-6}) is None
