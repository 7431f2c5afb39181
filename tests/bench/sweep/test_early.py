"""Which command lines start the forkserver before they are composed."""

from __future__ import annotations

import pytest

from modescope.bench.modes import backends
from modescope.bench.records.paths import CONF
from modescope.bench.sweep import early
from tests.helpers import composing

MODES = sorted(
    str(file.relative_to(CONF / "mode").with_suffix("")) for file in CONF.glob("mode/**/*.yaml")
)


@pytest.mark.parametrize(
    ("words", "compiler"),
    [
        ([], True),
        (["mode=eager"], False),
        (["-m", "mode=eager,no_grad", "model=mlp", "shape.batch=1,8", "budget=smoke"], False),
        (["mode=eager,compile", "-m"], True),
        (["mode=aoti"], None),
        (["mode=complie"], None),
        (["mode="], None),
        (["mode=eager", "mode.compile=default"], None),
        (["mode=eager", "baseline.mode=compile"], None),
        (["mode=eager", "phase=train"], None),
        (["mode=eager", "cluster=slurm"], None),
        (["experiment=modes"], None),
        (["mode=eager", "--help"], None),
        (["--mode", "eager"], None),
        (["eager"], None),
    ],
)
def test_only_a_plain_command_line_tells_whether_it_compiles(
    words: list[str], compiler: bool | None
) -> None:
    assert early.needs_compiler(words) is compiler


def test_what_is_told_of_a_mode_is_so() -> None:
    told = {name: early.needs_compiler([f"mode={name}"]) for name in MODES}
    known = {name: tells for name, tells in told.items() if tells is not None}
    modes = {name: composing.requests([f"mode={name}"])[0].settings.mode.mode() for name in known}
    assert known == {name: backends.compiles_here(mode) for name, mode in modes.items()}
    assert {*told} - {*known} == {"aoti", "bf16/aoti"}
