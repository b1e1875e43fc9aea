"""The site: `scripts/docs` makes it whole or not at all, and its reader needs no other host.

Its generator has an environment of its own, which continuous integration makes and whoever runs `scripts/docs`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build" / "docs-venv"
REFERRING = {
    "src", "href", "data", "action", "formaction", "poster", "srcset", "cite", "ping", "xlink:href", "background"
}  # fmt: skip
STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?([^'\")\s;]+)")
COMMENT = re.compile(r"/\*.*?\*/|(?:^|(?<=\s))//[^\n]*", re.DOTALL)
ELSEWHERE = re.compile(r"(?<![\w:])(?:https?:)?//[a-z0-9][a-z0-9.-]*\.[a-z]{2,}[^\s\"'`)<]*", re.IGNORECASE)
NAME_OF_SVG = "http://www.w3.org/2000/svg"


class Page(HTMLParser):
    """What a page refers to, what it can be asked for, and the text of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.refers: list[str] = []
        self.anchors: set[str] = set()
        self.code = ""
        self._in_code = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note every attribute that leads somewhere, and every id."""
        self._in_code = tag in {"script", "style"}
        for name, value in attrs:
            if value and name in REFERRING:
                self.refers.append(value)
            elif value and name == "style":
                self.refers += STYLE.findall(value)
            elif value and name in {"id", "name"}:
                self.anchors.add(value)

    def handle_endtag(self, tag: str) -> None:
        """Leave a script or style."""
        self._in_code = False

    def handle_data(self, data: str) -> None:
        """Keep what the browser would run."""
        if self._in_code:
            self.code += data


def prepared() -> None:
    """Skip where the generator is not; in continuous integration that is a failure."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert "docs" in tomllib.load(file)["dependency-groups"]
    if not (ENVIRONMENT / "kranzq.stamp").exists():
        pytest.skip("needs build/docs-venv, which scripts/docs makes")


def build(folder: Path, pages: Path = ROOT / "docs") -> subprocess.CompletedProcess[str]:
    """Make the site of the project's pages, or of a copy of them, as `scripts/docs` does when it has its generator."""
    command = [str(ENVIRONMENT / "bin/python"), str(ROOT / "scripts/pages.py"), str(folder), str(pages)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, made once."""
    prepared()
    folder = tmp_path_factory.mktemp("site") / "site"
    done = build(folder)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Its pages."""
    return {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_it_has_every_page(pages: dict[Path, Page], site: Path) -> None:
    """Each page of docs/ is there, and the first page leads to each."""
    expected = {
        path.relative_to(ROOT / "docs").with_suffix(".html")
        for path in (ROOT / "docs").rglob("*.md")
        if path.parent.name != "changelog"
    }
    assert expected <= {path.relative_to(site) for path in pages}

    linked = {urlsplit(one).path for one in pages[site / "index.html"].refers}
    assert {str(one) for one in expected} - linked == {"index.html"}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_it_refers_to_no_other_host(pages: dict[Path, Page], site: Path) -> None:
    """No font, script, style, image or link of the site lies on another host, and no script asks one."""
    elsewhere = {
        f"{path.relative_to(site)}: {one}"
        for path, page in pages.items()
        for one in page.refers
        if (urlsplit(one).scheme or urlsplit(one).netloc) and not one.startswith("data:")
    }
    codes = {path.relative_to(site): page.code for path, page in pages.items()}
    codes |= {path.relative_to(site): path.read_text() for kind in ("js", "css") for path in site.rglob(f"*.{kind}")}
    for path, code in codes.items():
        if path.name == "searchindex.js":  # words of the pages, and nothing that runs
            continue
        bare = COMMENT.sub("", code).replace(NAME_OF_SVG, "")
        elsewhere |= {f"{path}: {one}" for one in ELSEWHERE.findall(bare)}
    for path in site.rglob("*.svg"):
        bare = re.sub(r'xmlns(?::\w+)?="[^"]*"', "", path.read_text())
        elsewhere |= {f"{path.relative_to(site)}: {one}" for one in ELSEWHERE.findall(bare)}

    assert elsewhere == set()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_what_it_refers_to_is_there(pages: dict[Path, Page], site: Path) -> None:
    """Each link leads to a file of the site and to an anchor that this file has, be it written by hand or not."""
    broken = []
    for path, page in pages.items():
        for one in page.refers:
            parts = urlsplit(one)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            lacks = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors
            if lacks or not target.is_file():
                broken.append(f"{path.relative_to(site)}: {one}")

    assert broken == []


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_search_works_from_files(site: Path) -> None:
    """The search asks no server: its index is a script, with the words of the pages in it."""
    search = Page((site / "search.html").read_text())

    scripts = [one for one in search.refers if urlsplit(one).path.endswith("searchindex.js")]
    assert scripts
    assert "heartbeat" in (site / "searchindex.js").read_text()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_broken_page_fails_the_build(tmp_path: Path) -> None:
    """A link, anchor or image that leads nowhere, a page without a place, a diagram that is none: all told, no site."""
    prepared()
    pages = tmp_path / "docs"
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("reference"))
    (pages / "reference").symlink_to(ROOT / "docs/reference")
    (pages / "howto/unheard-of.md").write_text("# A page without a place\n")
    with (pages / "glossary.md").open("a") as file:
        file.write(
            "\n[1](howto/no-such-page.md) [2](quickstart.md#no-such-heading) [3](#nor-this-one)\n"
            "![4](casts/no-such-cast.svg)\n\n```mermaid\nno diagram\n```\n"
        )
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("as it was")

    done = build(site, pages)

    assert done.returncode != 0
    for told in ("unheard-of", "no-such-page", "no-such-heading", "nor-this-one", "no-such-cast", "no diagram:"):
        assert any("WARNING" in line and told in line for line in done.stderr.splitlines()), f"{told}: {done.stderr}"
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".site-")] == []
    assert (site / "index.html").read_text() == "as it was"
