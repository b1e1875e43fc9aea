"""The pages hang together: links lead somewhere, words are the glossary's, examples run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOT_OURS = re.compile(
    r"\b(?:ack(?:s|ed)?|dequeue[sd]?|requeue[sd]?|rescue[sd]?|reaps?|slave|(?<!git )(?<!pre-)push(?:es|ed)?|"
    r"picks?|fetch(?:es|ed)?)\b"
)
"""Words that the glossary has another word for; what git calls `git push` and `pre-push` is git's."""
ABOUT_OTHERS = {"comparison.md"}


def anchor(heading: str) -> str:
    """The anchor that a heading gets on a forge."""
    text = re.sub(r"[`*]", "", heading).strip().lower()
    return "".join("-" if one == " " else one for one in text if one in " -_" or unicodedata.category(one)[0] in "LN")


def anchors(path: Path) -> set[str]:
    """All anchors of a page."""
    return {anchor(line.lstrip("#")) for line in path.read_text().splitlines() if line.startswith("#")}


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link is a file of the project, each anchor one of its headings."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        name, _, part = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (part and part not in anchors(target)):
            broken.append(link)

    assert broken == []


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_words_are_those_of_the_glossary(page: Path) -> None:
    """One word for one idea: none of the words stands there that others use for ours."""
    if page.name not in ABOUT_OTHERS:
        assert NOT_OURS.findall(page.read_text().lower()) == []


def test_every_page_is_linked() -> None:
    """From the README every page can be reached."""
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
        todo += [(page.parent / link).resolve() for link in links]

    assert {page for page in PAGES if page not in seen and page.parent.name != "changelog"} == set()


def examples(page: Path) -> list[str]:
    """The shell examples of a page that are marked to run as they stand."""
    return re.findall(r"<!-- runs -->\n+```sh\n(.*?)```", page.read_text(), flags=re.DOTALL)


WITH_EXAMPLES = [str(page.relative_to(ROOT)) for page in PAGES if examples(page)]


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_first_examples_are_among_those_that_run(page: str) -> None:
    """The pages that everybody types from cannot lose the mark by which their examples are found."""
    assert page in WITH_EXAMPLES


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_the_examples_run(page: str, checkout: Path, tmp_path: Path) -> None:
    """What a reader types first works as it is printed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "kranzq"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {sys.executable} -m kranzq "$@"\n')
    command.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    found = examples(ROOT / page)
    assert found

    for example in found:
        done = subprocess.run(
            ["sh", "-eu", "-c", example],
            cwd=checkout,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert done.returncode == 0, f"{example}\n{done.stdout}\n{done.stderr}"


def test_the_readme_begins_with_the_two_commands() -> None:
    """The first thing that a reader sees is how to try it and how to test it."""
    head = (ROOT / "README.md").read_text().splitlines()[:6]

    assert any("scripts/try" in line for line in head)
    assert any("scripts/test" in line for line in head)
