"""`make gpu` on a pretended GPU: every step of the table runs, in small."""

from __future__ import annotations

import json
import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.gpu import proof
from tests.gpu.keep import MOST_BYTES, size_bytes
from tests.gpu.log import Log
from tests.gpu.steps import STEPS
from tests.helpers import commands
from tests.helpers.commands import start
from tests.helpers.paths import ROOT
from tests.helpers.processes import alive, soon

finish = partial(commands.finish, within_s=900, gone_s=20)
LINE = re.compile(r"^\| (\d) \| (\S+) \| ([a-z ]+) \| ([\d.]*) \| (.*) \|$", flags=re.M)

EXPECTED = {
    # torch sees no GPU
    **{step.name: {"skipped", "timeout"} for step in STEPS if step.name.startswith("test-")},
    # host work counts as work of the pretended device
    "selfcheck-clocks": {"failed", "timeout"},
    "selfcheck-equal": {"timeout"},
    "claims-slow": {"skipped", "failed", "timeout"},
    "claims-slower": {"skipped", "failed", "timeout"},
}
"""Verdicts on a pretended GPU; all other steps pass, or run out of time on a busy machine."""


def verdicts(folder: Path) -> dict[str, str]:
    """Step -> its verdict, as the page says."""
    page = (folder / proof.PAGE).read_text(encoding="utf-8")
    return {name: verdict for _, name, verdict, _, _ in LINE.findall(page)}


def test_steps_run_and_go_on_after_a_kill(tmp_path: Path) -> None:
    only = "--only=power,graphs,invariants"
    words = ["-m", "tests.gpu", "--pretend", f"--folder={tmp_path}", only]
    call = start(words, ROOT)
    assert soon(lambda: "power" in Log(tmp_path).ended(), within_s=120)
    os.kill(call.process.pid, signal.SIGKILL)
    call.process.communicate()
    call = start([*words, f"--out={tmp_path / 'out'}"], ROOT)
    answer = finish(call)
    assert answer.status == 0, answer
    assert verdicts(tmp_path) == {"power": "passed", "graphs": "passed", "invariants": "skipped"}
    lines = Log(tmp_path).lines
    assert [line.step for line in lines].count("power") == 1
    assert len((tmp_path / "power.jsonl").read_text().splitlines()) >= 4
    assert '"survives_the_other": true' in (tmp_path / "graphs.jsonl").read_text()


@pytest.mark.full
def test_every_step_has_a_verdict_and_three_kills_cost_none(tmp_path: Path) -> None:
    words = ["-m", "tests.gpu", "--pretend", f"--folder={tmp_path}", "--budget-s=3000"]
    for moment in ("test-cuda", "graphs", "study-training"):
        call = start(words, ROOT)
        assert soon(lambda: moment in Log(tmp_path).ended(), within_s=400)  # noqa: B023
        os.kill(call.process.pid, signal.SIGKILL)
        call.process.communicate()
        assert soon(lambda: not alive(call.sign), within_s=30)  # noqa: B023
    answer = finish(start(words, ROOT), within_s=1800)
    assert answer.status == 1, answer
    found = verdicts(tmp_path)
    assert [*found] == [step.name for step in STEPS]
    for name, verdict in found.items():
        assert verdict in EXPECTED.get(name, {"passed", "timeout"}), (name, answer)
    counted = [line.step for line in Log(tmp_path).lines if line.verdict in ("passed", "skipped")]
    assert all(counted.count(name) == 1 for name in counted if name != "invariants")
    assert json.loads((tmp_path / "pasted.jsonl").read_text().splitlines()[0])["pasted_s"] > 0
    assert len(list((tmp_path / "replicates" / "rows").iterdir())) == 1
    assert size_bytes(tmp_path) < MOST_BYTES
    assert len(list(tmp_path.rglob("traces/*.json.gz"))) <= 2
    page = (tmp_path / proof.PAGE).read_text(encoding="utf-8")
    assert "nothing about CUDA" in page
