"""The dashboard for everybody: by keyboard, by ear, in the dark, on a phone, and with a thousand missions."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browsing import Checkout, Dashboard, looking

VIEWS = ("", "queue", "work", "presence", "trends")
CONTRAST = (Path(__file__).parent / "contrast.js").read_text().partition("\n")[2].rstrip().removesuffix(";")
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
SMALL = """() => [...document.querySelectorAll("main button, nav a, header button")]
  .filter((one) => one.checkVisibility())
  .filter((one) => Math.min(one.getBoundingClientRect().height, one.getBoundingClientRect().width) < 24)
  .map((one) => one.textContent)"""


@pytest.fixture(scope="module")
def furnished(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A server with some of everything."""
    one = Checkout.at(tmp_path_factory.mktemp("furnished"))
    try:
        one.served.start()
        one.enqueue("succeeds", "seq", "1", "50", priority=0)
        one.enqueue("fails", "sh", "-c", "exit 3", priority=1)
        one.drain()
        one.enqueue("next")
        one.enqueue("next-but-one", after=["next"])
        one.enqueue("later", not_before="+2h")
        one.enqueue("set-aside")
        one.park("set-aside", "a reason that needs more than one line on a telephone, as they often do")
        (one.queue / "002-00000000000000000400-broken.json").write_text("{")
        token = one.served.agent("ann")
        one.served.ask("POST", "/v1/work", {"title": "An item", "payload": "p", "kind": "review"})
        one.served.ask("POST", "/v1/work/claim", {"kind": "review"}, token=token)
        one.served.ask("POST", "/v1/work", {"title": "Long " * 30, "payload": "p", "target_agent": "nobody"})
        said = {"repo": "o/r", "path": "a/very/deep/path/" * 6, "branch": "main", "note": "tidying up"}
        one.served.ask("POST", "/v1/work-claims", said, token=token)
        yield one
    finally:
        one.served.kill()


def settled(page: Page) -> None:
    """Wait until everything that a view shows has come."""
    expect(page.locator("#live")).to_have_text("live")
    expect(page.get_by_text("Asking …")).to_have_count(0)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def each_view(one: Dashboard) -> Iterator[tuple[str, Page]]:
    """Every view, a mission of each kind, and an item."""
    item = one.checkout.served.ask("GET", "/v1/work").json["items"][0]["id"]
    for view in (*VIEWS, "mission/fails", "mission/next-but-one", "mission/set-aside", f"item/{item}"):
        page = one.open(view)
        settled(page)
        yield view, page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(browser: Browser, furnished: Checkout, scheme: Literal["light", "dark"]) -> None:
    """At least 4.5 to 1 (WCAG AA), computed for what is seen, by day and by night, in questions too."""
    with looking(browser, furnished, furnished.served.key, color_scheme=scheme) as one:
        for view, page in each_view(one):
            seen, weak = page.evaluate(CONTRAST)
            assert (view, weak) == (view, [])
            assert seen > 10
        page = one.open("queue")
        page.get_by_role("button", name="Cancel next", exact=True).click()
        assert page.evaluate(CONTRAST)[1] == []
        ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(244, 245, 243)", "dark": "rgb(18, 20, 23)"}[scheme]
    with looking(browser, furnished, color_scheme=scheme) as one:
        page = one.open()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert page.evaluate(CONTRAST)[1] == []


def test_a_telephone_shows_all_of_it(browser: Browser, furnished: Checkout) -> None:
    """360 pixels are enough: nothing lies beside the screen, and fingers find each button."""
    how: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "device_scale_factor": 1}
    with looking(browser, furnished, furnished.served.key, **how) as one:
        for view, page in each_view(one):
            assert (view, page.evaluate(WIDER)) == (view, 0)
            assert (view, page.evaluate(SMALL)) == (view, [])


