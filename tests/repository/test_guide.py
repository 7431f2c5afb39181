"""docs/how-to-read-a-report.md explains every figure, flag and part that a report may have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.figures.registry import FIGURES
from modescope.analysis.report.report import GUIDE
from modescope.analysis.report.sections import PARTS, Part
from modescope.analysis.rows.flags import FLAGS

TEXT = GUIDE.read_text(encoding="utf-8")
_SECTIONS = re.split(r"^(#{2,3}) (.+)\n", TEXT, flags=re.M)
BENEATH = dict(zip(_SECTIONS[2::3], _SECTIONS[3::3], strict=True))
OWN_WORDS = {"terms"}  # the part of a report that is the short form of the guide itself


@pytest.mark.parametrize("kind", FIGURES, ids=lambda kind: kind.name)
def test_every_figure_is_explained_with_a_picture(kind: FigureKind[Any]) -> None:
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", BENEATH[kind.title])
    assert Path(picture).name.startswith(kind.name)
    assert len(BENEATH[kind.title].split()) > 40


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_is_explained(flag: str) -> None:
    assert len(BENEATH[flag].split()) > 15


def test_only_existing_flags_are_explained() -> None:
    told = set(re.findall(r"^### ([a-z]+_[a-z_]+)$", TEXT, flags=re.M))
    assert told <= set(FLAGS)


@pytest.mark.parametrize("part", [part for part in PARTS if part.name not in OWN_WORDS])
def test_every_part_of_a_report_is_explained(part: Part) -> None:
    assert part.title in BENEATH


def test_figures_of_the_guide_are_small() -> None:
    assert all(path.stat().st_size < 60_000 for path in (GUIDE.parent / "figures").iterdir())
