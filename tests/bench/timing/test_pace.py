"""The pace of the machine, beside what is timed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modescope.bench.timing import pace, rounds
from tests.helpers.simulated import SimulatedDevice, spikes, step


def test_the_pace_is_the_time_of_its_work_at_the_machine_s_speed() -> None:
    device = SimulatedDevice(slowdown=lambda now_s: 1.0 if now_s < 1.0 else 1.75)
    device.launch(0.0, 100.0)  # which is not waited for
    work = step(device, (0.1, 0.0))
    assert pace.time_of(work, device, 4).samples_s == pytest.approx((0.1,) * 4)
    device.launch(1.0, 0.0)
    assert pace.time_of(work, device, 4).samples_s == pytest.approx((0.175,) * 4)


def test_one_value_of_a_round_is_the_median_of_several_calls() -> None:
    device = SimulatedDevice(queues=False)
    work = step(device, (0.1, 0.0), scale=spikes(0, share=0.2, factor=50))
    order = ((0, 0),)
    played = rounds.play([pace.clock(step=work)], [order] * 50, device, deadline=1e9)
    assert rounds.medians(played, 0, 0).count(pytest.approx(0.1)) >= 40
    assert len(played[0].case_calls_s) == pace.CALLS


def test_the_best_pace_of_a_machine_is_kept_from_run_to_run(tmp_path: Path) -> None:
    file = tmp_path / "results" / "paces.json"
    assert pace.best_s((3e-5,) * 12, file) == 3e-5
    assert pace.best_s((2e-5,) * 12, file) == 2e-5
    assert pace.best_s((4e-5,) * 12, file) == 2e-5
    assert list(json.loads(file.read_text()).values()) == [2e-5]


def test_what_says_nothing_of_the_machine_is_neither_kept_nor_read(tmp_path: Path) -> None:
    file = tmp_path / "paces.json"
    for paces_s in (None, (2e-5,) * 11, (0.0,) * 12):  # none, too few, no durations
        assert pace.best_s(paces_s, file) is None
    assert not file.exists()
    for content in ("", '{"a": null}'):
        file.write_text(content)
        assert pace.best_s((2e-5,) * 12, file) == 2e-5
        assert pace.best_s((3e-5,) * 12, file) == 2e-5
