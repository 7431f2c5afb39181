"""Links to files that are no pages: sources become pages of the site, reference results are copied.

GitHub shows any file that a page links to. Sphinx would offer such a file for download, and knows
no links to folders.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers import guess_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.osutil import relative_uri

RESULTS = "results/reference"
LISTED = "docs/website/reference"
SOURCES = "source"
GUIDE = re.compile(r"(href=\"[./]*docs/[\w-]+)\.md\b")


def place(path: Path, root: Path) -> str | None:
    """Where the site has what is at `path`, as an address from its top; None: nowhere."""
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else ""
    if name == RESULTS or (path.is_dir() and name.startswith(f"{RESULTS}/")):
        machine = name.split("/")[2:3]
        return "#".join([f"{LISTED}.html", *machine])
    if path.is_file() and name.startswith(f"{RESULTS}/"):
        return name
    if path.is_file() and name and not path.read_bytes().count(b"\0"):
        return f"{SOURCES}/{name}.html"
    return None


def lead_there(sources: set[str], app: Sphinx, doctree: nodes.document) -> None:
    """Replaces the links of a page to files and folders that are no pages; notes its sources."""
    root, docname = Path(app.srcdir), app.env.current_document.docname
    linked = doctree.findall(
        lambda node: isinstance(node, (addnodes.download_reference, addnodes.pending_xref))
    )
    for node in list(linked):
        if node.get("reftype") != "myst" or node.get("refdomain"):
            continue
        path = Path(app.env.relfn2path(node["reftarget"].partition("#")[0], docname)[1])
        if node["reftarget"].startswith("#") or not (address := place(path, root)):
            continue
        if address.startswith(f"{SOURCES}/"):
            sources.add(path.relative_to(root).as_posix())
        here = app.builder.get_target_uri(docname)
        link = nodes.reference(refuri=relative_uri(here, address), internal=True)
        link.extend(node.children)
        node.replace_self(link)


def source_pages(sources: set[str], app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each source that some page links to."""
    for name in sorted(sources):
        text = (Path(app.srcdir) / name).read_text(encoding="utf-8")
        try:
            language = guess_lexer_for_filename(name, text).aliases[0]
        except ClassNotFound:
            language = "none"
        shown = app.builder.highlighter.highlight_block(text, language)
        body = f"<h1>{escape(name)}</h1>{shown}"
        yield f"{SOURCES}/{name}", {"title": name, "body": body}, "page.html"


def copy_results(app: Sphinx, failure: Exception | None) -> None:
    """Puts the reference results where the links to them lead; their links lead to the site."""
    if failure:
        return
    source, target = (Path(top) / RESULTS for top in (app.srcdir, app.outdir))
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.md"), dirs_exist_ok=True)
    for page in target.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(GUIDE.sub(r"\1.html", text), encoding="utf-8")


def setup(app: Sphinx) -> Mapping[str, bool]:
    """Called by Sphinx."""
    sources: set[str] = set()  # complete where every page is read, as by `make docs`
    # Before Sphinx notes which files are offered for download.
    app.connect("doctree-read", partial(lead_there, sources), priority=100)
    app.connect("html-collect-pages", partial(source_pages, sources))
    app.connect("build-finished", copy_results)
    return {"parallel_read_safe": False}
