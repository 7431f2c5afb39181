"""A user's own packages named models, bench, analysis and conf work, and replace none of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.commands import TINY, rows
from tests.helpers.paths import ROOT

pytestmark = pytest.mark.full


def test_a_users_packages_do_not_replace_ours(tmp_path: Path) -> None:
    """Nor does another modescope, such as one that is installed."""
    for name in ("bench", "models", "analysis", "conf", "tests", "modescope"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('planted {name}')")
    (tmp_path / "run.py").write_text("raise SystemExit('planted run')")
    words = (f"results_dir={tmp_path / 'results'}", *TINY, "-m", "mode=no_grad")
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, str(ROOT / "run.py"), *words]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    told = [line for line in done.stderr.splitlines() if "machine is busy" not in line]
    assert (done.returncode, told) == (0, [])
    assert [row["status"] for row in rows(tmp_path / "results")] == ["ok"]


# A script without a `__main__` guard, beside packages of its own

SCRIPT = """
import os
import sys

os.makedirs("elsewhere", exist_ok=True)
os.chdir("elsewhere")  # packages beside the script are found all the same

import torch
from torch import nn

import bench
import models.net
import modescope

torch.manual_seed(0)
print("started")
FACTOR = 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16)
        self.part = models.net.Part()

    def forward(self, x):
        # torch.compile looks names of a function up in the module that it says it belongs to
        assert Net.forward.__globals__ is vars(sys.modules["__main__"])
        return self.part(self.inner(x)) * FACTOR * bench.FACTOR


net, x = Net(), torch.randn(4, 16)

def compare():
    result = modescope.compare(
        net, x, modes="eager", budget="smoke", study="mine",
        overrides=["profile=false", "memory=false", "compile_cache=warm"],
    )
    print(*result.frame["status"], *result.frame["model"], repr(result).splitlines()[-1])

compare()
if "edit" in sys.argv:
    with open(models.net.__file__, "a") as file:
        file.write("# edited")
    compare()
"""

PART = """
from torch import nn

class Part(nn.Module):
    def forward(self, x):
        return x + 1
"""


def test_a_class_of_the_script_is_measured_and_reused_when_it_runs_again(tmp_path: Path) -> None:
    for file, text in (
        ("script.py", SCRIPT),
        ("models/net.py", PART),
        ("bench/__init__.py", "FACTOR = 2"),
    ):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "modescope").symlink_to(ROOT / "modescope")

    def run(*arguments: str) -> tuple[list[str], str]:
        done = subprocess.run(
            [sys.executable, "script.py", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines(), done.stderr

    assert run()[0] == ["started", "ok Net study: results/mine"]
    assert (tmp_path / "elsewhere/results/mine/rows").is_dir()
    shown, said = run("edit")
    assert shown == ["started", *["ok Net study: results/mine"] * 2]
    reused, again = (said.find(text) for text in ("reusing 1 of 1", "measuring 1 again"))
    assert 0 <= reused < again
