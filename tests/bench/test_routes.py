"""Which differences between a real and an empty call are torch's own, and which the model's."""

from __future__ import annotations

from collections import Counter

import pytest

from bench import routes
from bench.routes import Comparison, compare

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
        (f"{FLASH} detach", SUMS, ["scaled_dot_product_attention"]),
        (
            f"{FLASH} add mul _scaled_dot_product_efficient_attention detach detach",
            f"{SUMS} add mul {SUMS}",
            ["scaled_dot_product_attention"] * 2,
        ),
        (f"scalar_tensor scalar_tensor where {FLASH}", SUMS, ["scaled_dot_product_attention"]),
        (
            "empty native_batch_norm relu",
            "empty empty empty clone select mul select add relu",
            ["batch_norm"],
        ),
        ("empty native_batch_norm", "empty empty empty clone", ["batch_norm"]),
        ("cudnn_batch_norm relu", "empty empty empty clone select mul relu", ["batch_norm"]),
        (
            "transpose t clone _unsafe_view mm _unsafe_view add",
            "transpose view t addmm view",
            ["linear on a transposed input"],
        ),
        ("clone _unsafe_view mm", "view mm", ["reshape of a transposed tensor"]),
        ("transpose clone clone mul", "transpose mul", ["copy of a transposed tensor"] * 2),
        ("split mul mul", "split_with_sizes mul mul", ["chunk along the batch"]),
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
        ("mean add", "mean exp", "without aten.add, with aten.exp"),
        ("mul", "", "without aten.mul"),
        ("", "mul", "with aten.mul"),
        ("add", "add add", "with aten.add"),
        ("mul clone", "mul mul clone", "with aten.mul"),
        ("mul clone", "clone", "without aten.mul"),
        (FLASH, "zeros", f"without aten.{FLASH}, with aten.zeros"),
        (f"{FLASH} mul", f"{SUMS}", f"without aten.{FLASH}, with 3 × aten.sum, 3 × aten.add, "
         "aten.zeros"),
        ("t mm", "t addmm", "without aten.mm, with aten.addmm"),
        ("a b c d e f f", "", "without 2 × aten.f, aten.a, aten.b, aten.c and 2 other operators"),
    ],
)  # fmt: skip
def test_all_else_is_another_program(real: str, empty: str, unknown: str) -> None:
    assert compare(ops(real), ops(empty)) == Comparison(Counter(), 0.0, unknown)


def test_the_error_of_known_detours_counts_against_the_operators_of_the_real_call() -> None:
    real, empty = ops(f"{FLASH} clone{FILL}"), ops(f"{SUMS}{FILL}")
    error_us = 4.0 + 1.3  # a copy fewer does not make up for attention
    assert compare(real, empty).error == pytest.approx(error_us / (22 * routes.OPERATOR_US))


def test_a_name_that_begins_like_another_is_not_it() -> None:
    assert compare(ops("add"), ops("add_ ")).unknown == "without aten.add, with aten.add_"
    assert compare(ops("cloned"), []).unknown == "without aten.cloned"


def test_many_operators_take_no_time() -> None:
    """Each is looked at once."""
    real = ops("clone _unsafe_view mm add " * 20_000)
    compared = compare(real, ops("view mm add " * 20_000))
    assert compared.detours == Counter({"reshape of a transposed tensor": 20_000})
