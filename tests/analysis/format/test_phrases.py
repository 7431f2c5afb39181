"""When a heading says that data came from the cache."""

from __future__ import annotations

from typing import Any

import pytest

from modescope.analysis.format import phrases

KIB = 1024


def row(used: int | None, last: int | None, data: str | None = None) -> Any:
    return {"working_set_bytes": used, "last_level_bytes": last, "data": data}


@pytest.mark.parametrize(
    ("rows", "size"),
    [
        ([row(4 * KIB, 4 * KIB)], "4.00 KiB"),
        ([row(2 * KIB, 4 * KIB), row(3 * KIB, 4 * KIB)], "3.00 KiB"),
        ([row(4 * KIB + 1, 4 * KIB)], None),
        ([row(2 * KIB, 4 * KIB), row(5 * KIB, 4 * KIB)], None),
        ([row(2 * KIB, 4 * KIB, "cold_weights")], None),
        ([row(2 * KIB, None)], None),
        ([row(None, 4 * KIB)], None),
        ([row(2 * KIB, 4 * KIB), row(None, None)], None),
        ([], None),
    ],
)
def test_data_come_from_the_cache_if_they_fit_and_stay(rows: list[Any], size: str | None) -> None:
    said = phrases.from_cache(rows)
    assert said is None if size is None else size in str(said)