def test_the_page_by_ear(browser: Browser, furnished: Checkout) -> None:
    """Landmarks, headings and names as a screen reader has them."""
    with looking(browser, furnished, furnished.served.key) as one:
        page = one.open("queue")
        settled(page)
        expect(page.locator("body")).to_match_aria_snapshot("""
            - link "Skip to what is shown"
            - banner:
              - paragraph: kranzq checkout
              - navigation "Views":
                - link "Overview"
                - link "Queue"
                - link "Items"
                - link "Presence"
                - link "Trends"
              - text: operator may change things
              - button "Sign out"
            - status: live
            - main:
              - heading "Queue" [level=1]
              - search:
                - text: Filter
                - searchbox "Filter"
                - text: Show
                - combobox "Show"
              - region "Missions in the queue":
                - heading "Missions in the queue" [level=2]
                - list:
                  - listitem:
                    - text: queued
                    - link "next"
                    - text: /priority 2/
                    - button "Priority next": Priority
                    - button "Park next": Park
                    - button "Cancel next": Cancel
              - region "Files that are no entries"
              - region "Ended lately"
            - contentinfo:
              - status "Last news"
              - button "Keyboard ?"
        """)
        for view, one_page in each_view(one):
            found = one_page.locator("h1, h2, h3")
            levels = found.evaluate_all("(all) => all.map((one) => Number(one.tagName[1]))")
            assert (view, levels[0], levels.count(1)) == (view, 1, 1)
            assert all(after - before <= 1 for before, after in itertools.pairwise(levels)), view
            assert one_page.locator("img:not([alt]), svg[role=img]:not([aria-label])").count() == 0
            assert one_page.title().endswith(" \u2013 kranzq")


def test_everything_goes_by_keyboard(browser: Browser, furnished: Checkout) -> None:
    """Views, rows, filter, a question and its answer, the list of keys; where one is can be seen."""
    with looking(browser, furnished, furnished.served.key) as one:
        page = one.open()
        settled(page)
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to what is shown")).to_be_focused()
        page.keyboard.press("2")
        expect(page.get_by_role("heading", name="Queue", exact=True)).to_be_focused()
        settled(page)
        page.keyboard.press("j")
        expect(page.get_by_role("link", name="next", exact=True)).to_be_focused()
        outline = "(one) => getComputedStyle(one).outlineStyle + getComputedStyle(one).outlineWidth"
        assert page.locator(":focus").evaluate(outline) == "solid3px"
        page.keyboard.press("j")
        page.keyboard.press("k")
        page.keyboard.press("Tab")
        expect(page.get_by_role("button", name="Priority next", exact=True)).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.type("5")
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Priority next", exact=True)).to_be_focused()
        page.keyboard.press("/")
        page.keyboard.type("12?")
        expect(page.get_by_role("searchbox")).to_have_value("12?")
        page.get_by_role("searchbox").fill("")
        page.get_by_role("link", name="later", exact=True).press("Enter")
        expect(page.get_by_role("heading", name="later", level=1)).to_be_focused()
        page.keyboard.press("?")
        keys = page.get_by_role("dialog", name="Keyboard")
        expect(keys).to_contain_text("To the filter")
        keys.get_by_label("Single keys do something").uncheck()
        page.keyboard.press("Escape")
        page.keyboard.press("5")
        assert page.evaluate("() => location.hash") == "#/mission/later"
        expect(page.get_by_role("heading", name="later", level=1)).to_be_visible()


