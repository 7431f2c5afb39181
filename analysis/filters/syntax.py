"""The text of an expression -> its syntax tree, or what is wrong with it in one sentence."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator

from bench.records import UsageError

EXAMPLE = "--where 'mode == \"compile\" and speedup > 1.1'"
LONGEST = 200  # characters of an expression in a sentence
# The shell ends a text in single quotes at the next one, so double quotes are shown inside.
_IN_QUOTES = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORDS = {"&": " and ", "|": " or "}  # weaker than a comparison, as pandas reads them
# what Python does not read -> what to write; the first that is there is told
_ADVICE = (
    (r"[“”„‘’«»]", 'these quotes are no plain ones; write " on both sides of text'),
    (r"=>|=<", "write >= for at least and <= for at most"),
    (r"<>", "write != for unequal"),
    (r"(?<![=!<>])=(?!=)", "one = compares nothing; write == for equal"),
    (r"&&|\|\||!(?!=)", "write and, or and not in place of &&, || and !"),
    (r"\b(AND|OR|NOT|IN|IS)\b", "write and, or, not, in and is in small letters"),
    (r"", "it cannot be read; compare columns with numbers or with text in quotes, joined by and, "
          f"or and not, for example {EXAMPLE}"),
)  # fmt: skip


def parsed(text: str) -> tuple[ast.expr, str]:
    """The tree and the text that its positions refer to; UsageError where it is no expression."""
    source = " ".join(text.split("\n")).strip()
    if not source:
        raise error(text, f"the expression is empty; write one, for example {EXAMPLE}")
    try:
        source = _with_words(source)
        with warnings.catch_warnings():  # Python's, of `speedup>1and batch==1`
            warnings.simplefilter("ignore")
            return ast.parse(source, mode="eval").body, source
    except (SyntaxError, ValueError, tokenize.TokenError, RecursionError, MemoryError):
        bare = _IN_QUOTES.sub("", text)
        advice = next(advice for pattern, advice in _ADVICE if re.search(pattern, bare))
        raise error(text, advice) from None


def error(expression: str, sentence: str) -> UsageError:
    """What is wrong with `expression`, as every complaint about one begins."""
    return UsageError(f"{named(expression)}: {sentence}")


def named(expression: str) -> str:
    """`--where 'speedup > 1'`; a long one without its middle."""
    return f"--where {_shortened(expression)!r}"


def written(node: ast.expr, source: str) -> str:
    """The part of `source` that `node` was read from, without its middle where it is long."""
    return _shortened(ast.get_source_segment(source, node) or "")


def _shortened(text: str) -> str:
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]} … {text[-half:]}"


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
