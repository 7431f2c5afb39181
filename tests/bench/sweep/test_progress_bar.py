"""The bar of a sweep."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from modescope.bench.sweep.progress_bar import advance, describe, progress_bar, show


def test_the_bar_names_what_is_measured_and_its_phase() -> None:
    with progress_bar(3, "case") as bar:
        on_phase = describe(bar, "mlp batch=4 eager fp32")
        on_phase("first call")
        on_phase("timing")
        assert bar.total == 3
        assert bar.desc.startswith("mlp batch=4 eager fp32: timing")


def test_a_bar_is_shown_in_a_notebook_whose_stderr_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with show(True), progress_bar(3, "case") as bar:
        assert bar.disable
    shell = SimpleNamespace(kernel=None, config={})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    with show(True), progress_bar(3, "case") as bar:
        assert not bar.disable
    assert "0/3" in capsys.readouterr().err
    with show(False), progress_bar(3, "case") as bar:
        assert bar.disable
    with progress_bar(3, "case") as bar:
        assert bar.disable


@pytest.mark.parametrize(("wanted", "lines"), [(None, 2), (True, 2), (False, 0)])
def test_where_no_bar_can_be_shown_there_are_lines_unless_nobody_wants_any(
    capsys: pytest.CaptureFixture[str], wanted: bool | None, lines: int
) -> None:
    with nullcontext() if wanted is None else show(wanted), progress_bar(2, "case") as bar:
        for number in (1, 2):
            advance(bar, number, "compile fp32: faster, 12 s")
    answer = capsys.readouterr()
    assert answer.err.splitlines() == [f"{n}/2  compile fp32: faster, 12 s" for n in (1, 2)][:lines]
    assert answer.out == ""
