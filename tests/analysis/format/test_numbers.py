from __future__ import annotations

import math

import pytest

from modescope.analysis.format import numbers
from modescope.bench.stats.estimates import Estimate


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
    assert numbers.duration(seconds) == expected


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
    assert numbers.duration_interval(*estimate) == expected


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
    assert numbers.calls(count) == expected


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
    assert numbers.size(size_bytes) == expected


def test_numbers_on_an_axis_are_round() -> None:
    assert numbers.tick(20 * 2**20, numbers.size_unit) == "20 MiB"
    assert numbers.tick(5e-4, numbers.time_unit) == "500 µs"


def test_factors_have_two_decimals_or_as_many_as_their_interval_needs() -> None:
    assert numbers.factor(1.2345) == "1.23×"
    assert numbers.factor(None) == "–"
    assert numbers.factor_interval(1.2345, 1.2, 1.27) == "1.23× [1.20, 1.27]"
    assert numbers.factor_interval(1.2344, 1.2316, 1.2376) == "1.234× [1.232, 1.238]"
    assert numbers.ratio(Estimate(1.2345, None, None)) == "1.23×"


def test_shares_percentages_and_multiples() -> None:
    assert numbers.share(0.81, 1) == "81 %"
    assert numbers.share(None, 1) == "–"
    assert numbers.share_interval(0.81, 0.79, 0.82) == "81 % [79, 82]"
    assert numbers.share_interval(0.81, 0.808, 0.812) == "81.0 % [80.8, 81.2]"
    assert numbers.share_interval(0.81, None, None) == "81 %"
    assert numbers.share_interval(None, None, None) == "–"
    assert numbers.percent(0.00531) == "0.53 %"
    assert numbers.percent(1.62) == "160 %"
    assert numbers.times(1.94) == "1.9×"
    assert numbers.times(131.0) == "131×"
    assert numbers.scientific(2.1e-7) == "2.1e-7"


def test_counts_are_whole() -> None:
    assert numbers.count(12_431.0) == "12,431"
    assert numbers.count(None) == "–"
    assert numbers.counted(1, "kernel", "kernels") == "1 kernel"
    assert numbers.counted(1042, "kernel", "kernels") == "1,042 kernels"


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [
        (8 * 10**9, "8 GB"), (8 * 2**30, "8 GiB"), (50 * 2**20, "50 MiB"), (3 * 2**29, "1.5 GiB"),
        (15 * 10**11, "1.5 TB"), (1000, "1 KB"), (1, "1 B"), (123_456_789, "123456789 B"),
    ],
)  # fmt: skip
def test_a_limit_is_told_in_the_unit_that_it_was_chosen_in(size_bytes: int, expected: str) -> None:
    assert numbers.limit(size_bytes) == expected
