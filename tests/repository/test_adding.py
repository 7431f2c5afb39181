"""The blocks of docs/adding.md are enough for each addition: they are applied to a copy."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import rooms
from tests.helpers.commands import QUICKLY, TINY, Row, rows
from tests.helpers.paths import ROOT
from tests.mutants.planting import copy_repository

pytestmark = pytest.mark.full

PAGE = (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.M | re.S))
BLOCK = re.compile(r"^```(\w+)\n(?:#|\+\+\+) (\S+)\n(.*?)^```$", flags=re.M | re.S)

MADE_UP = """
from pathlib import Path
from modescope.bench.devices.devices import Cpu
from modescope.bench.tools.claims.table import CLAIMS
from modescope.bench.tools.peers.harnesses import HARNESSES
from modescope.bench.tools.testbed.sides import Side
from tests.helpers.claims import autograd
from tests.helpers.claims.examples import decide
from tests.helpers.studies import blocks, record, save
new = {"cpu_time_rounds_s": blocks(2e-4), "load_1min": 9.0, "machine_cores": 2, "memory_bytes": 1,
       "resident_bytes": 2, "step_peak_bytes": 3, "graph_pool_bytes": 0, "graph_pool_live_bytes": 0}
save([record(mode, 1e-4, 1.5, **new) for mode in ("eager", "compile")], Path("results/made-up"))
claim = CLAIMS["item-is-python"]
print(claim.decide(claim.observe(Cpu())).answer)
for made_up in autograd.EXAMPLES["item-is-python"].values():
    print(decide("item-is-python", *made_up).answer)
peer = next(each for each in HARNESSES if each.name == "best call")
print(len(peer.measure(Side(lambda: None, Cpu(), 1e-4, None), 0.01)))
"""
JUDGES = [
    "tests/analysis/test_dictionary.py",
    "tests/repository/test_guide.py",
    "tests/repository/test_names_in_texts.py::test_every_link_has_its_target",
    "tests/analysis/rows/test_flags.py::test_every_flag_in_the_code_is_explained_and_no_other",
    "tests/bench/records/test_cases.py",
    "tests/bench/sweep/test_executors.py::test_the_function_of_every_executor_exists",
    "tests/analysis/causes/test_worlds.py::"
    "test_each_cause_has_a_world_a_silent_one_and_a_fault_in_its_rule",
    "tests/analysis/causes/test_worlds.py::test_it_is_named_with_its_figures[paged_out]",
    "tests/repository/test_architecture.py::test_no_import_breaks_a_rule",
    "tests/repository/test_mutants.py::test_each_fault_fits_one_place_and_changes_it"
    "[empty batch that is none]",
]
"""The tests of the repository that concern additions."""

RULES = "tests/bench/tools/claims/test_rules.py"


def write(copy: Path, kind: str, path: str, text: str) -> None:
    """Writes the file of a block, or applies its change."""
    target = copy / path
    if kind != "diff":
        assert not target.exists(), path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return
    lines = text.splitlines(keepends=True)
    before, after = ("".join(line[1:] or "\n" for line in lines if line[0] in signs)
                     for signs in (" -\n", " +\n"))  # fmt: skip
    source = target.read_text(encoding="utf-8")
    assert source.count(before) == 1, f"{path} has this {source.count(before)} times:\n{before}"
    target.write_text(source.replace(before, after), encoding="utf-8")


def run(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {
        **os.environ,
        "XDG_CACHE_HOME": str(copy),
        "TORCHINDUCTOR_CACHE_DIR": str(copy / "inductor"),
    }
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=copy, env=variables, capture_output=True, text=True, timeout=300
    )


def printed(copy: Path, *arguments: str) -> str:
    done = run(copy, *arguments)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with every addition of the page."""
    folder = tmp_path_factory.mktemp("additions")
    copy_repository(folder)
    for text in SECTIONS.values():
        for kind, path, content in BLOCK.findall(text):
            write(folder, kind, path, content)
    return folder


@pytest.fixture(scope="module")
def measured(copy: Path) -> dict[str, Row]:
    """Rows by mode of a sweep with the additions."""
    out = printed(
        copy, "run.py", *QUICKLY[:-1], "memory=true", "model=softmax", "shape=small",
        "pause_s=0.01", "-m", "mode=amp-no-grad,fx", "hydra/launcher=last_first",
        "hydra.launcher.greeting=hello",
    )  # fmt: skip
    assert out.startswith("2 cases, hello\n")
    assert "amp-no-grad" in out
    return {row["mode"]: row for row in rows(copy / "results")}


