"""A comparison as Markdown that fits into a comment or a step summary of GitHub."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from modescope.analysis.compare.formats import words
from modescope.analysis.compare.rules.gate import NOT_COMPARED, Compared, Comparison
from modescope.bench.text.markup import escaped

COMMENT = 65_536
"""Characters that GitHub accepts in a comment."""

_MOST = 15  # differences, and works with eager's change
_CELL = 200  # characters of one cell
_ENDING = 400  # characters for what stands beneath the last row


def text(comparison: Comparison, limit: int = COMMENT, bytes_count: bool = False) -> str:
    """The whole comparison; rows that exceed `limit` are left out, which the text says.

    `limit` counts characters, or with `bytes_count` bytes.
    """

    def size(part: str) -> int:
        return len(part.encode()) if bytes_count else len(part)

    parts = [_head(comparison)]
    left = limit - size(parts[0]) - _ENDING
    changed, rest = words.changed(comparison), words.unchanged(comparison)
    shown = 0
    for rows, before, after in (
        (changed, "\n", f"\n{escaped(words.LEGEND)}\n"),
        (
            rest,
            f"\n<details><summary>{len(rest)} rows without a change that was shown: "
            f"{escaped(words.summary(rest))}</summary>\n\n",
            "\n</details>\n",
        ),
    ):
        lines = [before, *_titles()] if rows else []
        left -= sum(map(size, lines)) + size(after)
        fitting = _fitting(rows, left, size) if rows and left > 0 else []
        if fitting:
            parts += [*lines, *fitting, after]
            left -= sum(map(size, fitting))
            shown += len(fitting)
    if shown < len(comparison.rows):
        parts.append(f"\n{len(comparison.rows) - shown} rows are left out here; --json has all.\n")
    return "".join(parts)


def _head(comparison: Comparison) -> str:
    lines = [f"**{_short(comparison.sentence)}**", ""]
    if comparison.status == NOT_COMPARED:
        return "\n".join(lines)
    for note in (words.gates(comparison), *comparison.notes):
        lines += [_short(note), ""]
    differing = words.differing(comparison)
    lines += ["What differs:", *(f"- {_short(text)}" for text in differing[:_MOST])]
    lines += _more(len(differing))
    if comparison.eager:
        lines += ["", "Eager itself:"]
        lines += [
            f"- {_short(one.work)}: {escaped(words.eager(one))}" for one in comparison.eager[:_MOST]
        ]
        lines += _more(len(comparison.eager))
    return "\n".join([*lines, ""])


def _more(count: int) -> list[str]:
    return [f"- and {count - _MOST} more"] if count > _MOST else []


def _titles() -> list[str]:
    titles = ("work", "row", *words.TITLES)
    return [f"| {' | '.join(map(escaped, titles))} |\n", f"|{' --- |' * len(titles)}\n"]


def _fitting(rows: Sequence[Compared], room: int, size: Callable[[str], int]) -> list[str]:
    """The lines of the first rows, as many as `room` holds; a repeated work is left empty."""
    lines: list[str] = []
    work = None
    for row in rows:
        cells = ("" if row.pair.work == work else row.pair.work, row.pair.name, *words.cells(row))
        line = f"| {' | '.join(map(_short, cells))} |\n"
        room -= size(line)
        if room < 0:
            break
        lines.append(line)
        work = row.pair.work
    return lines


def _short(text: str) -> str:
    return escaped(text if len(text) <= _CELL else f"{text[: _CELL - 1]}…")
