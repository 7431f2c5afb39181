"""Colours and marks of a page: readable for everyone, and the same everywhere."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from modescope.analysis.format import style
from modescope.analysis.report import render
from modescope.analysis.rows.type import Row
from tests.helpers.paths import CONF
from tests.helpers.rows import row_with
from tests.helpers.studies import MODES

TEXT, GRAPHICS = 4.5, 3.0  # least contrasts of WCAG 2.2, level AA (1.4.3 and 1.4.11)

_CSS = (
    resources.files("modescope.analysis.report")
    .joinpath("templates/page/page.css")
    .read_text("utf-8")
)
_BLOCKS = re.findall(r":root \{([^}]*)\}", _CSS)
PALETTES = {
    name: dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
    for name, block in zip(("light", "dark"), _BLOCKS, strict=True)
}


def _luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", PALETTES)
def test_text_and_marks_stand_out_from_what_they_are_on(palette: str) -> None:
    colours = PALETTES[palette]
    for paper in ("paper", "raised", "note"):
        for text in ("ink", "faded", "link"):
            assert _contrast(colours[text], colours[paper]) >= TEXT, (text, paper)
    for paper in ("paper", "raised"):
        for family in style.FAMILIES:
            assert _contrast(family.colour, colours[paper]) >= GRAPHICS, family.name


def row(mode: str) -> Row:
    _, autocast, compiled, graph = MODES[mode]
    columns = {
        "mode": mode,
        "autocast": autocast,
        "compile_mode": compiled,
        "graph": graph,
        "quantize": None,
    }
    return row_with(columns)


def test_no_two_modes_that_come_with_modescope_share_a_marker() -> None:
    presets = {path.stem for path in (CONF / "mode").rglob("*.yaml")}
    held = [style.MARKERS[preset] for preset in sorted({*presets, "padded"})]
    assert len({*held}) == len(held)
    assert style.OTHER_MARKER not in held
    assert {*style.MARKERS} == {*presets, "padded"}
    assert {*style.CHARACTERS} == {*held, style.OTHER_MARKER}
    assert len({*style.CHARACTERS.values()}) == len(style.CHARACTERS)
    static = row_with(row("compile"), mode="compile-static")
    padded = row_with(static, calls_pad='{"seq":[8]}')
    assert style.marker(static) != style.marker(padded)


def test_a_mark_of_its_own_for_each_mode_in_figures_pages_and_text() -> None:
    looks = [render.glyph(row(mode)) for mode in MODES]
    assert len({look.symbol for look in looks}) == len({look.character for look in looks})
    assert len({render.symbols()[look.symbol] for look in looks}) == len(MODES)
    few = render.glyph(row_with(row("compile"), quantize="int8-dynamic"))
    assert len({look.colour for look in (*looks, few)}) == len(style.FAMILIES)
    overridden = row_with(row("eager"), mode="eager[autocast=true]", autocast=True)
    assert style.family(overridden) is style.AMP
    assert style.marker(overridden) == style.MARKERS["eager"]
    look = render.glyph(row("compile"))
    assert render.colours()[look.colour] == style.COMPILE.colour
    assert (look.character, render.symbols()[look.symbol]) == ("▼", "M0 1L1 -1L-1 -1Z")
