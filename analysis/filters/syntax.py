"""Parses the text of an expression, or says in one sentence what is wrong with it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator

from modescope.bench.records.errors import UsageError

EXAMPLE = "--where 'mode == \"compile\" and speedup > 1.1'"
LONGEST = 200  # characters of an expression shown in a message
_IN_QUOTES = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORDS = {"&": " and ", "|": " or "}  # bind less than a comparison, as in pandas' query
# syntax that Python does not accept -> the advice; the first match is reported
_ADVICE = (
    (r"[“”„‘’«»]", 'typographic quotes are not allowed; write " on both sides of text'),
    (r"=>|=<", "write >= for at least and <= for at most"),
    (r"<>", "write != for unequal"),
    (r"(?<![=!<>])=(?!=)", "a single = is not a comparison; write == for equal"),
    (r"&&|\|\||!(?!=)", "write and, or and not in place of &&, || and !"),
    (r"\b(AND|OR|NOT|IN|IS)\b", "write and, or, not, in and is in lower case"),
    (r"", "syntax error; compare columns with numbers or with text in quotes, joined by and, "
          f"or and not, for example {EXAMPLE}"),
)  # fmt: skip


TOO_DEEP = "it is nested too deeply"


def parsed(text: str) -> tuple[ast.expr, str]:
    """The tree and the text to which its positions refer; UsageError for a syntax error."""
    source = " ".join(text.split("\n")).strip()
    if not source:
        raise error(text, f"the expression is empty; write one, for example {EXAMPLE}")
    try:
        source = _with_words(source)
        with warnings.catch_warnings():  # Python warns of `speedup>1and batch==1`
            warnings.simplefilter("ignore")
            return ast.parse(source, mode="eval").body, source
    except (RecursionError, MemoryError):
        raise error(text, TOO_DEEP) from None
    except (SyntaxError, ValueError, tokenize.TokenError):
        bare = _IN_QUOTES.sub("", text)
        advice = next(advice for pattern, advice in _ADVICE if re.search(pattern, bare))
        raise error(text, advice) from None


def error(expression: str, sentence: str) -> UsageError:
    """A UsageError on `expression`, which is quoted in front of `sentence`."""
    return UsageError(f"{named(expression)}: {sentence}")


def named(expression: str) -> str:
    """`--where 'speedup > 1'`; the middle of a long one is cut."""
    return f"--where {_shortened(expression)!r}"


def written(node: ast.expr, source: str) -> str:
    """The part of `source` that `node` was parsed from; the middle of a long one is cut."""
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
    """`source` with `&` and `|` replaced by `and` and `or`."""
    for token in reversed(list(_tokens(source))):
        if token.type == tokenize.OP and token.string in _WORDS:
            (_, start), (_, end) = token.start, token.end
            source = source[:start] + _WORDS[token.string] + source[end:]
    return source


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(source).readline)
