"""Pictures of the dashboard: `python -m tests.screenshots FOLDER`. Made up, and run by a real daemon."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

from kranzq.model.agents import Scope
from tests.browsing import CUT, REFUSED, Checkout, Dashboard, launch, looking
from tests.laboratory import PATIENCE, wait_for

VIEWS = (
    ("", "overview"),
    ("queue", "queue"),
    ("mission/mend-the-checkout", "mission"),
    ("trends", "trends"),
    ("work", "items"),
    ("presence", "presence"),
)
MOST = 1350
"""Pixels of the longest picture."""
PHONE = {"viewport": {"width": 360, "height": 780}, "has_touch": True}
HOSTILE = ("<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "invoice\u202egnp.exe")
WORKS = """i=0; while [ ! -e "$GO" ]; do i=$((i+1)); echo "step $i: 214 tests passed, 3 to go"; sleep 1; done"""
REASONS = {
    "succeeded": "",
    "failed": "exit code 1",
    "timed out": "its time was over",
    "cancelled": "not needed any more",
}
NAMES = (
    "login-form",
    "flaky-upload",
    "docs-typos",
    "cache-keys",
    "retry-policy",
    "dark-mode",
    "api-errors",
    "slow-query",
)


def main(folder: str) -> int:
    """Take all of them; the exit code."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, contextlib.ExitStack() as stack:
        browser = launch(playwright)
        stack.callback(browser.close)
        full = stack.enter_context(_checkout("shop"))
        with _busy(full):
            _of_a_busy_one(browser, full, out)
        _of_an_empty_one(browser, stack.enter_context(_checkout("empty")), out)
        _of_a_long_one(browser, stack.enter_context(_checkout("long")), out)
        _of_a_hostile_one(browser, stack.enter_context(_checkout("hostile")), out)
    return 0


@contextlib.contextmanager
def _checkout(name: str) -> Iterator[Checkout]:
    root = Path(tempfile.mkdtemp(prefix=f"kranzq-{name}-"))
    one = Checkout.at(root)
    try:
        one.served.start()
        yield one
    finally:
        one.served.kill()
        shutil.rmtree(root)


@contextlib.contextmanager
def _busy(one: Checkout) -> Iterator[None]:
    """A daemon with a mission whose keeper was killed once and which runs again, behind a day of runs."""
    _past(one)
    go = one.served.folder / "go"
    one.enqueue("mend-the-checkout", "sh", "-c", WORKS, env={"GO": str(go)}, priority=1)
    daemon = one.cli("daemon")
    try:
        keeper = wait_for(lambda: _keeper(one), "it runs")
        assert keeper is not None
        os.kill(keeper, signal.SIGKILL)
        wait_for(lambda: _keeper(one) not in {None, keeper}, "it runs again")
        _queue(one)
        _others(one)
        yield
    finally:
        go.touch()
        wait_for(lambda: one.served.ask("GET", "/v1/status").json["busy"] is None, "it has ended")
        daemon.terminate()
        daemon.wait(PATIENCE)


def _keeper(one: Checkout) -> int | None:
    """The keeper of what runs, once that has said something."""
    busy = one.served.ask("GET", "/v1/status").json["busy"]
    if busy is None or busy["run"] is None:
        return None
    said = one.served.ask("GET", f"/v1/missions/{busy['mission']}/log?run={busy['run']}")
    return int(busy["pid"]) if said.status == 200 and said.raw else None


def _queue(one: Checkout) -> None:
    one.enqueue("translate-the-manual", ticket="T-17")
    one.enqueue("release-notes", after=["translate-the-manual"])
    one.enqueue("nightly-audit", not_before="+7h")
    one.enqueue("drop-old-tables")
    one.park("drop-old-tables", "somebody must look at the backup first")
    one.enqueue("upgrade-frameworks", priority=5)


def _others(one: Checkout) -> None:
    ann, bob = one.served.agent("ann", groups=("reviewers",)), one.served.agent("bob")
    titles = ("Review the payment page", "Find out why builds are slow", "Write a test for time zones")
    for title in titles:
        one.served.ask("POST", "/v1/work", {"title": title, "payload": "See the ticket.", "kind": "review"})
    claimed = one.served.ask("POST", "/v1/work/claim", {"kind": "review"}, token=ann).json
    back = {"attempt": claimed["attempt"], "reason": "needs access to the logs"}
    one.served.ask("POST", f"/v1/work/{claimed['item']['id']}/release", back, token=ann)
    one.served.ask("POST", "/v1/work/claim", {"kind": "review"}, token=bob)
    for token, path, branch, note in (
        (ann, "web/checkout/", "main", "moving the form to the new components"),
        (bob, "web/checkout/form.ts", "fix-login", "only the validation"),
        (bob, "docs/", None, "typos"),
    ):
        said = {"repo": "shop/web", "path": path, "branch": branch, "note": note}
        one.served.ask("POST", "/v1/work-claims", said, token=token)


