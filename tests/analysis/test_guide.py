"""docs/how-to-read-a-report.md explains every figure, flag and part that a report may have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analysis import pictures
from analysis.flags import FLAGS
from analysis.page.parts import PARTS, Part
from analysis.report import GUIDE

TEXT = GUIDE.read_text(encoding="utf-8")
_SECTIONS = re.split(r"^(#{2,3}) (.+)\n", TEXT, flags=re.M)
BENEATH = dict(zip(_SECTIONS[2::3], _SECTIONS[3::3], strict=True))
LINKS = [link for link in re.findall(r"\]\(([^)#]+)\)", TEXT) if "://" not in link]
OWN_WORDS = {"terms"}  # the part of a report that is the short form of the guide itself


@pytest.mark.parametrize("kind", pictures.KINDS, ids=lambda kind: kind.name)
def test_every_figure_is_explained_on_a_picture_of_it(kind: pictures.Kind) -> None:
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", BENEATH[kind.title])
    assert Path(picture).name.startswith(kind.name)
    assert len(BENEATH[kind.title].split()) > 40


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_is_explained(flag: str) -> None:
    assert len(BENEATH[flag].split()) > 15


def test_no_flag_is_explained_that_is_gone() -> None:
    told = set(re.findall(r"^### ([a-z]+_[a-z_]+)$", TEXT, flags=re.M))
    assert told <= set(FLAGS)


@pytest.mark.parametrize("part", [part for part in PARTS if part.name not in OWN_WORDS])
def test_every_part_of_a_report_is_explained(part: Part) -> None:
    assert part.title in BENEATH


@pytest.mark.parametrize("link", LINKS)
def test_every_link_leads_somewhere(link: str) -> None:
    assert (GUIDE.parent / link).exists()


def test_figures_of_the_guide_are_small() -> None:
    assert all(path.stat().st_size < 60_000 for path in (GUIDE.parent / "figures").iterdir())
