"""The first screen: which mode to use, by how much, at what cost, how sure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analysis import numbers, replicates, words
from analysis.page.glyphs import Glyph, glyph
from analysis.page.study import Study
from analysis.recommendation import Advice, Choice, Question, Recommendation, Span, fold
from analysis.recommending.records import MODE
from analysis.rows import SECTION, trusted
from analysis.words import Row
from bench.records import canonical_json
from bench.stats import Estimate

MOST_WORKS = 8  # on the first screen; the others are folded away


@dataclass(frozen=True)
class Answer:
    """What is said for some sizes: `lead` is the mode's name, with its looks and its run."""

    sizes: str
    lead: str
    rest: str
    glyph: Glyph | None
    anchor: str | None


@dataclass(frozen=True)
class Precision:
    """The answers at one output precision, with what has to be known beside them."""

    name: str
    answers: tuple[Answer, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Work:
    """What is advised for one work, and how sure all of it is."""

    title: str
    precisions: tuple[Precision, ...]
    facts: tuple[tuple[str, str], ...]  # name, text


def which(study: Study) -> dict[str, Any]:
    """The works in reading order, those on the first screen apart from the others."""
    advice = fold(study.answers)
    several = len({_place(one) for one in advice}) > 1
    rows = {row["run_id"]: row for row in words.as_rows(study.rows[list(_NEEDED)])}
    processes = _processes(study)
    by_title: dict[str, list[Advice]] = {}
    for one in advice:
        by_title.setdefault(_title(study, one, several), []).append(one)
    found = [
        Work(
            title,
            tuple(_precision(study, one, rows) for one in members),
            _facts(members, rows, processes),
        )
        for title, members in by_title.items()
    ]
    return {
        "works": found[:MOST_WORKS],
        "others": found[MOST_WORKS:],
        "wishes": _wishes(study),
    }


_NEEDED = ("run_id", "mode", "autocast", "compile", "graph", "baseline_error")


def _wishes(study: Study) -> str:
    """What was asked for on the command line, which the answers depend on."""
    if not study.answers:
        return ""
    asked = study.answers[0].wishes
    limit = asked.memory_limit_bytes
    told = (
        "" if asked.calls is None else f"--calls {numbers.calls(asked.calls)}",
        "" if limit is None else f"--memory-limit {numbers.size(limit)}",
    )
    return " and ".join(filter(None, told))


def _recommendations(advice: Advice) -> list[Recommendation]:
    return [one for span in advice.spans for one in span.recommendations]


def _question(advice: Advice) -> Question:
    return advice.spans[0].recommendations[0].question


def _place(advice: Advice) -> tuple[object, ...]:
    question = _question(advice)
    return question.environment, question.device, question.threads


def _title(study: Study, advice: Advice, several: bool) -> str:
    """`transformer, seq 64, inference`: with the sizes that are equal in all answers."""
    row = asdict(_question(advice))
    shapes = [json.loads(one.question.shape) for one in _recommendations(advice)]
    same = {n: v for n, v in shapes[0].items() if all(s.get(n) == v for s in shapes)}
    work = words.work_at(row, canonical_json(same))
    return f"{work}, on {study.place(row)}" if several else work


def _precision(study: Study, advice: Advice, rows: dict[str, Row]) -> Precision:
    question = _question(advice)
    cache = question.compile_cache
    name = question.dtype if cache == "cold" else f"{question.dtype}, {cache} compiler cache"
    answers = tuple(_answer(study, span, rows) for span in advice.spans)
    return Precision(name, answers, advice.remarks)


def _answer(study: Study, span: Span, rows: dict[str, Row]) -> Answer:
    choice = span.recommendations[0].choice
    lead = choice.mode if choice is not None and span.text.startswith(choice.mode) else ""
    row = rows.get(choice.run_id) if choice is not None and lead else None
    rest = span.text.removeprefix(lead)
    if row is None:
        return Answer(span.label, lead, rest, None, None)
    return Answer(span.label, lead, rest, glyph(row), study.anchor(row))


def _facts(
    members: Sequence[Advice], rows: dict[str, Row], processes: dict[tuple[object, ...], list[Row]]
) -> tuple[tuple[str, str], ...]:
    answers = [one for advice in members for one in _recommendations(advice)]
    questions = dict.fromkeys(_section(one.question) for one in answers)
    counting = [row for key in questions for row in processes.get(key, [])]
    told = (
        ("First call", _first_calls(answers)),
        ("Error", _errors(answers, rows)),
        ("Noise floor", _floors(answers)),
        ("Smallest gain shown", _detectable(answers)),
        ("Between processes", _between(counting)),
    )
    return tuple((name, text) for name, text in told if text)


def _chosen(answers: Sequence[Recommendation]) -> Iterator[tuple[Recommendation, Choice]]:
    for answer in answers:
        if answer.choice is not None and answer.outcome == MODE:
            yield answer, answer.choice


def _first_calls(answers: Sequence[Recommendation]) -> str:
    return _by_variant(
        [(choice, numbers.duration(choice.first_call_s)) for _, choice in _chosen(answers)]
    )


def _errors(answers: Sequence[Recommendation], rows: dict[str, Row]) -> str:
    """What is recommended beside what it would replace."""
    chosen = list(_chosen(answers))
    told = _by_variant([(choice, numbers.scientific(choice.error)) for _, choice in chosen])
    if not told:
        return ""
    replaced = dict.fromkeys(
        f"{answer.question.baseline_mode} {answer.question.baseline_dtype} "
        f"{numbers.scientific(rows[choice.run_id]['baseline_error'])}"
        for answer, choice in chosen
    )
    beside = f"; {', '.join(replaced)}" if len(replaced) == 1 else ""
    return f"{told}{beside} (relative, against float64)"


def _by_variant(told: Sequence[tuple[Choice, str]]) -> str:
    """`amp bf16 2.3e-3, compile fp32 2.0e-7`; of several sizes the first and the last."""
    found: dict[str, list[str]] = {}
    for choice, text in told:
        found.setdefault(f"{choice.mode} {choice.dtype}", []).append(text)
    return ", ".join(
        f"{name} {' to '.join(dict.fromkeys((texts[0], texts[-1])))}"
        for name, texts in found.items()
    )


def _floors(answers: Sequence[Recommendation]) -> str:
    """What each baseline reads against itself; that it is unknown is among the remarks."""
    known: dict[str, list[Estimate]] = {}
    for answer in answers:
        if answer.floor is not None:
            named = f"{answer.question.baseline_mode} {answer.question.baseline_dtype}"
            known.setdefault(named, []).append(answer.floor)
    return "; ".join(f"{name} against itself {_floor(found)}" for name, found in known.items())


def _floor(floors: Sequence[Estimate]) -> str:
    """The widest of several sizes."""
    if len(set(floors)) == 1:
        return numbers.ratio(floors[0])
    low = min(floor.value if floor.low is None else floor.low for floor in floors)
    high = max(floor.value if floor.high is None else floor.high for floor in floors)
    return f"within [{low:.3f}, {high:.3f}] at every size that was measured"


def _detectable(answers: Sequence[Recommendation]) -> str:
    known = [one.detectable for one in answers if one.detectable is not None]
    if not known:
        return ""
    return f"{numbers.percent(max(known))}, in 80 % of such runs, for the least certain row"


def _between(rows: Sequence[Row]) -> str:
    """Is it known how far fresh processes of the same case differ?"""
    several = [row for row in rows if row["speedup_process_spread"] is not None]
    if not rows:
        return ""
    if not several:
        return (
            "unknown, as each case ran in one process, and intervals hold within it "
            f"(replicates={replicates.ENOUGH} tells)"
        )
    most = max(row["speedup_process_spread"] for row in several)
    fewest, enough = min(row["replicates"] for row in several), len(several) == len(rows)
    which_rows = "every row" if enough else f"{len(several)} of {len(rows)} rows"
    return (
        f"known for {which_rows} ({fewest} processes or more): speedups differ by up to "
        f"{numbers.percent(most)}"
    )


def _processes(study: Study) -> dict[tuple[object, ...], list[Row]]:
    """The rows that count of each SECTION, as far as their processes go."""
    needed = [*SECTION, "replicates", "speedup_process_spread"]
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in words.as_rows(trusted(study.rows)[needed]):
        found.setdefault(tuple(row[name] for name in SECTION), []).append(row)
    return found


def _section(question: Question) -> tuple[object, ...]:
    row = asdict(question)
    return tuple(row[name] for name in SECTION)
