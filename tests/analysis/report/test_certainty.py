"""What stands beneath an answer on the first screen: its price, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.select import ordered
from modescope.analysis.format.phrases import as_rows
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.report.certainty import by_work, facts
from modescope.analysis.report.study import Study
from modescope.bench.records.cases import canonical_json
from modescope.bench.records.results import Record
from tests.helpers.studies import record, save


def _facts(folder: Path, records: Sequence[Record]) -> dict[str, str]:
    rows = ordered(derived(save(records, folder)))
    answers = recommend(rows)
    study = Study("study", "study", rows, answers, {})
    by_id = {row["run_id"]: row for row in as_rows(rows)}
    return dict(facts(answers, by_id, by_work(study)))


def _sizes(*batches: int) -> list[Record]:
    return [
        record("compile", speedup=1.5, shape=canonical_json({"batch": n}), batch=n,
               first_call_s=float(n), error=n * 1e-3, error_limit=1.0, baseline_error=n * 1e-6)
        for n in batches
    ]  # fmt: skip


def test_without_a_control_nothing_is_said_of_the_noise_floor(tmp_path: Path) -> None:
    assert "Noise floor" not in _facts(tmp_path, _sizes(1))


def test_the_least_certain_row_decides_what_would_have_shown(tmp_path: Path) -> None:
    sure = _facts(tmp_path / "sure", [record(spread=0.01)])
    unsure = _facts(tmp_path / "unsure", [record(spread=0.01), record("no_grad", spread=0.2)])
    sizes = [float(told["May be missed"].split()[2]) for told in (sure, unsure)]
    assert sizes[0] < sizes[1]


def test_where_nothing_is_recommended_there_is_no_price(tmp_path: Path) -> None:
    told = _facts(tmp_path, [record("compile", speedup=1.0), record("eager", speedup=1.0)])
    assert {"First call", "Error"}.isdisjoint(told)
