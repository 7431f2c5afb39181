"""`model.inputs` as it is typed: what is a tensor, what a container, and what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modescope.bench.records.errors import UsageError
from modescope.bench.records.input_descriptions import TensorDescription, parse, size_names


def described(*size: int | str, **more: Any) -> TensorDescription:
    return TensorDescription(size, **more)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ({"x": [8, 64]}, {"x": described(8, 64)}),
        ({"x": ["seq", "batch", 64]}, {"x": described("seq", "batch", 64)}),
        ({"x": {"size": []}}, {"x": described()}),
        ({"x": {"size": [4], "dtype": "int64", "high": 9}},
         {"x": described(4, dtype="int64", high=9)}),
        ({"x": {"size": [4], "dtype": "uint8", "low": 1, "high": 256}},
         {"x": described(4, dtype="uint8", low=1, high=256)}),
        ({"x": {"size": [4], "low": -1, "high": 0.5}}, {"x": described(4, low=-1, high=0.5)}),
        ({"x": [2], "k": 3, "scale": 0.5, "flag": True, "act": "gelu", "mask": None},
         {"x": described(2), "k": 3, "scale": 0.5, "flag": True, "act": "gelu", "mask": None}),
        ({"x": [[2], None, {"a": [3], "b": [0.5, True]}]},
         {"x": [described(2), None, {"a": described(3), "b": [0.5, True]}]}),
    ],
    ids=str,
)  # fmt: skip
def test_descriptions(typed: Any, meant: Any) -> None:
    assert parse(typed) == meant
    assert parse(json.loads(json.dumps(typed))) == meant


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        (5, ""),
        ({}, ""),
        ({"x": [20, 4.5]}, ""),
        ({"x": [2, -4]}, ".x"),
        ({"x": {"size": [2**63]}}, ".x"),
        ({"x": {"size": [1.5]}}, ".x"),
        ({"x": [2], "deep": [{"dtype": "int64"}]}, ".deep[0]"),
        ({"x": {"size": [2], "dtyp": "int64"}}, ".x"),
        ({"x": {"size": [2], "dtype": "float16"}}, ".x"),
        ({"x": {"size": [2], "dtype": "int64"}}, ".x"),
        ({"x": {"size": [2], "dtype": "int64", "high": True}}, ".x"),
        ({"x": {"size": [2], "dtype": "int8", "high": 129}}, ".x"),
        ({"x": {"size": [2], "dtype": "uint8", "low": -1, "high": 3}}, ".x"),
        ({"x": {"size": [2], "dtype": "int64", "low": 3, "high": 3}}, ".x"),
        ({"x": {"size": [2], "high": 1.0}}, ".x"),
        ({"x": {"size": [2], "low": 0, "high": float("nan")}}, ".x"),
        ({"x": {"size": [2], "dtype": "bool", "high": 1}}, ".x"),
    ],
    ids=str,
)
def test_what_cannot_be_drawn_is_refused_with_its_place(typed: Any, place: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(typed)
    assert str(refused.value).startswith(f"model.inputs{place}=")
    assert "\n" not in str(refused.value)


def test_the_names_of_sizes() -> None:
    typed = {"x": ["seq", "batch", 64], "deep": [{"y": ["batch", "heads"]}], "act": "seq"}
    assert size_names(parse(typed)) == ["seq", "batch", "heads"]
