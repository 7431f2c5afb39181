"""What following the advice for a work costs, and how certain the advice is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from modescope.analysis.derive import replicates
from modescope.analysis.derive.select import SECTION, trusted, values_of
from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.recommend.types import MODE, Choice, Question, Recommendation
from modescope.analysis.report.study import Study
from modescope.bench.stats.estimates import Estimate, ends

SectionKey = tuple[object, ...]  # the values of SECTION


def facts(
    answers: Sequence[Recommendation],
    rows: Mapping[str, Row],
    counting: Mapping[SectionKey, list[Row]],
) -> tuple[tuple[str, str], ...]:
    """Name and text of each known fact about the answers for one work.

    `rows`: by run_id; `counting`: what `by_work` returns.
    """
    sections = dict.fromkeys(values_of(asdict(one.question), SECTION) for one in answers)
    behind = [row for key in sections for row in counting.get(key, [])]
    texts = (
        ("First call", _first_calls(answers)),
        ("Error", _errors(answers, rows)),
        ("Noise floor", _floors(answers)),
        ("May be missed", _detectable(answers)),
        ("Between processes", _between(behind)),
    )
    return tuple((name, text) for name, text in texts if text)


def _chosen(answers: Sequence[Recommendation]) -> Iterator[tuple[Recommendation, Choice]]:
    for answer in answers:
        if answer.choice is not None and answer.outcome == MODE:
            yield answer, answer.choice


def _first_calls(answers: Sequence[Recommendation]) -> str:
    """First-call times of the recommended modes."""
    times = ((_named(choice), choice.first_call_s) for _, choice in _chosen(answers))
    return _ranges(times, numbers.duration)


def _errors(answers: Sequence[Recommendation], rows: Mapping[str, Row]) -> str:
    """Errors of the recommended modes, then those of the baselines that they would replace."""
    chosen = list(_chosen(answers))
    if not chosen:
        return ""
    errors = [(_named(c) + _error_of(rows[c.run_id]), c.error) for _, c in chosen]
    replaced = ((_baseline(a.question), rows[c.run_id]["baseline_error"]) for a, c in chosen)
    errors += [(name, error) for name, error in replaced if error is not None]
    known = any(error is not None for _, error in errors)
    references = {rows[c.run_id]["checked_against"] or "float64" for _, c in chosen}
    against = "float64" if references == {"float64"} else "float64 or eager"
    unit = f" (relative, against {against})" if known else ""
    return f"{_ranges(errors, numbers.scientific)}{unit}"


_ERROR_OF = {"not": " (not checked)", "without_randomness": " (in a copy without randomness)"}


def _error_of(row: Row) -> str:
    """What the error is of, where it is not that of the timed step."""
    return _ERROR_OF.get(row["checked"], "")


def _named(choice: Choice) -> str:
    return f"{choice.mode} {choice.dtype}"


def _baseline(question: Question) -> str:
    return f"{question.baseline_mode} {question.baseline_dtype}"


def _ranges(pairs: Iterable[tuple[str, float | None]], name: Callable[[float | None], str]) -> str:
    """`amp bf16 2.3e-3 to 4.0e-3, eager fp32 2.0e-7`: smallest to largest value."""
    ends = {
        variant: (min(known, default=None), max(known, default=None))
        for variant, values in phrases.grouped(pairs).items()
        for known in [[value for value in values if value is not None]]
    }
    return ", ".join(
        f"{variant} {' to '.join(dict.fromkeys(map(name, both)))}" for variant, both in ends.items()
    )


def _floors(answers: Sequence[Recommendation]) -> str:
    """Each baseline's speedup over itself; a remark elsewhere says if it is unknown."""
    known = phrases.grouped((_baseline(a.question), a.floor) for a in answers if a.floor)
    return "; ".join(f"{name} against itself {_floor(floors)}" for name, floors in known.items())


def _floor(floors: Sequence[Estimate]) -> str:
    """The interval of one size, or the widest limits over several sizes."""
    if len(set(floors)) == 1:
        return numbers.ratio(floors[0])
    lows, highs = zip(*map(ends, floors), strict=True)
    return f"within [{min(lows):.3f}, {max(highs):.3f}] at every measured size"


def _detectable(answers: Sequence[Recommendation]) -> str:
    known = [one.detectable for one in answers if one.detectable is not None]
    if not known:
        return ""
    least = numbers.percent(max(known))
    return (
        f"gains below {least}; a larger gain is found in 80 % of such runs, even in the least "
        "certain row"
    )


def _between(rows: Sequence[Row]) -> str:
    """How much fresh processes of the same case differ, or that this is unknown."""
    several = [row for row in rows if row["speedup_process_spread"] is not None]
    if not rows:
        return ""
    if not several:
        return (
            "unknown: each case ran in one process, and intervals cover only that process "
            f"(replicates={replicates.ENOUGH} measures the difference)"
        )
    most = max(row["speedup_process_spread"] for row in several)
    fewest, enough = min(row["speedup_processes"] for row in several), len(several) == len(rows)
    which_rows = "every row" if enough else f"{len(several)} of {len(rows)} rows"
    return (
        f"known for {which_rows} ({fewest} processes or more): speedups differ by up to "
        f"{numbers.percent(most)}"
    )


def by_work(study: Study) -> dict[SectionKey, list[Row]]:
    """The rows that count, by SECTION, with the columns about their processes."""
    needed = [*SECTION, "speedup_processes", "speedup_process_spread"]
    rows = phrases.as_rows(trusted(study.rows)[needed])
    return phrases.grouped((values_of(row, SECTION), row) for row in rows)
