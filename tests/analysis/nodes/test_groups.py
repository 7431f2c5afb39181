"""The nodes of synthetic studies, one of which is slower, in the report and beneath the table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis import table
from modescope.analysis.derive.registry import derived
from modescope.analysis.load import read
from modescope.analysis.nodes import groups as of_nodes
from modescope.analysis.nodes.groups import Group
from modescope.analysis.report import report
from modescope.bench.records import parquet
from modescope.bench.records.results import Record
from tests.helpers.pages import Page
from tests.helpers.studies import MODES, not_measured, record, save

pytestmark = pytest.mark.full

NODES = ("n1", "n2", "n3", "n10")
SPREAD = 0.004  # between processes


def processes(
    nodes: Sequence[str] = NODES,
    slow: str | None = None,
    models: Sequence[str] = ("mlp", "transformer"),
    **columns: Any,
) -> list[Record]:
    """Every mode once on each node; eager takes 5 % longer on the slow one."""
    source = np.random.default_rng(3)
    return [
        record(
            mode, 300e-6 * np.exp(source.normal(0, SPREAD)) * (1.05 if node == slow else 1.0),
            **{"node": node, "model": model, "replicate": number, **columns},
        )
        for number, node in enumerate(nodes)
        for model in models
        for mode in MODES
    ]  # fmt: skip


def sentinel(node: str, latency_s: float, **columns: Any) -> Record:
    nothing = dict.fromkeys(("baseline_mode", "baseline_dtype", "baseline_latency_rounds_s"))
    return record("eager", latency_s, node=node, budget="quick", **{**nothing, **columns})


def groups(folder: Path, *records: Record) -> tuple[Group, ...]:
    return of_study(save(records, folder))


def of_study(folder: Path) -> tuple[Group, ...]:
    return of_nodes.of_study(read(folder), folder)


def verdicts(group: Group) -> dict[str, str]:
    return {one.name: one.difference.verdict for one in group.places}


def test_a_study_of_one_node_has_no_nodes(tmp_path: Path) -> None:
    assert groups(tmp_path / "old", *processes(nodes=["n1"], node=None)) == ()
    assert groups(tmp_path / "one", *processes(nodes=["n1"])) == ()
    of_gpu = processes(nodes=["n1"], gpu_uuid="GPU-1", environment_id="env-2", device="cuda")
    assert groups(tmp_path / "two", *processes(nodes=["n1"]), *of_gpu) == ()
    assert "nodes-title" not in report.write(tmp_path / "one").read_text(encoding="utf-8")


def test_a_slow_node_is_named_in_report_and_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = save(processes(slow="n3"), tmp_path)
    (group,) = of_study(study)
    assert verdicts(group) == {"n1": "alike", "n2": "alike", "n3": "slower", "n10": "alike"}
    sentence = "ode n3 is slower than n1, n2 and n10 by "
    assert table.main([str(study)]) == 0
    assert f"\nn{sentence}" in capsys.readouterr().out
    page = report.write(study)
    assert f"N{sentence}" in Page(page.read_text(encoding="utf-8")).text
    markdown = page.with_name("report.md").read_text(encoding="utf-8")
    assert f"**N{sentence}" in markdown
    assert re.search(r"\| \*\*n3\*\* \| slower \| 1\.0[45]", markdown)


def by_workers(count: int, slow: str | None = None) -> list[Record]:
    """Every node measured by so many workers, each of which runs every mode once."""
    return [
        one
        for number in range(count)
        for node in NODES
        for one in processes(
            nodes=[node], slow=slow, worker=f"slurm-{node}-{number}",
            replicate=NODES.index(node) + number * len(NODES),
        )
    ]  # fmt: skip


def test_one_worker_tells_nothing_of_its_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = save(by_workers(1, slow="n3"), tmp_path)
    page = report.write(study)
    text = Page(page.read_text(encoding="utf-8")).text
    assert "Plain eager took 5" in text
    processes_of = f"{2 * len(MODES)} processes of 2 works run by 1 worker. "
    assert f"longer on node n3 than on n1, n2 and n10, in {processes_of}" in text
    assert "or only the time of the measurement (heat, other users), because only 1 worker" in text
    assert "n3 is slower" not in text
    assert "which includes differences between their jobs" in text
    assert "| **n3** | slower in 1 job |" in page.with_name("report.md").read_text(encoding="utf-8")
    table.main([str(study)])
    shown = capsys.readouterr().out
    assert "\nplain eager took" in shown
    assert "n3 is slower" not in shown


def test_three_workers_tell_a_slow_node(tmp_path: Path) -> None:
    study = save(by_workers(3, slow="n3"), tmp_path)
    (group,) = of_study(study)
    assert {(one.difference.workers, one.difference.by_workers) for one in group.places} == {
        (3, True)
    }
    text = Page(report.write(study).read_text(encoding="utf-8")).text
    assert "Node n3 is slower than n1, n2 and n10 by" in text
    assert f"in {3 * 2 * len(MODES)} processes of 2 works run by 3 workers" in text
    assert "their jobs" not in text


def test_equal_nodes_of_one_worker_each_are_alike_at_that_time_only(tmp_path: Path) -> None:
    text = Page(report.write(save(by_workers(1), tmp_path)).read_text(encoding="utf-8")).text
    assert "No node is slower than the others beyond noise" in text
    assert "For n1, n2, n3 and n10 this holds only for the time of the measurement" in text


def test_without_a_slow_node_it_is_said_what_would_have_been_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = save(processes(), tmp_path)
    text = Page(report.write(study).read_text(encoding="utf-8")).text
    assert "No node is slower than the others beyond noise: none differs from them by more" in text
    assert "slower would be named in 80 % of such studies." in text
    table.main([str(study)])
    assert "node n" not in capsys.readouterr().out


def test_environments_are_never_compared(tmp_path: Path) -> None:
    """A slower kind of machine is no slow node, and a node alone in its environment is no more."""
    usual = processes()
    older = processes(nodes=["n1", "x1"], slow="n1", environment_id="env-2", device_name="Older")
    first, second = groups(tmp_path, *usual, *older)
    assert set(verdicts(first).values()) == {"alike"}
    assert (first.environment, second.environment, second.machine) == ("A", "B", "Older")
    assert verdicts(second) == {"n1": "slower", "x1": "faster"}
    alone = processes(nodes=["y1"], slow="y1", environment_id="env-3")
    assert [verdicts(one) for one in groups(tmp_path, *alone)][-1] == {"y1": "too few processes"}


def test_gpus_of_one_node_are_places_of_their_own(tmp_path: Path) -> None:
    gpus = [f"GPU-{number}a2b3c4d-5e6f" for number in range(3)]
    parts = [
        processes(nodes=[""], slow="" if gpu == gpus[1] else None, node="n1", gpu_uuid=gpu,
                  replicate=number, device="cuda")
        for number, gpu in enumerate(gpus)
    ]  # fmt: skip
    study = save([one for part in parts for one in part], tmp_path)
    (group,) = of_study(study)
    assert verdicts(group)["n1 GPU-1a2b3c4d"] == "slower"
    text = Page(report.write(study).read_text(encoding="utf-8")).text
    assert "GPU-1a2b3c4d of node n1 is slower than n1 GPU-0a2b3c4d and n1 GPU-2a2b3c4d" in text


def test_what_a_node_ran_how_long_it_waited_and_how_often_it_was_restarted(tmp_path: Path) -> None:
    jobs: dict[str, Any] = {"scheduler": "slurm", "queue_wait_s": 30.0}
    (group,) = groups(
        tmp_path,
        *processes(nodes=["n1"], scheduler_job="7_1", restart=0, **jobs),
        not_measured("eager", "crashed", "by SIGKILL", node="n1", model="lstm",
                     scheduler_job="7_1", restart=1, **{**jobs, "queue_wait_s": 90.0}),
        *processes(nodes=["n2"], scheduler_job="7_2", restart=0, replicate=1, **jobs),
    )  # fmt: skip
    first, second = group.places
    assert (first.runs, first.not_ok, first.works) == (2 * len(MODES) + 1, 1, 2)
    assert (first.wait_s, first.restarts) == ((30.0, 90.0), 1)
    assert (second.not_ok, second.restarts, second.difference.readings) == (0, 0, 2 * len(MODES))


def test_sentinels_are_compared_and_are_no_rows(tmp_path: Path) -> None:
    """Each node measured works of its own; only the sentinels are common."""
    rows = [one for node in NODES for one in processes(nodes=[node], models=[node])]
    study = save(rows, tmp_path)
    (group,) = of_study(study)
    assert set(verdicts(group).values()) == {"too few processes"}
    text = Page(report.write(study).read_text(encoding="utf-8")).text
    assert "Nothing can be compared: each node needs 3 processes that measured eager" in text
    source = np.random.default_rng(4)
    for node in NODES * 3:
        factor = np.exp(source.normal(0, SPREAD)) * (1.05 if node == "n2" else 1.0)
        parquet.write(sentinel(node, 200e-6 * factor), study / "sentinels")
    parquet.write(sentinel("n2", 9e-6, environment_id="env-9"), study / "sentinels")
    assert len(derived(study)) == len(rows)
    (group,) = of_study(study)
    assert {one.name: one.difference.readings for one in group.places} == dict.fromkeys(NODES, 3)
    assert verdicts(group)["n2"] == "slower"


@pytest.mark.parametrize(
    "columns",
    [
        {"budget": "smoke"},
        {"baseline_mode": "no_grad"},
        {"flags": ("baseline_wrong",)},
        {"status": "wrong_result"},
    ],
    ids=str,
)
def test_some_processes_have_no_eager_time(tmp_path: Path, columns: dict[str, Any]) -> None:
    rows = [one for one in processes(**columns) if one.work.mode == "compile"]
    (group,) = groups(tmp_path, *rows)
    assert {one.difference.readings for one in group.places} == {0}


def test_processes_of_a_case_on_several_nodes_are_its_replicates(tmp_path: Path) -> None:
    """The interval then contains what differs between the nodes."""
    same = [record(node=node, replicate=n, latency_s=1e-4 * (1 + 0.01 * n)) for n, node in
            enumerate(NODES)]  # fmt: skip
    other = record(node="x1", environment_id="env-2", latency_s=3e-4, replicate=9)
    first, second = (row for _, row in derived(save([*same, other], tmp_path)).iterrows())
    assert (first["environment"], first["replicates"]) == ("A", 4)
    assert first["process_nodes"] == "n1;n2;n3;n10"
    assert first["latency_ci_low_s"] < 1.0e-4
    assert first["latency_ci_high_s"] > 1.025e-4
    assert (second["environment"], second["replicates"]) == ("B", 1)
    assert (second["process_nodes"], second["latency_s"]) == ("x1", pytest.approx(3e-4, rel=1e-3))
