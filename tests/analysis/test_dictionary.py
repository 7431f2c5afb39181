from __future__ import annotations

from analysis import dictionary
from analysis.metrics import CONTRACT, METRICS
from bench.store import SCHEMA


def test_the_file_is_what_the_records_and_metrics_say() -> None:
    assert dictionary.PATH.read_text(encoding="utf-8") == dictionary.text(), (
        "results/README.md is out of date: run `python -m analysis.dictionary`"
    )


def test_every_column_is_explained() -> None:
    text = dictionary.text()
    names = [*SCHEMA.names, *(metric.name for metric in METRICS)]
    assert [name for name in names if f"| `{name}` |" not in text] == []


def test_every_metric_of_today_says_which_way_is_better() -> None:
    assert {metric.better for metric in METRICS} <= {"lower", "higher", "neither"}
    assert len(set(CONTRACT)) == len(CONTRACT)