@pytest.fixture(scope="module")
def made_up(copy: Path) -> list[str]:
    """The output of a made-up study, a claim and a peer."""
    return printed(copy, "-c", MADE_UP).split()


@pytest.fixture(scope="module")
def table(copy: Path, made_up: list[str]) -> list[Row]:
    """The rows of the made-up study, as other programs read them."""
    out = printed(copy, "-m", "analysis.table", "results/made-up", "--csv")
    return list(csv.DictReader(io.StringIO(out)))


@pytest.fixture(scope="module")
def page(copy: Path, made_up: list[str]) -> str:
    """Its report; the picture of the new figure is copied to the guide, as the page describes."""
    printed(copy, "-m", "analysis.report", "results/made-up")
    report = copy / "results" / "made-up" / "report"
    (picture,) = report.glob("first-call-*.svg")
    shutil.copy(picture, copy / "docs" / "figures" / "first-call.svg")
    return (report / "report.md").read_text(encoding="utf-8")


def test_a_mode_a_model_and_a_backend_are_measured(measured: dict[str, Row]) -> None:
    assert list(measured) == ["fx", "amp-no-grad"]  # as the new launcher orders them
    for row in measured.values():
        assert (row["status"], row["in_effect"], row["model"]) == ("ok", True, "softmax"), row
    assert (measured["amp-no-grad"]["grad"], measured["fx"]["compile"]) == ("no_grad", "fx")


def test_a_clock_a_column_and_a_setting_reach_the_row(measured: dict[str, Row]) -> None:
    for row in measured.values():
        assert min(row["cpu_time_rounds_s"]) > 0
        assert row["parameters"] == 16 * 17
        assert "pause_s=0.01" in row["command"]


def test_a_phase_and_a_compile_option_are_measured(copy: Path) -> None:
    asked = [*TINY, "mode=compile", "phase=burst", "study=phase"]
    assert "allowed are inductor, eager" in run(copy, "run.py", *asked, "mode.backend=aot").stderr
    assert "compile[backend=eager]" in printed(copy, "run.py", *asked, "mode.backend=eager")
    (row,) = rows(copy / "results", "phase")
    assert (row["status"], row["phase"], row["graphs"]) == ("ok", "burst", 1)
    assert row["mode"] == "compile[backend=eager]"
    assert row["compile_options"] == '{"backend":"eager"}'
    assert not list(copy.rglob("*.cpp"))  # Inductor got nothing to compile


def test_a_metric_a_clock_and_a_flag_are_in_the_table(table: list[Row]) -> None:
    for row in table:
        assert float(row["cpu_time_s"]) == pytest.approx(2e-4)
        assert float(row["time_per_sample_s"]) == pytest.approx(float(row["latency_s"]) / 4)
        assert "loaded" in row["flags"].split(";")


def test_a_cause_is_named_in_the_table(table: list[Row]) -> None:
    for row in table:
        assert "paged_out" in row["cause"].split(";")


def test_a_figure_a_flag_and_a_mode_are_in_the_report(page: str) -> None:
    assert "first-call-" in page
    assert "Shortest: eager" in page
    assert "loaded" in page


def test_a_claim_and_a_peer_measure(made_up: list[str]) -> None:
    assert made_up == ["holds", "holds", "refuted", "1"]


@pytest.mark.usefixtures("page")
def test_the_tests_of_the_repository_pass_with_all_additions(copy: Path) -> None:
    printed(copy, "-m", "analysis.dictionary")
    dictionary = (copy / "results" / "README.md").read_text(encoding="utf-8")
    for name in ("cpu_time_rounds_s", "cpu_time_ci_low_s", "parameters", "time_per_sample_s"):
        assert f"| `{name}` |" in dictionary
    of_the_claim = ("-k", "item-is-python or not test_rules")  # of RULES, and all of JUDGES
    passed = printed(
        copy, "-m", "pytest", "-v", "-p", "no:cacheprovider", *of_the_claim, *JUDGES, RULES
    )
    assert len(re.findall(rf"^{RULES}::.*item-is-python.* PASSED", passed, re.M)) >= 4


def test_the_page_lists_every_room() -> None:
    names = {room.partition(".")[2] for room in rooms.ROOMS} - {""}
    assert names == set(re.findall(r"^\| `(\w+)` \|", SECTIONS["The rooms"], flags=re.M))
