"""Parses an HTML page without a browser: text, headings, links and loaded files."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

_VOID = {"meta", "br", "input"}
_UNREAD = ("style", "script")


class Page(HTMLParser):
    """The parts of an HTML page; fails if a closing tag does not match its opening tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.links: list[str] = []
        self.headings: list[int] = []
        self.unscoped = 0
        self.images: list[str | None] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    @property
    def text(self) -> str:
        """The text, with single spaces."""
        return " ".join("".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        values = dict(attrs)
        self.ids += [values["id"] or ""] if "id" in values else []
        loading = ("src", "href", "xlink:href") if tag != "a" else ("src",)
        self.loads += [values[name] or "" for name in loading if name in values]
        self.links += [values["href"] or ""] if tag == "a" else []
        self.headings += [int(tag[1])] if tag in ("h1", "h2", "h3", "h4", "h5", "h6") else []
        self.unscoped += tag == "th" and "scope" not in values
        self.images += [values.get("aria-label")] if values.get("role") == "img" else []
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {*self.open} & {*_UNREAD}:
            self.words.append(data)
