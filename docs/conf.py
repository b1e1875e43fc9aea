"""How `scripts/docs` makes the site: which pages stand where, and what the site adds to them.

The pages stay plain Markdown that reads as well on a forge: the tree of pages is made here and not by directives in
them, diagrams are drawn while building, and the page of changes gathers its fragments. Nothing is looked up in a
network, neither now nor by the reader's browser: no fonts, no scripts, no counters of others.
"""

from __future__ import annotations

import hashlib
import html
from pathlib import Path

import mmdr
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
HERE = Path(__file__).resolve().parent
NAVIGATION = {
    "Start": ["quickstart", "glossary", "explanation/comparison"],
    "Operator at night": [
        "howto/at-night",
        "howto/recover-after-a-crash",
        "howto/watch-in-a-terminal",
        "howto/dashboard",
        "howto/watch",
        "howto/run-the-daemon",
        "howto/run-as-a-service",
        "howto/uninstall",
    ],
    "Developer who approves": ["howto/first-hour", "howto/approve", "howto/with-kranz"],
    "Agent that takes work": ["howto/call-from-an-agent", "howto/mcp"],
    "CI and hooks": [
        "howto/install-hooks",
        "howto/approve-hook",
        "howto/ci",
        "howto/enqueue-from-any-language",
        "howto/hooks",
    ],
    "Administrator of a server": ["howto/serve", "howto/tokens", "howto/use-postgres"],
    "Reference": [
        "reference/cli",
        "reference/config",
        "reference/states",
        "reference/files-on-disk",
        "reference/errors",
        "reference/events",
        "reference/work",
        "reference/presence",
        "reference/http",
        "reference/dashboard",
        "reference/live-events",
        "reference/metrics",
        "reference/client",
        "reference/mcp",
        "reference/python",
        "reference/compatibility",
    ],
    "Explanation": [
        "explanation/architecture",
        "explanation/guarantees-and-assumptions",
        "explanation/proof",
        "explanation/performance",
        "explanation/work-queue-speed",
        "explanation/http-speed",
    ],
    "Decisions": [
        "decisions/0001-file-format",
        "decisions/0002-hold-before-claim",
        "decisions/0003-three-valued-liveness",
        "decisions/0004-the-keeper",
        "decisions/0005-git-is-read-not-run",
    ],
    "The project": ["contributing", "changelog"],
}
"""The side bar: who or what for, and the pages, each exactly once. A page that is missing here fails the build."""
DIAGRAM = "A diagram, larger when followed; its text stands below."
BEHIND_WORDS = 'fill="hsl(-120, 0%, 80%)"'
"""The grey on which words at an arrow are drawn, narrower than the words in many a reader's letters."""
KINDS = {"incompatible": "Incompatible", "added": "Added", "changed": "Changed", "fixed": "Fixed"}

project = "kranzq"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["changelog/*"]
nitpicky = True
myst_heading_anchors = 6
html_theme = "furo"
html_title = "kranzq"
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
templates_path = ["_templates"]


def setup(app: Sphinx) -> None:
    """Tell the generator what is done to the pages on their way."""
    app.connect("source-read", add_to_source)
    app.connect("doctree-read", draw_diagrams)


def add_to_source(_app: Sphinx, page: str, content: list[str]) -> None:
    """Give the first page the tree of all pages, and the page of changes its fragments."""
    if page == "index":
        content[0] += "".join(
            f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
            for caption, pages in NAVIGATION.items()
        )
    elif page == "changelog":
        content[0] += fragments()


def fragments() -> str:
    """What changed, by kind; a fragment's links are seen from its own folder."""
    found = ""
    for kind, title in KINDS.items():
        texts = [path.read_text() for path in sorted((HERE / "changelog").glob(f"*.{kind}.md"))]
        lines = [f"- {' '.join(text.split())}\n".replace("](../", "](") for text in texts]
        found += f"\n### {title}\n\n{''.join(lines)}" if lines else ""
    return found


def draw_diagrams(app: Sphinx, tree: nodes.document) -> None:
    """Draw what is written as a diagram, and keep its text for those who do not see it."""
    up = "../" * app.env.docname.count("/")
    for block in list(tree.findall(nodes.literal_block)):
        if block.get("language") != "mermaid":
            continue
        text = block.astext()
        try:
            picture = mmdr.render(text).svg().replace(BEHIND_WORDS, 'fill="#fff"')
        except ValueError as fault:
            LOGGER.warning("no diagram: %s", fault, location=block)
            continue
        name = f"diagram-{hashlib.sha256(text.encode()).hexdigest()[:12]}.svg"
        folder = Path(app.outdir, "_images")
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(picture, encoding="utf-8")
        figure = (
            f'<figure class="diagram"><a href="{up}_images/{name}"><img src="{up}_images/{name}" alt="{DIAGRAM}"></a>'
            f"<details><summary>The diagram as text</summary><pre>{html.escape(text)}</pre></details></figure>"
        )
        block.replace_self(nodes.raw("", figure, format="html"))
