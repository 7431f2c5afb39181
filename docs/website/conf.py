"""The site that `make docs` builds from the project's Markdown, with Sphinx.

Sphinx reads the repository itself, so that a relative link leads to the same file in the site as
it does on GitHub. A new page in docs/ needs no entry here: `navigation.py` finds it.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

project = "modescope"
language = "en"
root_doc = "docs/index"
OWN = ["navigation", "linked_files"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", *OWN]

include_patterns = [
    "README.md",
    "DECISIONS.md",
    "docs/*.md",
    "docs/website/*.md",
    "results/README.md",
    "results/reference/*/selfcheck/*.md",
    "results/reference/*/claims/*.md",
    "results/reference/*/instructions/*.md",
]
# Folders that hold no page, which Sphinx would search through.
exclude_patterns = [".*", "analysis", "bench", "conf", "models", "modescope", "site", "tests"]

myst_heading_anchors = 6  # every heading, by the name that GitHub gives it
highlight_language = "none"  # of a block that names no language
smartquotes = False  # figures and options as they are written
default_role = "code"  # docstrings write code in single backticks
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "modescope"
html_static_path = [str(HERE / "style.css")]
html_css_files = ["style.css"]
html_extra_path = [str(HERE / "extra")]
html_theme_options = {"footer_icons": [], "top_of_page_buttons": []}
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
