"""Parts of the proof on a GPU: continued tests, wheels, what is kept, and the pretended GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.records.errors import UsageError
from modescope.bench.timing import timers
from tests.helpers.paths import ROOT
from tests.helpers.studies import record, save
from tests.proof import reference, wheels
from tests.proof.facts import __main__ as facts
from tests.proof.facts.fact import Place, told
from tests.proof.passed_tests import MACHINE
from tests.proof.pretended_gpu import PretendedGpu

TWO_TESTS = "def test_one():\n    assert True\n\ndef test_two():\n    assert {}\n"


def run_tests(folder: Path, machine: str = "this one") -> tuple[int, str]:
    words = ("-q", "-p", "tests.proof.passed", f"--passed={folder / 'passed.jsonl'}")
    more = ("-p", "no:cacheprovider", f"--rootdir={folder}", str(folder / "test_two.py"))
    command = [sys.executable, "-m", "pytest", *words, *more]
    around = {**os.environ, MACHINE: machine}
    done = subprocess.run(command, cwd=ROOT, env=around, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_tests_that_passed_are_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_two.py").write_text(TWO_TESTS.format(False))
    status, told = run_tests(tmp_path)
    assert (status, "1 failed, 1 passed" in told) == (1, True), told
    (tmp_path / "test_two.py").write_text(TWO_TESTS.format(True))
    status, told = run_tests(tmp_path)
    assert (status, "1 passed, 1 deselected" in told) == (0, True), told
    status, told = run_tests(tmp_path)
    assert (status, "2 deselected" in told) == (0, True), told
    assert "2 passed" in run_tests(tmp_path, "another one")[1]


def test_requirements_are_those_of_the_project_without_torch() -> None:
    names = set(map(wheels.name_of, wheels.requirements()))
    assert {"hydra-core", "pyarrow", "pandas", "pytest", "pytest-benchmark", "nvidia-ml-py"} < names
    assert "torch" not in names
    assert wheels.name_of("PyYAML >=6 ; python_version") == "pyyaml"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What pip would be asked."""
    asked: list[list[str]] = []
    monkeypatch.setattr(wheels, "_pip", lambda *words, **_: asked.append([*words]))
    return asked


def test_wheels_are_fetched_for_the_other_python(asked: list[list[str]], tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / "small.whl").touch()
    with (folder / "big.whl").open("wb") as file:
        file.truncate(wheels.LARGE_BYTES + 1)
    wheels.fetch(folder)
    wheels.check(folder)
    assert [words[0] for words in asked] == ["wheel", "download", "download"]
    for words in asked[1:]:
        assert words[words.index("--python-version") + 1] == "3.12"
        assert "manylinux_2_28_x86_64" in words
        assert set(wheels.requirements()) < set(words)
    assert "--no-index" in asked[2]
    assert [file.name for file in folder.glob("*.whl")] == ["small.whl"]
    assert [file.name for file in wheels.large(folder).glob("*.whl")] == ["big.whl"]


def wheel_of(name: str, python: str, folder: Path) -> None:
    """A wheel without code for that Python and later ones."""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Python: >={python}\n"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", metadata)
        wheel.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")


def test_wheels_are_checked_for_the_other_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "requirements", lambda: ["newer"])
    wheel_of("newer", "3.99", tmp_path)
    with pytest.raises(subprocess.CalledProcessError):
        wheels.check(tmp_path)
    monkeypatch.setattr(wheels, "PYTHON", "3.99")
    wheels.check(tmp_path)


def test_an_environment_shares_the_packages_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wheels").mkdir()
    with pytest.raises(UsageError, match="holds no wheels"):
        wheels.environment(tmp_path / "wheels", tmp_path / "env")
    (tmp_path / "wheels" / "none-1.0-py3-none-any.whl").touch()
    monkeypatch.setattr(wheels, "requirements", lambda: ["pytest>=9"])
    python = wheels.environment(tmp_path / "wheels", tmp_path / "env")
    code = "import pytest, sys; print(sys.prefix)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).samefile(tmp_path / "env")

    def never(*words: str, **named: str) -> None:
        raise AssertionError("it is there already")

    monkeypatch.setattr(wheels, "_pip", never)
    assert wheels.environment(tmp_path / "wheels", tmp_path / "env") == python


