"""Every mode has a look of its own, by what it does."""

from __future__ import annotations

from modescope.analysis.format import style
from tests.helpers.studies import MODES


def test_every_mode_has_a_look_of_its_own() -> None:
    rows = [
        {"mode": mode, "autocast": autocast, "compile_mode": compiled, "graph": graph}
        for mode, (_, autocast, compiled, graph) in MODES.items()
    ]
    assert len({style.marker(row) for row in rows}) == len(MODES)
    families = {row["mode"]: style.family(row).name for row in rows}
    assert families["no_grad"] == families["inference_mode"] == "eager"
    assert families["amp-compile"] == families["max-autotune-no-cudagraphs"] == "compile"
    assert families["reduce-overhead"] == families["compile-cuda-graph"] == "compile + graphs"
    assert families["cuda-graph"] == "cuda-graph"


def test_an_overridden_preset_is_shown_as_what_it_is() -> None:
    row = {"mode": "eager[autocast=true]", "autocast": True, "compile_mode": "none", "graph": False}
    assert style.family(row) is style.AMP
    assert style.marker(row) == style.MARKERS["eager"]
