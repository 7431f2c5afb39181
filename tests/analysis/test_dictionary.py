from __future__ import annotations

import re

from modescope.analysis import dictionary
from modescope.analysis.derive.registry import DERIVED
from modescope.bench.records.parquet import SCHEMA

SUMMARY_ONLY = {"baseline_latency_s", "paced_latency"}  # estimates whose intervals nothing derives


def test_the_dictionary_file_matches_records_and_metrics() -> None:
    assert dictionary.PATH.read_text(encoding="utf-8") == dictionary.text(), (
        "results/README.md is out of date: run `python -m analysis.dictionary`"
    )


def test_every_column_is_explained() -> None:
    text = dictionary.text()
    names = {*SCHEMA.names, *DERIVED}
    ends = {name for name in names if "_ci_low" in name or "_ci_high" in name}
    assert [name for name in names - ends if f"\n- `{name}`" not in text] == []
    values = {re.sub("_ci_(low|high)", "", name) for name in ends} - SUMMARY_ONLY
    assert [name for name in values if f"\n- `{name}` ±" not in text] == []
