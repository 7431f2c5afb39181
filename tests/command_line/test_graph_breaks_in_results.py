"""Graph breaks from the command line to the table, the report and the csv."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from modescope.analysis import table
from modescope.analysis.report import report
from tests.helpers.breaking_models import BY_HAND
from tests.helpers.commands import QUICKLY, Cli, rows
from tests.helpers.paths import HELPERS

MODELS = HELPERS / "breaking_models.py"
NAMES = ("Loop", "Two")


@pytest.mark.slow
def test_table_report_and_csv_show_the_graph_breaks_counted_by_hand(
    cli: Cli, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    shutil.copy(MODELS, tmp_path / "net_that_breaks.py")
    monkeypatch.syspath_prepend(tmp_path)
    answer = cli(
        "-m", "mode=compile", "model=custom", "model.fullgraph=false",
        "model.target=net_that_breaks:build", f"+model.kwargs.name={','.join(NAMES)}", *QUICKLY,
    )  # fmt: skip
    assert answer.status == 0, answer
    assert table.main([str(results / "main"), "--csv"]) == 0
    read = csv.DictReader(io.StringIO(capfd.readouterr().out))
    in_csv = {json.loads(row["model_args"])["name"]: row for row in read}
    assert report.main([str(results / "main")]) == 0
    markdown = (results / "main" / "report" / "report.md").read_text(encoding="utf-8")
    assert table.main([str(results / "main")]) == 0
    shown = " ".join(capfd.readouterr().out.split())

    assert sorted(in_csv) == sorted(NAMES)
    for name in NAMES:
        by_hand, row = BY_HAND[name], in_csv[name]
        assert row["graph_breaks"] == str(by_hand.sites)
        sites = json.loads(row["graph_break_reasons"])
        assert len(sites) == by_hand.sites
        assert json.loads(row["eager_functions"]) == list(by_hand.in_eager)
        assert row["in_effect"] == str(name != "Loop")  # where no other function is compiled
        if sites:
            count = f"{len(sites)} graph break{'s' if len(sites) > 1 else ''}"
            first = f"{count}: {sites[0]['reason']} at {sites[0]['place']}"
            assert first in shown
            assert first in markdown
    assert "in eager: Loop.forward" in shown
    assert "in eager: Loop.forward" in markdown
    assert shown.count("graph break") == 4  # two remarks and two notes
    assert all(row["graph_breaks"] is not None for row in rows(results))
