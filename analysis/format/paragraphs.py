"""Text as lines of a terminal's width."""

from __future__ import annotations

import textwrap

WIDTH = 132  # of tables, too: spare columns are dropped to fit, and numbers are never cut
_INDENT = " " * 4


def paragraph(text: str) -> list[str]:
    """`text` over lines of WIDTH, all but the first indented; paths in it are not broken."""
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=_INDENT,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def beneath(text: str) -> list[str]:
    """`paragraph` with all lines indented."""
    return paragraph(_INDENT + text)
