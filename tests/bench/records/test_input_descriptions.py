"""`model.inputs` as it is typed: what is a tensor, what a container, and what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modescope.bench.records.errors import UsageError
from modescope.bench.records.input_descriptions import (
    TensorDescription,
    parse,
    size_names,
)


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
    ("typed", "sentence"),
    [
        (5, "model.inputs=5: must be a mapping from forward's arguments"),
        ({}, "model.inputs={} describes no tensor"),
        ({"x": [20, 4.5]}, "{'x': [20, 4.5]} describes no tensor; a tensor is a list of whole"),
        ({0: [2]}, "model.inputs: 0 is not a name"),
        ({"x": [{1: [2]}]}, "model.inputs.x[0]: 1 is not a name"),
        ({"x": [2, -4]}, "model.inputs.x: -4 is no size; sizes are whole numbers from 0"),
        ({"x": {"size": [2**63]}}, f"model.inputs.x: {2**63} is no size"),
        ({"x": {"size": [1.5]}}, "model.inputs.x.size=[1.5]: must be a list"),
        ({"x": {"dtype": "int64"}}, "model.inputs.x: size is missing"),
        ({"x": {"size": [2], "dtyp": "int64"}}, "model.inputs.x.dtyp: no such key; known are size"),
        ({"x": {"size": [2], "dtype": "int65"}}, "model.inputs.x.dtype=int65: allowed are float32"),
        ({"x": {"size": [2], "dtype": "float16"}}, "the setting dtype decides the precision"),
        ({"x": {"size": [2], "dtype": "int64"}}, "model.inputs.x: int64 needs high"),
        ({"x": {"size": [2], "dtype": "int64", "high": True}}, "high=True: must be a whole number"),
        ({"x": {"size": [2], "dtype": "int8", "high": 129}}, "int8 holds numbers from -128 to 127"),
        ({"x": {"size": [2], "dtype": "uint8", "low": -1, "high": 3}}, "uint8 holds numbers from"),
        ({"x": {"size": [2], "dtype": "int64", "low": 3, "high": 3}}, "high=3 must be above low=3"),
        ({"x": {"size": [2], "high": 1.0}}, "model.inputs.x: give both low and high"),
        ({"x": {"size": [2], "low": 0, "high": float("nan")}}, "high=nan: must be a finite number"),
        ({"x": {"size": [2], "dtype": "bool", "high": 1}}, "model.inputs.x: bool takes no high"),
    ],
    ids=str,
)  # fmt: skip
def test_a_mistake_is_one_sentence_with_its_place(typed: Any, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(typed)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_names_of_sizes_have_the_place_where_they_come_first() -> None:
    typed = {"x": ["seq", "batch", 64], "deep": [{"y": ["batch", "heads"]}], "act": "seq"}
    assert size_names(parse(typed)) == {
        "seq": "model.inputs.x",
        "batch": "model.inputs.x",
        "heads": "model.inputs.deep[0].y",
    }
