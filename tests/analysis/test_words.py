from __future__ import annotations

import math

import pytest

from analysis import words


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (None, "–"),
        (357.4e-6, "357 µs"),
        (1.2345e-3, "1.23 ms"),
        (31.0, "31.0 s"),
        (0.9999, "1.00 s"),
        (5e-8, "50.0 ns"),
        (240.0, "240 s"),
    ],
)
def test_durations_have_three_digits_in_the_unit_that_suits(
    seconds: float | None, expected: str
) -> None:
    assert words.duration(seconds) == expected


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        ((357.2e-6, 355.1e-6, 359.4e-6), "357 µs [355, 359]"),
        ((357.2e-6, 357.0e-6, 357.4e-6), "357.2 µs [357.0, 357.4]"),
        ((999.8e-6, 980e-6, 1020e-6), "1.00 ms [0.98, 1.02]"),
        ((1e-3, None, None), "1.00 ms"),
        ((-7.5e-11, -4.9358e-9, 4.7867e-9), "-0.07 ns [-4.94, 4.79]"),
        ((None, None, None), "–"),
    ],
)
def test_an_interval_has_the_unit_and_digits_of_its_middle(
    estimate: tuple[float | None, float | None, float | None], expected: str
) -> None:
    assert words.duration_interval(*estimate) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (None, "–"),
        (math.inf, "never"),
        (12_431.0, "12,400"),
        (7.0, "7"),
        (3_141_592.0, "3,140,000"),
    ],
)
def test_calls_have_three_digits(count: float | None, expected: str) -> None:
    assert words.calls(count) == expected


def test_sizes_name_batch_and_sequence_first() -> None:
    assert words.sizes('{"batch":4,"heads":8,"seq":64}') == "batch 4, seq 64, heads 8"


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [
        (None, "–"),
        (0, "0 B"),
        (1010, "1010 B"),
        (3 * 2**20 + 2**19, "3.50 MiB"),
        (2**30 - 1, "1.00 GiB"),
        (150.0 * 2**20, "150 MiB"),
    ],
)
def test_sizes_have_three_digits_in_binary_units(size_bytes: float | None, expected: str) -> None:
    assert words.size(size_bytes) == expected


@pytest.mark.parametrize(
    ("size_bytes", "expected"), [(0, "0"), (20 * 2**20, "20 MiB"), (2**19, "512 KiB")]
)
def test_sizes_on_an_axis_are_round(size_bytes: float, expected: str) -> None:
    assert words.size_tick(size_bytes) == expected


@pytest.mark.parametrize(
    ("launches", "graphs", "expected"),
    [
        (None, None, "–"),
        (0, 0, "0 launches"),
        (1, None, "1 launch"),
        (1234, 0, "1,234 launches"),
        (3, 1, "3 launches + 1 graph launch"),
        (0, 2, "2 graph launches"),
    ],
)
def test_launches_of_both_kinds_are_counted(
    launches: int | None, graphs: int | None, expected: str
) -> None:
    assert words.launches({"launches": launches, "graph_launches": graphs}) == expected


def test_ratios_and_shares_read_as_such() -> None:
    assert words.times(1.94) == "1.9×"
    assert words.times(131.0) == "131×"
    assert words.roofline({"roofline_fraction": 0.62, "floor_bound": "compute"}) == "62 % (compute)"
    assert words.roofline({"roofline_fraction": None, "floor_bound": None}) == "–"
    assert words.counted(1, "kernel", "kernels") == "1 kernel"
