"""The text of an expression -> its syntax tree, or what is wrong with it in one sentence."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from bench.records import UsageError

EXAMPLE = "--where 'mode == \"compile\" and speedup > 1.1'"
# The shell ends a text in single quotes at the next one, so double quotes are shown inside.
_ASSIGNMENT = re.compile(r"(?<![=!<>])=(?!=)")
_IN_QUOTES = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORDS = {"&": " and ", "|": " or "}  # as pandas reads them: weaker than a comparison


def parsed(text: str) -> tuple[ast.expr, str]:
    """The tree and the text that its positions refer to; UsageError where it is no expression."""
    source = " ".join(text.split("\n")).strip()
    if not source:
        raise error(text, f"the expression is empty; write one, for example {EXAMPLE}")
    try:
        source = _with_words(source)
        return ast.parse(source, mode="eval").body, source
    except (SyntaxError, ValueError, tokenize.TokenError, RecursionError, MemoryError):
        raise error(text, _advice(text)) from None


def error(expression: str, sentence: str) -> UsageError:
    """What is wrong with `expression`, as every complaint about one begins."""
    return UsageError(f"--where {expression!r}: {sentence}")


def written(node: ast.expr, source: str) -> str:
    """The part of `source` that `node` was read from."""
    return ast.get_source_segment(source, node) or ast.unparse(node)


def with_quotes(nodes: list[ast.expr], source: str) -> str:
    """`source` with double quotes around each of `nodes`."""
    encoded = source.encode()  # positions count bytes
    for node in sorted(nodes, key=lambda node: node.col_offset, reverse=True):
        start, end = node.col_offset, node.end_col_offset or node.col_offset
        encoded = encoded[:start] + b'"' + encoded[start:end] + b'"' + encoded[end:]
    return encoded.decode()


def _with_words(source: str) -> str:
    """`&` and `|` as the words that they stand for."""
    for token in reversed(list(_tokens(source))):
        if token.type == tokenize.OP and token.string in _WORDS:
            (_, start), (_, end) = token.start, token.end
            source = source[:start] + _WORDS[token.string] + source[end:]
    return source


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(source).readline)


def _advice(source: str) -> str:
    bare = _IN_QUOTES.sub("", source)
    if _ASSIGNMENT.search(bare):
        return "one = compares nothing; write == for equal"
    if "&&" in source or "||" in source or "!" in bare.replace("!=", ""):
        return "write and, or and not in place of &&, || and !"
    if re.search(r"\b(AND|OR|NOT|IN|IS)\b", bare):
        return "write and, or, not, in and is in small letters"
    return (
        "it cannot be read; compare columns with numbers or with text in quotes, joined by and, or "
        f"and not, for example {EXAMPLE}"
    )