@pytest.mark.slow
def test_a_thousand_missions_stay_quick(browser: Browser, tmp_path: Path) -> None:
    """All are there, a change touches its own row and no other, and the filter finds what is behind the thousandth."""
    one = Checkout.at(tmp_path)
    for number in range(1000):
        name = f"{number % 7:03d}-{number + 1:020d}-m-{number:04d}.json"
        entry: dict[str, object] = {"priority": number % 7, "seq": number + 1}
        (one.queue / name).write_text(json.dumps({"missionId": f"m-{number:04d}"} | entry))
    try:
        one.served.start()
        with looking(browser, one, one.served.key) as there:
            page = there.open("queue")
            expect(page.locator("#missions .row")).to_have_count(1000)
            settled(page)
            page.evaluate("""() => {
              window.changed = [0, 0];
              new MutationObserver((all) => {
                for (const one of all) changed[0] += one.addedNodes.length, changed[1] += one.removedNodes.length;
              }).observe(document.querySelector("#missions"), { childList: true });
            }""")
            next(one.queue.glob("*-m-0500.json")).unlink()
            expect(page.locator("#told")).to_have_text("999 missions")
            assert page.evaluate("() => changed") == [0, 1], "the other rows are left as they are"
            for number in (2000, 2001):
                name = f"comes-last-{number}"
                whole = tmp_path / name  # an entry appears whole: a half-written one would be looked at no more
                whole.write_text(json.dumps({"missionId": name, "priority": 9, "seq": number}))
                whole.rename(one.queue / f"009-{number:020d}-{name}.json")
            expect(page.locator("#told")).to_have_text("1,001 missions; the first 1,000 are shown")
            page.get_by_role("searchbox").fill("comes-last")
            expect(page.locator("#missions .row")).to_have_count(2)
    finally:
        one.served.kill()


def test_an_empty_checkout_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    """Each view has a sentence in the place of its list."""
    one = Checkout.at(tmp_path)
    try:
        one.served.start()
        with looking(browser, one, one.served.key) as there:
            for view, text in (
                ("", "Nothing needs you."),
                ("", "Nothing runs."),
                ("", "Nothing has run yet."),
                ("queue", "The queue is empty. A mission is approved with: kranzq enqueue"),
                ("work", "The work queue is empty. An item is added with: kranzq work enqueue"),
                ("presence", "Nobody says so at the moment."),
                ("trends", "Nothing has run in this time."),
            ):
                expect(there.open(view).get_by_text(text).first).to_be_visible()
    finally:
        one.served.kill()


def test_a_server_without_missions_shows_the_rest(browser: Browser, tmp_path: Path) -> None:
    """Outside of a checkout there are items and presence; the overview says what is missing and how to get it."""
    one = Checkout.at(tmp_path)
    one.served.cwd = tmp_path
    try:
        one.served.start()
        with looking(browser, one, one.served.key) as there:
            there.expected.append("status of 404")
            page = there.open()
            expect(page.get_by_role("region", name="Running")).to_contain_text("The server serves no missions")
            expect(page.get_by_role("region", name="Work queue")).to_contain_text("The work queue is empty.")
    finally:
        one.served.kill()


def test_ticks_are_round_numbers(dashboard: Dashboard) -> None:
    """Axes have whole numbers, round spans and round times, a handful of each, and hold what is drawn."""
    page = dashboard.open("trends")
    found = page.evaluate("""async () => {
      const { wholeTicks, spanTicks, timeTicks } = await import("/ui/axes.js");
      const names = (ticks) => ticks.map(([, word]) => word);
      return [
        [0, 1, 3, 7, 12, 99, 1000].map((most) => [most, wholeTicks(most).at(-1)[0], wholeTicks(most).length]),
        names(spanTicks(40, 5000)), names(spanTicks(3e6, 3e6)), names(spanTicks(1, 9e12)),
        names(timeTicks(Date.UTC(2026, 0, 1), Date.UTC(2026, 0, 2), 6)).length,
        timeTicks(0, 3_600_000, 8).map(([at]) => at % 600_000),
      ];
    }""")

    for most, top, number in found[0]:
        assert top >= max(1, most)
        assert 2 <= number <= 8
    assert found[1] == ["0.1 s", "1 s", "10 s"]
    assert found[2] == ["10 min", "1 h"]
    assert found[3][-1] == "400 d"
    assert 3 <= found[4] <= 7
    assert set(found[5]) == {0}
    assert re.match("[0-9]", page.evaluate("async () => (await import('/ui/words.js')).span(3_700_000)"))