def test_a_requirement_without_a_wheel_is_named(
    tmp_path: Path, asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "none-1.0-py3-none-any.whl").touch()

    def fails(*words: str, **named: str) -> None:
        raise subprocess.CalledProcessError(1, "pip")

    monkeypatch.setattr(wheels, "_pip", fails)
    with pytest.raises(UsageError, match=r"could not install .* for Python 3\.12"):
        wheels.environment(tmp_path, tmp_path / "env")


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A proof with rows of two studies, two traces of one mode, and a page."""
    traced = (record("cuda-graph", trace="big.gz"), record("cuda-graph", trace="small.gz"))
    save([*traced, record("compile", trace="other.gz")], tmp_path / "main")
    save([record("compile")], tmp_path / "dispatch")
    for name, size in (("big.gz", 50), ("small.gz", 5), ("other.gz", 1)):
        (tmp_path / "main" / "traces").mkdir(exist_ok=True)
        (tmp_path / "main" / "traces" / name).write_bytes(b"0" * size)
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "page.md").touch()
    return tmp_path


def kept(folder: Path) -> dict[str, int]:
    """How many files of each folder below reference/ are kept."""
    files = [file for file in (folder / "reference").rglob("*") if file.is_file()]
    folders = [str(file.parent.relative_to(folder / "reference")) for file in files]
    return {each: folders.count(each) for each in folders}


def test_rows_pages_and_small_traces_are_kept(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reference.main([str(measured)]) == 0
    assert kept(measured) == {"runs": 3, "dispatch/runs": 1, "facts": 1, "traces": 1}
    assert (measured / "reference" / "traces" / "small.gz").exists()
    assert "results/reference/" in capsys.readouterr().out


def test_rows_that_find_no_room_are_told(
    measured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = [file.stat().st_size for file in (measured / "main" / "runs").glob("*.parquet")]
    monkeypatch.setattr(reference, "ROWS_MAX_BYTES", sum(sizes))
    assert reference.main([str(measured)]) == 0
    assert "left out of dispatch/runs: 1 files of rows" in capsys.readouterr().out
    assert "dispatch/runs" not in kept(measured)


def test_nothing_is_kept_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main([str(tmp_path)]) == 1
    assert "has no rows" in capsys.readouterr().err


def test_a_pretended_gpu_can_be_held_and_timed() -> None:
    gpu = PretendedGpu()
    begin = gpu.mark()
    gpu.hold(0.02)
    end = gpu.mark()
    assert not end.reached()
    gpu.synchronize()
    assert end.reached()
    assert end.seconds_since(begin) == pytest.approx(0.02, rel=0.1)
    timing = timers.device_time(lambda: gpu.hold(1e-3), gpu, 5)
    assert timing.median_s == pytest.approx(1e-3, rel=0.2)


@pytest.mark.full
def test_a_pretended_gpu_is_found_by_name() -> None:
    code = "from modescope.bench.devices.cuda import find; print(find('cuda').facts(), find('cpu'))"
    path = os.pathsep.join([str(ROOT / "tests/proof/pretended"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "type='cuda', name='a pretended GPU'" in done.stdout
    assert "devices.Cpu object" in done.stdout


def test_a_fact_that_raises_is_a_row() -> None:
    def breaks(place: Place) -> object:
        raise RuntimeError("no such thing")

    (row,) = facts.rows(breaks, Place(PretendedGpu(), "cuda"))  # type: ignore[arg-type]
    assert (row.holds, row.found) == (False, "raised: RuntimeError: no such thing")
    gate = [
        row for fact in facts.GROUPS["gate"] for row in facts.rows(fact, Place(PretendedGpu(), ""))
    ]
    assert [row.holds for row in gate[:4]] == [True] * 4


def test_a_statement_about_torch_is_reported_only() -> None:
    row = told("it waits", False, "it does not")
    assert (row.holds, row.found) == (None, "REFUTED: it does not")
    assert replace(row, found="") != row
