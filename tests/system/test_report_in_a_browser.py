"""The page of a report in a real browser, as a reader uses it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from modescope.analysis.figures.registry import OF_DATA, OF_GRIDS, OF_SECTION, OF_SERIES
from modescope.analysis.report import report
from modescope.bench.records.cases import canonical_json
from modescope.bench.records.results import Record
from tests.helpers.browser_tab import DESKTOPS, PHONE, Tab
from tests.helpers.cause_worlds.compiler import VARIED
from tests.helpers.pass_columns import cpu_passes, cuda_passes, cuda_training, memory, profiled
from tests.helpers.studies import (
    MODES,
    batch_series,
    cpu_clocks,
    cpu_sweep,
    dispatch_series,
    not_measured,
    record,
    save,
    stepped,
)

LONG: dict[str, Any] = {
    "model_args": canonical_json({"hidden": "x" * 300, "script": "<script>alert(1)</script>"})
}
ROWS = "#table tbody tr:not(.heading)"
MOST_BYTES = 1_500_000  # of the page of `make run`, which has two works of eleven modes


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every kind of figure, and names that would break a narrow page."""
    records = [
        *cpu_passes(),
        *cuda_passes(),
        *cpu_sweep("mlp"),
        *batch_series(),
        *dispatch_series(),
        record("compile", model="custom:a_package.of_mine:" + "build" * 20, **LONG),
        not_measured("eager", "failed", f"<script>alert(2)</script> {'reason' * 60}", **LONG),
        *_with_every_column("flagged"),
        *_with_long_names(f"custom:{'a_package_with_a_long_name.' * 3}net:build"),
        *cuda_training(),
        *_of_further_figures(),
    ]
    return report.write(save(records, tmp_path_factory.mktemp("results") / "study"))


def _of_further_figures() -> list[Record]:
    """Rows of the figures that need an axis, a cache, a pass or sizes of their own."""
    own: dict[str, Any] = {"axes": '{"kernels":"mine"}', "kernel_use": "called"}
    few: dict[str, Any] = {"axes": '{"quantize":"int8-dynamic"}', "quantize": "int8-dynamic"}
    latencies_s = {"eager": 100e-6, "autograd": 80e-6, "code": 30e-6, "entry": 60e-6,
                   "guards": 60e-6, "again": 61e-6}  # fmt: skip
    started: dict[str, Any] = {
        "starts_s": (2.0, 2.1, 2.2), "baseline_starts_s": (1.0,) * 3,
        "start_phases_s": '[{"import": 1.0, "probe": 0.5, "run": 0.3}]',
    }  # fmt: skip
    widths = [(canonical_json({"width": 4**n}), 1 + n / 4) for n in range(4, 8)]
    return [
        record("eager", 800e-6, 1.0, model="own", eager_bytes=8_000_000),
        record("compile[kernels=mine]", 600e-6, 4 / 3, model="own", bytes_accessed=3e6, **own),
        record("compile", 60e-6, 1.6, model="steps", **stepped(spread=1e-4, **latencies_s)),
        record("compile", model="cold", speedup=2.0),
        record("compile", model="cold", speedup=1.5, data="cold_weights", evicted_bytes=2**22),
        record("compile", model="starts", compile_cache="cold", **started),
        record("eager", model="calls", speedup=1.0),
        record("compile", model="calls", speedup=1.2, **VARIED),
        *(record("compile", model="bits", shape=shape, speedup=1.2) for shape, _ in widths),
        *(record("compile[quantize=int8-dynamic]", model="bits", shape=shape, speedup=1.2 * gain,
                 **few) for shape, gain in widths),
    ]  # fmt: skip


def test_the_page_has_every_kind_of_figure(page: Path) -> None:
    text = page.read_text()
    kinds = (*OF_SECTION, *OF_DATA, *OF_GRIDS, *OF_SERIES)
    assert [kind.name for kind in kinds if f'"{kind.title}: ' not in text] == []


