"""The bar of a sweep."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from modescope.bench.sweep.progress_bar import named, progress_bar, shown


def test_the_bar_names_what_is_measured_and_its_phase() -> None:
    with progress_bar(3, "case") as bar:
        on_phase = named(bar, "mlp batch=4 eager fp32")
        on_phase("first call")
        on_phase("timing")
        assert bar.total == 3
        assert bar.desc.startswith("mlp batch=4 eager fp32: timing")


def test_a_bar_is_shown_in_a_notebook_whose_stderr_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with shown(True), progress_bar(3, "case") as bar:
        assert bar.disable
    shell = SimpleNamespace(kernel=None, config={})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    with shown(True), progress_bar(3, "case") as bar:
        assert not bar.disable
    assert "0/3" in capsys.readouterr().err
    with shown(False), progress_bar(3, "case") as bar:
        assert bar.disable
    with progress_bar(3, "case") as bar:
        assert bar.disable
