"""How sure the answers for a work are, and what following them costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from analysis import numbers, replicates, words
from analysis.page.study import Study
from analysis.recommendation import Choice, Question, Recommendation
from analysis.recommending.records import MODE
from analysis.rows import SECTION, trusted
from analysis.words import Row
from bench.stats import Estimate

Work = tuple[object, ...]  # the values of SECTION


def facts(
    answers: Sequence[Recommendation], rows: Mapping[str, Row], counting: Mapping[Work, list[Row]]
) -> tuple[tuple[str, str], ...]:
    """Name and text of each fact about the answers for one work; what is unknown is left out.

    `rows`: by their run_id; `counting`: those of `by_work`.
    """
    questions = dict.fromkeys(_section(one.question) for one in answers)
    behind = [row for work in questions for row in counting.get(work, [])]
    told = (
        ("First call", _first_calls(answers)),
        ("Error", _errors(answers, rows)),
        ("Noise floor", _floors(answers)),
        ("May be missed", _detectable(answers)),
        ("Between processes", _between(behind)),
    )
    return tuple((name, text) for name, text in told if text)


def _chosen(answers: Sequence[Recommendation]) -> Iterator[tuple[Recommendation, Choice]]:
    for answer in answers:
        if answer.choice is not None and answer.outcome == MODE:
            yield answer, answer.choice


def _first_calls(answers: Sequence[Recommendation]) -> str:
    """Of what is recommended."""
    told = ((_named(choice), choice.first_call_s) for _, choice in _chosen(answers))
    return _ranges(told, numbers.duration)


def _errors(answers: Sequence[Recommendation], rows: Mapping[str, Row]) -> str:
    """What is recommended beside what it would replace."""
    chosen = list(_chosen(answers))
    if not chosen:
        return ""
    told = [(_named(choice), choice.error) for _, choice in chosen]
    told += [
        (_baseline(answer.question), rows[choice.run_id]["baseline_error"])
        for answer, choice in chosen
    ]
    return f"{_ranges(told, numbers.scientific)} (relative, against float64)"


def _named(choice: Choice) -> str:
    return f"{choice.mode} {choice.dtype}"


def _baseline(question: Question) -> str:
    return f"{question.baseline_mode} {question.baseline_dtype}"


def _ranges(told: Iterable[tuple[str, float | None]], name: Callable[[float | None], str]) -> str:
    """`amp bf16 2.3e-3 to 4.0e-3, eager fp32 2.0e-7`: from the least of a variant to the most."""
    found: dict[str, list[float | None]] = {}
    for variant, value in told:
        found.setdefault(variant, []).append(value)
    ends = {
        variant: (min(known, default=None), max(known, default=None))
        for variant, values in found.items()
        for known in [[value for value in values if value is not None]]
    }
    return ", ".join(
        f"{variant} {' to '.join(dict.fromkeys(map(name, both)))}" for variant, both in ends.items()
    )


def _floors(answers: Sequence[Recommendation]) -> str:
    """What each baseline reads against itself; that it is unknown is among the remarks."""
    known: dict[str, list[Estimate]] = {}
    for answer in answers:
        if answer.floor is not None:
            known.setdefault(_baseline(answer.question), []).append(answer.floor)
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
    least = numbers.percent(max(known))
    return (
        f"gains below {least}; larger ones show in 80 % of such runs, even in the least certain row"
    )


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


def by_work(study: Study) -> dict[Work, list[Row]]:
    """The rows that count of each SECTION, as far as their processes go."""
    needed = [*SECTION, "replicates", "speedup_process_spread"]
    found: dict[Work, list[Row]] = {}
    for row in words.as_rows(trusted(study.rows)[needed]):
        found.setdefault(tuple(row[name] for name in SECTION), []).append(row)
    return found


def _section(question: Question) -> Work:
    row = asdict(question)
    return tuple(row[name] for name in SECTION)
