"""Equal values have equal texts."""

from __future__ import annotations

from modescope.bench.records.ids import canonical_json


def test_canonical_json_does_not_depend_on_the_order() -> None:
    assert canonical_json({"b": [1, None], "a": {"d": True, "c": "é"}}) == (
        '{"a":{"c":"\\u00e9","d":true},"b":[1,null]}'
    )
