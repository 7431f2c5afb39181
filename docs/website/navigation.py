"""The site's navigation and its list of reference results, made from the files that exist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sphinx.application import Sphinx

REFERENCE = "docs/website/reference"
RESULTS = "results/reference"

FURTHER = {
    "Reference": {
        "results/README": "Columns",
        "docs/website/api": "API",
        REFERENCE: "Reference results",
    },
    "Project": {"README": "README", "DECISIONS": "Decisions"},
}
"""What follows the pages of docs/ in the navigation, by caption."""

KINDS = {
    "report": ("**/report/index.html", "reports"),
    "selfcheck": ("selfcheck/*.md", "`make selfcheck`"),
    "claims": ("claims/*.md", "`make claims`"),
    "instructions": ("instructions/*.md", "`make instructions`"),
}
"""Pages of a machine's reference results: where they are, and what they are called."""


def in_order(names: Iterable[str], index: str) -> list[str]:
    """Pages in the order in which the index first links to them; then the others, sorted."""
    linked = re.findall(r"\]\(([\w-]+)\.md[)#]", index)
    rank = {name: number for number, name in enumerate(dict.fromkeys(linked))}
    return sorted(names, key=lambda name: (rank.get(name, len(rank)), name))


def toctree(entries: Iterable[str], caption: str = "") -> str:
    """A list of pages that shows in the navigation alone."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *entries, "```", ""])


def navigation(index: str, found: Iterable[str]) -> str:
    """The lists of pages for the end of the index."""
    names = {Path(name).name for name in found if Path(name).parent == Path("docs")} - {"index"}
    guide = toctree((f"/docs/{name}" for name in in_order(names, index)), "Guide")
    further = (
        toctree((f"{title} </{name}>" for name, title in pages.items()), caption)
        for caption, pages in FURTHER.items()
    )
    return "".join([guide, *further])


def moment(page: Path) -> str:
    """When a page was written, which its name says (20261122T042041.448952Z); a report's study."""
    if page.name == "index.html":
        return page.parent.parent.name
    day, time = page.name[:8], page.name[9:13]
    return f"{day[:4]}-{day[4:6]}-{day[6:]} {time[:2]}:{time[2:]} UTC"


def reference_results(root: Path) -> str:
    """A section for each machine, with links to its pages."""
    sections, entries = [], []
    for machine in sorted(path for path in (root / RESULTS).iterdir() if path.is_dir()):
        sections.append(f"\n## {machine.name}\n")
        for kind, (pattern, title) in KINDS.items():
            names = {page: moment(page) for page in sorted(machine.glob(pattern), reverse=True)}
            links = (f"[{name}](/{page.relative_to(root)})" for page, name in names.items())
            if names:
                sections.append(f"- {title}: {', '.join(links)}")
            entries += [
                f"{kind} {name} </{page.relative_to(root).with_suffix('')}>"
                for page, name in names.items()
                if page.suffix == ".md"
            ]
    return "\n".join([*sections, toctree(entries)])


def complete(app: Sphinx, docname: str, source: list[str]) -> None:
    """Adds to a page, while it is read, what follows from the files there are."""
    if docname == app.config.root_doc:
        source[0] += navigation(source[0], app.env.found_docs)
    elif docname == REFERENCE:
        source[0] += reference_results(Path(app.srcdir))


def setup(app: Sphinx) -> Mapping[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", complete)
    return {"parallel_read_safe": True}
