"""Which edits make earlier rows incomparable, and which releases of torch are untested."""

from __future__ import annotations

import json
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.records.environment import Environment
from modescope.bench.sweep import fingerprint
from modescope.bench.sweep.fingerprint import environment_id, source_id, untested_warning
from tests.helpers.made_up_records import part
from tests.helpers.paths import ROOT

COUNTS = {
    "bench/timing/timers.py": True,
    "bench/passes/profiler/capture.py": True,
    "bench/records/cpu.py": True,
    "bench/records/columns/timing.py": False,
    "bench/sweep/isolation.py": True,
    "bench/sweep/sweep.py": False,
    "bench/tools/claims/views.py": False,
}


def test_an_edit_of_measuring_code_changes_the_fingerprint(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "bench", tmp_path / "bench")
    assert source_id(tmp_path) == source_id()
    changes = {}
    for name in COUNTS:
        before = source_id(tmp_path)
        with (tmp_path / name).open("a") as edited:
            edited.write("\nREMARK = 1\n")
        changes[name] = source_id(tmp_path) != before
    assert changes == COUNTS


GPU = part(Environment, device_name="NVIDIA H100", cpu_name="AMD EPYC 9554")


def test_rows_of_a_gpu_are_comparable_on_equal_machines() -> None:
    def comparable(**changes: object) -> bool:
        return environment_id(replace(GPU, **changes)) == environment_id(GPU)

    assert comparable(host="another", gpu_uuid="GPU-another", load_1min=3.0)
    assert not comparable(cpu_name="Intel Xeon 8480")  # it dispatches and launches
    assert not comparable(device_name="NVIDIA A100")


def test_only_variables_that_change_torch_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor sets one in a notebook that compiles for a GPU (compile_tasks.py)."""
    recorded = {"TORCH_LOGS", "OMP_NUM_THREADS", "ATEN_CPU_CAPABILITY", "LD_PRELOAD"}
    for name in {*recorded, "CUDA_VISIBLE_DEVICES", "TORCH_HOME", "MY_SECRET"}:
        monkeypatch.setenv(name, "1")
    for place, own in (("/v/lib/python3.12/site-packages/torch", False), ("/usr/cuda", True)):
        monkeypatch.setenv("TRITON_PTXAS_PATH", f"{place}/bin/ptxas")
        kept = {*json.loads(fingerprint.variables())}
        assert recorded <= kept
        assert not {"MY_SECRET", "PATH", "CUDA_VISIBLE_DEVICES", "TORCH_HOME"} & kept
        assert ("TRITON_PTXAS_PATH" in kept) is own


@pytest.mark.parametrize(
    ("version", "warned"),
    [
        *((version, False) for version in ("2.11.0+cpu", "2.15.9.dev20261122")),
        *((version, True) for version in ("2.10.1", "2.16.0a0+git1", "3", None)),
    ],
)
def test_an_untested_torch_has_a_warning_of_one_line(version: str | None, warned: bool) -> None:
    line = untested_warning(version)
    assert (line is not None) == warned
    assert "\n" not in (line or "")


def test_the_tested_releases_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest, newest = (".".join(map(str, each)) for each in (fingerprint.OLDEST, fingerprint.NEWEST))
    assert f"torch>={oldest}" in project["dependencies"]
    assert f"{oldest} to {newest} are tested" in (ROOT / "README.md").read_text(encoding="utf-8")
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    (pin,) = [line.removeprefix("torch==") for line in lines if line.startswith("torch==")]
    assert untested_warning(pin) is None