def _past(one: Checkout) -> None:
    """A day of runs, made from one that a dispatcher has really made."""
    one.enqueue("template", "true")
    one.drain()
    missions = one.served.cwd / ".kranz" / "missions"
    chance = random.Random(7)
    end = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=4)
    for number in range(70):
        mission = f"{chance.choice(NAMES)}-{number}"
        shutil.copytree(missions / "template", missions / mission)
        fate = chance.choices(("succeeded", "failed", "timed out", "cancelled"), (80, 12, 3, 5))[0]
        wait, took = chance.lognormvariate(4, 1.3), chance.lognormvariate(5.5, 1.1)
        ended = end - dt.timedelta(hours=23 * chance.random() ** 1.3)
        folder = missions / mission / "dispatch" / "001"
        code = {"succeeded": 0, "failed": 1}.get(fate)
        times = {"createdAt": wait_before(ended, took), "startedAt": wait_before(ended, took), "endedAt": _told(ended)}
        reason = REASONS[fate]
        _change(folder / "run.json", mission=mission, outcome=fate, exitCode=code, reason=reason, **times)
        _change(folder / "entry.json", missionId=mission)
        entry = json.loads((folder / "entry.json").read_text())
        entry["kranzq"]["enqueuedAt"] = wait_before(ended, took + wait)
        (folder / "entry.json").write_text(json.dumps(entry))
    shutil.rmtree(missions / "template")


def wait_before(ended: dt.datetime, seconds: float) -> str:
    """A time so long before another one."""
    return _told(ended - dt.timedelta(seconds=seconds))


def _told(at: dt.datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def _of_a_busy_one(browser: Browser, one: Checkout, out: Path) -> None:
    views = {word: view for view, word in VIEWS}
    for name, how, words in (
        ("", {}, tuple(views)),
        ("-dark", {"color_scheme": "dark"}, ("overview", "mission", "trends")),
        ("-phone", PHONE, ("overview", "queue", "mission")),
    ):
        with looking(browser, one, one.served.key, **how) as there:
            for word in words:
                _take(there, views[word], out / f"dashboard-{word}{name}.png", there.page)
            if name == "":
                page = there.open("queue")
                _settle(page)
                page.get_by_role("button", name="Cancel translate-the-manual").click()
                page.screenshot(path=out / "dashboard-question.png")
    with looking(browser, one, viewport={"width": 1280, "height": 620}) as there:
        page = there.open()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.screenshot(path=out / "dashboard-sign-in.png")


def _of_an_empty_one(browser: Browser, one: Checkout, out: Path) -> None:
    token = one.served.agent("eve", scopes=(Scope.READ,))
    with looking(browser, one, token, viewport={"width": 1280, "height": 620}) as there:
        _take(there, "", out / "dashboard-empty.png", there.page)


def _of_a_long_one(browser: Browser, one: Checkout, out: Path) -> None:
    for number in range(1000):
        entry = {"missionId": f"mission-{number:04d}", "priority": number % 7, "seq": number + 1}
        name = f"{number % 7:03d}-{number + 1:020d}-mission-{number:04d}.json"
        (one.queue / name).write_text(json.dumps(entry))
    with looking(browser, one, one.served.key) as there:
        _take(there, "queue", out / "dashboard-long.png", there.page)


def _of_a_hostile_one(browser: Browser, one: Checkout, out: Path) -> None:
    token = one.served.agent("<b>agent</b>")
    for text in HOSTILE:
        one.served.ask("POST", "/v1/work", {"title": text, "payload": "p", "kind": "x"})
    one.served.ask("POST", "/v1/work/claim", {"kind": "x"}, token=token)
    one.enqueue("held")
    one.park("held", HOSTILE[0])
    with looking(browser, one, one.served.key, viewport={"width": 1280, "height": 620}) as there:
        _take(there, "work", out / "dashboard-hostile.png", there.page)
        there.expected += [CUT, REFUSED]
        one.served.kill()
        expect(there.page.locator("#live")).to_have_text(re.compile("^not live since"))
        there.page.screenshot(path=out / "dashboard-not-live.png")


def _settle(page: Page) -> None:
    expect(page.locator("#live")).to_have_text("live")
    expect(page.get_by_text("Asking …")).to_have_count(0)


def _take(there: Dashboard, view: str, path: Path, page: Page) -> None:
    """The page as long as it is, up to a bound, so that what lies at its bottom edge stays there."""
    there.open(view)
    _settle(page)
    if view.startswith("mission/"):
        expect(page.get_by_role("log")).to_contain_text("step 2")
    if view == "":
        expect(page.locator(".lastline, .quiet").first).to_be_visible()
    size = page.viewport_size
    assert size is not None
    height = page.evaluate("() => document.documentElement.scrollHeight")
    page.set_viewport_size({"width": size["width"], "height": min(max(height, size["height"]), MOST)})
    page.evaluate("() => new Promise((done) => setTimeout(done, 300))")
    page.screenshot(path=path)
    page.set_viewport_size(size)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
