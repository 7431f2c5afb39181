"""Colours and marks of a page: readable for everyone, and the same everywhere."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from modescope.analysis.format import style
from modescope.analysis.report import render
from modescope.analysis.report.report import PARTS

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


def test_contrasts_are_computed_as_wcag_does() -> None:
    assert _contrast("#000000", "#ffffff") == pytest.approx(21)
    assert _contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("text", ["ink", "faded", "link"])
@pytest.mark.parametrize("paper", ["paper", "raised", "note"])
def test_text_stands_out_from_what_it_is_on(palette: str, text: str, paper: str) -> None:
    colours = PALETTES[palette]
    assert _contrast(colours[text], colours[paper]) >= TEXT


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("paper", ["paper", "raised"])
def test_marks_stand_out_from_what_they_are_on(palette: str, paper: str) -> None:
    for family in style.FAMILIES:
        assert _contrast(family.colour, PALETTES[palette][paper]) >= GRAPHICS, family.name


def test_a_mark_of_its_own_for_each_mode_in_figures_pages_and_text() -> None:
    markers = [*style.MARKERS.values(), style.OTHER_MARKER]
    assert set(markers) == set(style.CHARACTERS)
    assert len(set(style.CHARACTERS.values())) == len(markers)
    outlines = render.symbols()
    assert len(set(outlines.values())) == len(markers)
    row = {"mode": "compile", "autocast": False, "compile_mode": "default", "graph": False}
    look = render.glyph(row)
    assert render.colours()[look.colour] == style.COMPILE.colour
    assert look.character == "▼"
    assert outlines[look.symbol] == "M0 1L1 -1L-1 -1Z"


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_a_template_for_both_pages(part: str) -> None:
    folder = resources.files("modescope.analysis.report").joinpath("templates")
    assert folder.joinpath(f"page/{part}.html.j2").is_file()
    assert folder.joinpath(f"markdown/{part}.md.j2").is_file()