def _with_every_column(model: str) -> list[Record]:
    """Rows that differ in baseline, budget and cache, with long remarks and graph breaks."""
    flags = ("drift", "contended", "autocorrelated", "order_effect")
    broken = canonical_json([{"place": "a_package/of_mine/net.py:12", "reason": "builtin print"}])
    return [
        record("amp", flags=flags, model=model),
        record("max-autotune-no-cudagraphs", model=model, fullgraph=False, graph_breaks=1,
               graph_break_reasons=broken, eager_functions='["Net.forward"]'),
        record("compile", model=model, baseline_mode="max-autotune-no-cudagraphs",
               budget="quick", compile_cache="warm"),
    ]  # fmt: skip


def _with_long_names(model: str) -> list[Record]:
    """Every mode, with options in its name and with large numbers."""
    override = "[autocast=true,compile=max-autotune,grad=inference_mode,graph=true]"
    passes = profiled(12_345, 1e-3) | memory(123_456_789, 12_345_678, 1_234)
    return [
        record(f"{mode}{override}", 1e-3, 1 + number / 7, model=model, **cpu_clocks(1e-3, 5e-4),
               **passes)
        for number, mode in enumerate(MODES)
    ]  # fmt: skip


@pytest.fixture
def opened(tab: Tab, page: Path) -> Tab:
    tab.open(page)
    return tab


def _columns(tab: Tab, title: str) -> dict[str, list[str]]:
    """The shown cells of a column under each shown heading, by the start of the column's title.

    A row whose reason covers the column has no cell there.
    """
    works: dict[str, list[str]] = tab.js(
        """
        const heads = [...document.querySelectorAll("#table thead th")];
        const place = heads.findIndex((head) => head.textContent.startsWith(arguments[0]));
        const shown = (row) => row.checkVisibility();
        const cells = (rows) => rows.filter(shown).map((row) => row.cells[place])
          .filter((cell) => cell && cell.colSpan === 1).map((cell) => cell.textContent);
        return Object.fromEntries([...document.querySelectorAll("#table tbody")]
          .map(({rows: [heading, ...rows]}) => [heading, rows])
          .filter(([heading]) => shown(heading))
          .map(([heading, rows]) => [heading.textContent, cells(rows)]));
        """,
        title,
    )
    return works


def _button(tab: Tab, title: str) -> Any:
    heads = [head for head in tab.all("#table thead th") if head.text.startswith(title)]
    return heads[0].find_element("css selector", "button"), heads[0]


def test_rows_are_sorted_by_numbers_both_ways_within_their_works(opened: Tab) -> None:
    """Unknown values come last."""
    (head,) = (each for each in opened.all("#table thead th") if each.text.startswith("same grad"))
    before = _columns(opened, "same grad")
    assert head.get_attribute("aria-sort") == "none"
    for direction in ("ascending", "descending"):
        head.find_element("css selector", "button").click()
        assert head.get_attribute("aria-sort") == direction
        works = _columns(opened, "same grad")
        assert list(works) == list(before)
        for heading, cells in works.items():
            assert sorted(cells) == sorted(before[heading])
            known = [float(text.partition("×")[0]) for text in cells if text != "–"]
            assert known == sorted(known, reverse=direction == "descending")
            assert set(cells[len(known) :]) <= {"–"}
    assert max(map(len, before.values())) > len(MODES) / 2
    assert any("–" in cells for cells in before.values())


def test_rows_are_filtered_by_choices_by_text_and_by_their_headings(opened: Tab) -> None:
    whole = len(opened.shown(ROWS))
    choice = Select(opened.one(".filters select[name=verdict]"))
    choice.select_by_visible_text("skipped")
    shown = opened.shown(ROWS)
    assert shown
    assert all("skipped" in str(row.get_attribute("class")).split() for row in shown)
    count = opened.one(".filters output")
    assert count.text == f"{len(opened.shown(ROWS))} of {whole} rows"
    choice.select_by_visible_text("all")
    words = opened.one(".filters input[name=words]")
    words.send_keys("MLP compile faster")
    assert list(_columns(opened, "mode").values()) == [["compile"]]
    words.clear()
    words.send_keys("nothing has this")
    assert _columns(opened, "mode") == {}
    assert count.text == f"0 of {whole} rows"
    words.clear()
    words.send_keys(Keys.SPACE)
    Select(opened.one(".filters select[name=model]")).select_by_visible_text("pointwise")
    assert {name.partition(",")[0] for name in _columns(opened, "mode")} == {"pointwise"}


