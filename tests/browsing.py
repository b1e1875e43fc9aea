"""A real Chromium, headless, before a real server: the dashboard as people meet it.

Whatever a page says to the console, throws or breaks of its policy is gathered, and a test fails by it at its end
unless it was expected.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, expect

from tests.laboratory import PATIENCE, REPO, wait_for
from tests.servers import Served

MISSING = "needs chromium (package chromium)"
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
"""Of Chromium: nothing of its own goes to the network, and it runs as root in a container."""
REFUSED = r"Failed to load resource: the server responded with a status of 40[0-9]"
"""What Chromium says of each answer that is a refusal; a page cannot keep it from doing so."""
CUT = r"Failed to load resource: net::ERR_|ERR_INTERNET_DISCONNECTED|ERR_CONNECTION"
"""What it says when there is no connection."""
LISTENS = """addEventListener("DOMContentLoaded", () => {
  const region = document.getElementById("said");
  window.said = [];
  if (region !== null) new MutationObserver(() => said.push(region.textContent)).observe(region, { childList: true });
})"""
"""Keeps every sentence that the page says."""
TURNS = """(to) => new Promise((done) => {
  if (location.hash === to) { done(); return; }
  addEventListener("hashchange", () => done(), { once: true });
  location.hash = to;
})"""
"""Goes to another view of an open page; whoever waits for it finds that view, and not what was there before."""
expect.set_options(timeout=PATIENCE * 1000)


def is_there() -> bool:
    """Whether there is a Chromium."""
    return shutil.which("chromium") is not None


def launch(playwright: Playwright) -> Browser:
    """Start it."""
    return playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGS)


@dataclass
class Checkout:
    """A server in a checkout of its own, and what is done there by others."""

    served: Served

    @classmethod
    def at(cls, folder: Path, *words: str) -> Checkout:
        """With an empty queue; not started yet."""
        (folder / "checkout" / ".kranz" / "queue").mkdir(parents=True)
        return cls(Served(folder, ("--listen", "127.0.0.1:0", *words), cwd=folder / "checkout"))

    @property
    def queue(self) -> Path:
        """The folder of the entries."""
        return self.served.cwd / ".kranz" / "queue"

    def names(self, folder: str = "") -> list[str]:
        """What lies in the queue or in one of its folders, as far as it is an entry."""
        path = self.queue / folder
        return sorted(name for name in os.listdir(path) if ".json" in name and name[0] != ".") if path.is_dir() else []

    def enqueue(self, mission: str, *command: str, **more: Any) -> None:
        """Approve a mission."""
        body = {"mission": mission, "command": list(command or ("true",))} | more
        answer = self.served.ask("POST", "/v1/missions", body)
        assert answer.status == 200, answer.raw

    def park(self, mission: str, why: str) -> None:
        """Set one aside."""
        answer = self.served.ask("POST", f"/v1/missions/{mission}/park", {"why": why})
        assert answer.status == 200, answer.raw

    def cli(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a verb of the command line, of the same user in the same checkout."""
        argv = [sys.executable, "-m", "kranzq", "-C", str(self.served.cwd), *words]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(argv, cwd=REPO, env=self.served.environ, start_new_session=True, **quiet)  # type: ignore[call-overload, no-any-return]

    def drain(self) -> None:
        """Run what may run."""
        self.cli("drain").wait(PATIENCE)

    def cookie(self, token: str) -> tuple[str, str]:
        """Sign in without a page: the cookie's name and what it says."""
        answer = self.served.ask("POST", "/v1/session", token=token, tcp=True)
        assert answer.status == 200, answer.raw
        name, _, rest = answer.headers["set-cookie"].partition("=")
        return name, rest.partition(";")[0]


@dataclass
class Dashboard:
    """One page of the dashboard, and all that went wrong on it."""

    checkout: Checkout
    page: Page
    faults: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Listen."""
        self.page.on("pageerror", lambda fault: self.faults.append(f"thrown: {fault}"))
        self.page.on("console", self._console)
        self.page.on("requestfailed", lambda one: self._foreign(one.url))
        self.page.on("request", lambda one: self._foreign(one.url))
        self.page.on("dialog", lambda one: self.faults.append(f"a dialog of the browser: {one.message}"))
        self.page.add_init_script(
            "addEventListener('securitypolicyviolation', (one) =>"
            " console.error(`policy: ${one.violatedDirective} ${one.blockedURI}`))"
        )
        self.page.add_init_script(LISTENS)

    @property
    def url(self) -> str:
        """Where the server is."""
        return f"http://{self.checkout.served.address}"

    def open(self, view: str = "") -> Page:
        """Go to a view; one that is open already is changed by its address alone, as by a link."""
        if self.page.url.startswith(f"{self.url}/"):
            self.page.evaluate(TURNS, f"#/{view}")
        else:
            self.page.goto(f"{self.url}/#/{view}", wait_until="load")
        return self.page

    def stand_still(self) -> None:
        """Let no time pass for the page, from before it is opened: it asks nothing by itself, and says no news."""
        self.page.clock.install()
        self.page.clock.pause_at(dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))

    def said(self) -> list[str]:
        """All that it has said so far, also what other news have taken the place of."""
        sentences: list[str] = self.page.evaluate("() => said")
        return sentences

    def says(self, pattern: str) -> None:
        """Wait until a sentence was said."""
        wait_for(lambda: any(re.search(pattern, one) for one in self.said()), f"it is said: {pattern}")

    def check(self) -> None:
        """Fail by what went wrong and was not expected."""
        left = [one for one in self.faults if not any(re.search(pattern, one) for pattern in self.expected)]
        assert left == []

    def _console(self, message: ConsoleMessage) -> None:
        if message.type not in {"info", "debug", "log"}:
            self.faults.append(f"{message.type}: {message.text}")

    def _foreign(self, url: str) -> None:
        if not url.startswith((f"{self.url}/", "about:", "data:")):
            self.faults.append(f"asked elsewhere: {url}")


@contextlib.contextmanager
def looking(browser: Browser, checkout: Checkout, token: str | None = None, **how: Any) -> Iterator[Dashboard]:
    """A page in a browser profile of its own, signed in with that token (None: not yet); clean at the end."""
    context: BrowserContext = browser.new_context(
        **({"viewport": {"width": 1280, "height": 900}, "locale": "en"} | how)
    )
    try:
        one = Dashboard(checkout, context.new_page())
        if token is not None:
            name, value = checkout.cookie(token)
            context.add_cookies(
                [{"name": name, "value": value, "url": one.url, "httpOnly": True, "sameSite": "Strict"}]
            )
        yield one
        one.check()
    finally:
        context.close()
