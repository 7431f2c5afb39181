"""Differences between a real and an empty call: those known of torch, and others."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from modescope.bench.passes.operator_comparison import OperatorComparison, compare

FLASH = "_scaled_dot_product_flash_attention_for_cpu"


def ops(names: str) -> list[str]:
    return [f"aten.{name}" for name in names.split()]


SUMS = "zeros sum sum sum add add mul add"
FILL = " relu" * 20  # the same on both sides: detours are a small part of the call


@pytest.mark.parametrize(
    ("real", "empty", "detours"),
    [
        ("t addmm gelu", "t addmm gelu", []),
        ("mul add", "add mul", []),  # the same operators in another order cost the same
        (f"mul {FLASH} add", f"mul {SUMS} add", ["scaled_dot_product_attention"]),
        (
            f"scalar_tensor scalar_tensor where {FLASH} detach",
            SUMS,
            ["scaled_dot_product_attention"],
        ),
        ("cudnn_batch_norm relu", "empty empty empty clone select mul relu", ["batch_norm"]),
        ("clone _unsafe_view mul", "_unsafe_view mul", ["reshape of a transposed tensor"]),
    ],
)
def test_detours_of_torch_are_known(real: str, empty: str, detours: list[str]) -> None:
    compared = compare(ops(real + FILL), ops(empty + FILL))
    assert compared.unknown is None
    assert compared.detours == Counter(detours)


@pytest.mark.parametrize(
    ("real", "empty", "unknown"),
    [
        ("mean gt mul mul add", "mean gt add", "without 2 × aten.mul"),
        ("", "mul", "with aten.mul"),
        ("add", "add add", "with aten.add"),
        ("mul clone clone", "mul", "without 2 × aten.clone"),
        ("clone view", "view", "without aten.clone"),  # the model's, as torch's view is unsafe
        (FLASH, "zeros", f"without aten.{FLASH}, with aten.zeros"),
        ("a b c d e f f", "", "without 2 × aten.f, aten.a, aten.b, aten.c and 2 other operators"),
    ],
)
def test_unknown_differences_mean_another_program(real: str, empty: str, unknown: str) -> None:
    assert compare(ops(real), ops(empty)) == OperatorComparison(Counter(), 0.0, unknown)


def test_detours_count_as_a_share_of_the_real_call() -> None:
    real, empty = ops(f"{FLASH} clone _unsafe_view{FILL}"), ops(f"{SUMS} view{FILL}")
    assert compare(real, empty).share == pytest.approx(2 / 23)


def processor_s(length: int) -> float:
    """Least time of several comparisons with that many detours."""
    real = ops("clone _unsafe_view mm add " * length)
    empty = ops("view mm add " * length)
    times_s = []
    for _ in range(5):
        start = time.process_time()
        compared = compare(real, empty)
        times_s.append(time.process_time() - start)
        assert compared.detours == Counter({"reshape of a transposed tensor": length})
    return min(times_s)


def test_ten_times_the_operators_take_some_ten_times_as_long() -> None:
    """Comparing is linear. Copying the rest for each operator took 300 times as long."""
    assert processor_s(20_000) < 25 * processor_s(2_000)