def test_headings_anchors_and_labels_are_well_formed(opened: Tab) -> None:
    headings, unlabelled, twice, dead = opened.js(
        """
        const every = (selector) => [...document.querySelectorAll(selector)];
        const ids = every("[id]").map((one) => one.id);
        return [
          every("h1, h2, h3, h4, h5, h6").map((one) => Number(one.tagName[1])),
          every("th:not([scope]), figure:not(:has([role=img][aria-label]))").length,
          ids.filter((one, place) => ids.indexOf(one) < place),
          every("a[href^='#']").map((one) => one.hash.slice(1)).filter((one) => !ids.includes(one)),
        ];
        """
    )
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(headings))
    assert (unlabelled, twice, dead) == (0, [], [])
    assert [len(opened.all(part)) for part in ("main", "header", "nav")] == [1, 1, 1]


@pytest.mark.parametrize("width", [PHONE, *DESKTOPS])
def test_nothing_is_wider_than_the_screen(opened: Tab, width: int) -> None:
    """On a desktop no table scrolls inside itself either."""
    opened.resize(width)
    for unfolded in (False, True):
        opened.js(
            "document.querySelectorAll('details').forEach((one) => { one.open = arguments[0] })",
            unfolded,
        )
        beyond = opened.js(
            """
            return [...document.body.querySelectorAll("*")]
              .filter((one) => !one.closest(".scroll *, .drawing *, .skip, .symbols, option"))
              .filter((one) => one.getClientRects().length)
              .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
              .map((one) => one.outerHTML.slice(0, 120));
            """
        )
        assert beyond == []
        assert opened.js("return document.documentElement.scrollWidth") <= width
    cut = opened.js(
        """
        return [...document.querySelectorAll(".scroll, .scroll td, .scroll th")]
          .filter((one) => one.scrollWidth > one.clientWidth + 1)
          .map((one) => [one.getAttribute("aria-label"), one.textContent.slice(0, 80)])
        """
    )
    assert width == PHONE or cut == []


HEADING = "return document.querySelector('#table .heading div').getBoundingClientRect()"


def test_a_phone_shows_mode_verdict_and_speedup_before_scrolling(opened: Tab) -> None:
    opened.resize(PHONE)
    box = opened.one("[aria-label='All rows']")
    shown = opened.js(
        """
        const right = arguments[0].getBoundingClientRect().right;
        return [...document.querySelectorAll("#table thead th")]
          .filter((head) => head.getBoundingClientRect().right <= right)
          .filter((head) => head.getClientRects().length).map((head) => head.textContent)
        """,
        box,
    )
    assert shown == ["mode", "verdict", "speedup [95 %]"]
    heading = opened.js(HEADING)
    opened.js("arguments[0].scrollLeft = 10000", box)
    assert opened.js("return arguments[0].scrollLeft > 0", box)
    assert heading["right"] <= PHONE
    assert heading == opened.js(HEADING)


@pytest.mark.parametrize("width", [PHONE, DESKTOPS[-1]])
def test_no_text_of_a_figure_is_clipped_or_covers_another(opened: Tab, width: int) -> None:
    opened.resize(width)
    faults = opened.js(
        """
        const faults = [], inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 &&
          a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
        const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
          Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
        document.querySelectorAll("figure svg").forEach((svg) => {
          const frame = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll("text")];
          const boxes = texts.map((text) => text.getBoundingClientRect());
          texts.forEach((text, n) => {
            if (!inside(boxes[n], frame)) faults.push(["clipped", text.textContent]);
            for (let m = 0; m < n; m++)
              if (meet(boxes[n], boxes[m])) faults.push([texts[m].textContent, text.textContent]);
          });
        });
        return faults;
        """
    )
    assert faults == []


