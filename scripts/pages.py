"""Make the site of the pages: `pages.py [FOLDER [PAGES]]`, by default build/site of docs. `scripts/docs` calls this.

Everything is made anew, since the generator does not repeat what it has said about a page before. The site is made
beside its folder and takes its place when it is whole; after a fault the old one is still there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STRICT = ("--builder", "html", "--fresh-env", "--write-all", "--fail-on-warning", "--nitpicky", "--quiet")


def main(folder: str | None = None, pages: str | None = None) -> int:
    """Make the site; the exit code of the generator, which has said what is wrong."""
    site = os.path.abspath(folder or os.path.join(ROOT, "build", "site"))
    source = pages or os.path.join(ROOT, "docs")
    os.makedirs(os.path.dirname(site), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".site-", dir=os.path.dirname(site)) as scratch:
        made = os.path.join(scratch, "made")
        words = [*STRICT, "--doctree-dir", os.path.join(scratch, "trees"), source, made]
        done = subprocess.run([sys.executable, "-m", "sphinx", *words], check=False)
        if done.returncode == 0:
            os.unlink(os.path.join(made, ".buildinfo"))
            shutil.rmtree(site, ignore_errors=True)
            os.rename(made, site)
            print(f"The site: {os.path.relpath(os.path.join(site, 'index.html'))}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
