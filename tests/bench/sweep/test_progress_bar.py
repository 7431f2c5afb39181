"""The bar of a sweep."""

from __future__ import annotations

from modescope.bench.sweep.progress_bar import named, progress_bar


def test_the_bar_names_what_is_measured_and_its_phase() -> None:
    with progress_bar(3, "case") as bar:
        on_phase = named(bar, "mlp batch=4 eager fp32")
        on_phase("first call")
        on_phase("timing")
        assert bar.total == 3
        assert bar.desc.startswith("mlp batch=4 eager fp32: timing")