def test_a_phone_has_the_whole_of_every_figure(opened: Tab) -> None:
    cut = "return arguments[0].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    for width, is_narrow in ((PHONE, True), (DESKTOPS[-1], False)):
        opened.resize(width)
        assert bool(opened.shown(".drawing .narrow")) is is_narrow
        assert opened.js(cut, opened.all(".drawing")) == 0


def test_wide_figures_stand_in_columns_and_the_text_flows_around_the_picture(opened: Tab) -> None:
    opened.resize(DESKTOPS[-1])
    lefts = opened.js(
        "return [...new Set([...document.querySelectorAll('.figures figure')]"
        ".map((one) => Math.round(one.getBoundingClientRect().left)))]"
    )
    assert len(lefts) == 2
    text, picture = (
        opened.js("return document.querySelector(arguments[0]).getBoundingClientRect()", selector)
        for selector in (".work .answer", ".work figure")
    )
    assert text["left"] < picture["left"]
    assert text["top"] < picture["bottom"]


def _colours(tab: Tab) -> tuple[str, ...]:
    """Colours of the page, of its text, and of a text in a figure."""
    return tuple(
        tab.js(
            "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", *asked
        )
        for asked in (("body", "backgroundColor"), ("body", "color"), ("figure svg text", "fill"))
    )


def test_colours_follow_the_colour_scheme_in_figures_too(opened: Tab) -> None:
    light = _colours(opened)
    opened.look(scheme="dark")
    dark = _colours(opened)
    assert light[0] == "rgb(255, 255, 255)"
    assert all(one != other for one, other in zip(light, dark, strict=True))
    assert light[1] == light[2]
    assert dark[1] == dark[2]


def test_a_printed_page_is_light_unfolded_and_without_controls(opened: Tab) -> None:
    opened.look(media="print", scheme="dark")
    assert _colours(opened)[0] == "rgb(255, 255, 255)"
    assert opened.all("details[open]:not(:has(code))") == []
    folded = opened.all("details .scroll td")
    assert len(folded) > 100
    assert all(opened.js("return arguments[0].map((one) => one.offsetHeight > 0)", folded))
    for control in (".filters", ".choice", ".copy", "nav"):
        assert opened.shown(control) == [], control


def test_without_scripts_the_page_is_complete_and_has_no_controls(tab: Tab, page: Path) -> None:
    tab.open(page)
    rows = len(tab.all(ROWS))
    tab.scripts(allowed=False)
    tab.open(page)
    assert len(tab.shown(ROWS)) == rows
    assert tab.all("button, .filters") == tab.shown("#table .further") == []
    tab.one("#further").click()
    assert tab.shown("#table .further")
    tab.look(media="print")
    folded = tab.all("details .scroll")
    assert len(folded) > 15
    assert all(box.size["height"] > 0 for box in folded)


def test_a_program_is_copied(opened: Tab) -> None:
    asked = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    opened.driver.execute_cdp_cmd("Browser.grantPermissions", asked)
    button, code = opened.all(".works .copy")[3], opened.all(".works .command code")[3]
    opened.js("arguments[0].closest('details')?.setAttribute('open', '')", code)
    button.click()
    read = "const done = arguments[0]; navigator.clipboard.readText().then(done, done)"
    assert opened.driver.execute_async_script(read) == code.get_property("textContent")
    assert button.text == "copied"
    assert button.get_attribute("aria-label").startswith("copy the code for ")
    opened.driver.execute_cdp_cmd("Browser.resetPermissions", {})


def test_a_report_of_make_run_is_small(tmp_path: Path) -> None:
    passes = profiled(42, 4e-4) | memory(12_000_000, 3_000_000, 4_000_000)
    records = [
        record(mode, 4e-4, 1.2, model=model, **cpu_clocks(4e-4, 5e-5), **passes)
        for model in ("mlp", "transformer")
        for mode in MODES
    ]
    assert report.write(save(records, tmp_path)).stat().st_size < MOST_BYTES
