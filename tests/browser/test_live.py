"""The dashboard is live, and says so when it is not: changes without a reload, a stream that comes back."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browsing import CUT, REFUSED, Checkout, Dashboard, looking
from tests.cables import Cable
from tests.laboratory import PATIENCE, wait_for

SAME_PAGE = "window.samePage"
TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
HEARS = """
window.heard = new Map();
const parse = JSON.parse;
JSON.parse = (...told) => {
  const one = parse(...told);
  if (one?.mission !== undefined) heard.set(one.mission, one.state);
  return one;
};
"""
LOUD = "() => [...heard].filter(([name, state]) => name.startsWith('noise-') && state === 'parked').length"


def test_changes_are_seen_without_a_reload(dashboard: Dashboard, shop: Checkout) -> None:
    """Missions, items and presence, whoever changes them; what has the focus keeps it."""
    shop.enqueue("stays")
    page = dashboard.open("queue")
    queue = page.locator("#missions")  # what has ended is listed below it, and the news have the reasons as well
    page.evaluate(f"() => {{ {SAME_PAGE} = 1 }}")
    queue.get_by_role("link", name="stays", exact=True).focus()
    shop.enqueue("comes-by-itself")
    expect(queue.get_by_role("link", name="comes-by-itself", exact=True)).to_be_visible()
    shop.park("stays", "seen at once")
    expect(queue.get_by_text("seen at once")).to_be_visible()
    expect(queue.get_by_role("link", name="stays", exact=True)).to_be_focused()
    for mission in ("stays", "comes-by-itself"):
        shop.served.ask("POST", f"/v1/missions/{mission}/cancel")
    expect(queue.get_by_role("link", name="comes-by-itself", exact=True)).to_have_count(0)

    dashboard.open("work")
    shop.served.ask("POST", "/v1/work", {"title": "Fell from the sky", "payload": "p"})
    expect(page.get_by_role("link", name="Fell from the sky")).to_be_visible()
    dashboard.open("presence")
    token = shop.served.agent("walker")
    shop.served.ask("POST", "/v1/work-claims", {"repo": "o/r", "path": "src/x.py"}, token=token)
    expect(page.get_by_text("walker")).to_be_visible()
    assert page.evaluate(f"() => {SAME_PAGE}") == 1


def test_what_needs_a_person_is_told_once(dashboard: Dashboard) -> None:
    """A claim whose holder is gone is one row with what to type; what is listed one by one is not counted besides."""
    claim = {"name": "1.json.claimed.7", "mission": "left-alone", "verdict": "gone", "evidence": "pid 7 is no more"}
    about = {"text": "mission left-alone is claimed, but its holder is gone", "advice": "Do this", "listed": False}
    counted = {"text": "one file lies in the quarantine", "advice": "See which", "listed": True, "claim": None}

    def answer(route: Route) -> None:
        told = route.fetch().json()
        warnings = [about | {"claim": claim["name"]}, counted]
        route.fulfill(json=told | {"claims": [claim], "warnings": warnings})

    dashboard.page.route("**/v1/status", answer)
    page = dashboard.open()
    needs = page.get_by_role("region", name="Needs a person")
    expect(needs.get_by_text("is claimed, but its holder is gone")).to_have_count(1)
    expect(needs.get_by_role("listitem").filter(has_text="left-alone")).to_have_count(1)
    expect(needs).to_contain_text("Do this")
    expect(needs).not_to_contain_text("lies in the quarantine")
    page.unroute_all(behavior="wait")


def test_news_without_a_pause_do_not_put_off_the_asking(dashboard: Dashboard) -> None:
    """A change every twentieth of a second or sooner: the view is asked again all the same, while they come."""
    page = dashboard.open()
    asked = page.evaluate(
        """async (patience) => {
            const { Source } = await import(new URL("store.js", document.querySelector("script[src]").src));
            let asked = 0;
            const one = new Source(async () => ++asked, () => true);
            const end = one.use(() => {});
            const until = performance.now() + patience;
            while (asked < 3 && performance.now() < until) {
                one.touch();
                await new Promise((done) => setTimeout(done, 10));
            }
            end();
            return asked;
        }""",
        PATIENCE * 500,
    )
    assert asked == 3


def test_a_mission_is_watched_while_it_runs(dashboard: Dashboard, shop: Checkout, tmp_path: Path) -> None:
    """Its output grows, the overview has its last line and how long it runs; its end comes by itself."""
    go = tmp_path / "go"
    program = f"echo first line; while [ ! -e {go} ]; do sleep 0.05; done; echo second line; exit 4"
    shop.enqueue("watched", "sh", "-c", program, priority=0)
    page = dashboard.open("mission/watched")
    expect(page.get_by_text("no daemon runs here")).to_be_visible()
    drain = shop.cli("drain", "--once")
    expect(page.get_by_role("log")).to_have_text("first line\n")
    expect(page.get_by_role("img", name=re.compile("Timeline.*run 1: enqueued at .*runs for"))).to_be_visible()
    dashboard.open()
    running = page.get_by_role("region", name="Running")
    expect(running).to_contain_text("first line")
    expect(running).to_contain_text(re.compile(r"watched for [0-9]"))

    dashboard.open("mission/watched")
    expect(page.get_by_role("log")).to_have_text("first line\n")
    go.touch()
    expect(page.get_by_role("log")).to_have_text("first line\nsecond line\n")
    expect(page.get_by_text("the run has ended.")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Timeline.*ended at .*: failed"))).to_be_visible()
    expect(page.get_by_role("region", name="Runs")).to_contain_text("Exit code4")
    drain.wait(PATIENCE)


@pytest.mark.slow
def test_a_connection_that_is_cut_is_said_and_comes_back(browser: Browser, tmp_path: Path) -> None:
    """Since when it is not live; then what was missed is there, without a reload."""
    with Cable() as cable:
        one = Checkout.at(tmp_path, "--host-name", f"127.0.0.1:{cable.port}")
        try:
            one.served.start()
            cable.address = one.served.address
            one.served.address = f"127.0.0.1:{cable.port}"
            with looking(browser, one, one.served.key) as dashboard:
                dashboard.expected += [CUT]
                page = dashboard.open("queue")
                live = page.locator("#live")
                expect(live).to_have_text("live")
                page.evaluate(f"() => {{ {SAME_PAGE} = 1 }}")
                cable.cut()
                expect(live).to_have_text(re.compile(f"^not live since {TIME}, trying again"))
                one.enqueue("meanwhile")

                cable.mend()
                expect(live).to_have_text("live")
                expect(page.get_by_role("link", name="meanwhile")).to_be_visible()
                assert page.evaluate(f"() => {SAME_PAGE}") == 1
        finally:
            one.served.kill()


def test_a_server_that_is_silent_is_not_live(browser: Browser, shop: Checkout) -> None:
    """A connection may be open and dead: after forty seconds without a sign it is said."""
    assert shop.served.process is not None
    with looking(browser, shop, shop.served.key) as one:
        one.expected += [CUT]
        one.page.clock.install()
        page = one.open("trends")
        expect(page.locator("#live")).to_have_text("live")
        shop.served.process.send_signal(signal.SIGSTOP)
        try:
            page.clock.fast_forward(41_000)
            expect(page.locator("#live")).to_have_text(re.compile(f"^not live since {TIME}"))
        finally:
            shop.served.process.send_signal(signal.SIGCONT)
        page.clock.fast_forward(10_000)
        expect(page.locator("#live")).to_have_text("live")


@pytest.mark.slow
def test_a_server_that_was_started_anew_asks_who_it_is(browser: Browser, tmp_path: Path) -> None:
    """Sessions end with the server: the sign-in is shown, and leads back to what was looked at."""
    one = Checkout.at(tmp_path)
    try:
        one.served.start()
        with looking(browser, one, one.served.key) as there:
            there.expected += [REFUSED, CUT]
            page = there.open("trends")
            expect(page.locator("#live")).to_have_text("live")
            one.served.words = ("--listen", one.served.address)
            assert one.served.stop() == 0
            expect(page.locator("#live")).to_have_text(re.compile(f"^not live since {TIME}, trying again"))
            one.served.start()
            expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
            page.get_by_label("Token").fill(one.served.key)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("heading", name="Trends")).to_be_visible()
            expect(page.locator("#live")).to_have_text("live")
    finally:
        one.served.kill()


def test_a_page_that_nobody_looks_at_gives_its_connection_back(browser: Browser, shop: Checkout) -> None:
    """Browsers open few to one server; when it is looked at again it reads on from where it was."""
    turn = "(hidden) => {{ Object.defineProperty(document, 'hidden', {{ value: hidden, configurable: true }}); {0} }}"
    turned = turn.format("document.dispatchEvent(new Event('visibilitychange'))")
    with looking(browser, shop, shop.served.key) as one:
        one.page.clock.install()
        page = one.open("queue")
        expect(page.locator("#live")).to_have_text("live")
        page.evaluate(turned, True)
        page.clock.fast_forward(61_000)
        expect(page.locator("#live")).to_have_text(re.compile("^not live since"))
        shop.enqueue("unseen")
        page.evaluate(turned, False)

        expect(page.locator("#live")).to_have_text("live")
        expect(page.get_by_role("link", name="unseen")).to_be_visible()
    shop.served.ask("POST", "/v1/missions/unseen/cancel")


def test_the_news_do_not_talk_all_the_time(dashboard: Dashboard, shop: Checkout) -> None:
    """Ten missions that are parked at once are one sentence, in a region that waits for a pause."""
    dashboard.page.add_init_script(HEARS)
    dashboard.stand_still()  # the time in which news are gathered goes on when all of them have come
    page = dashboard.open("presence")
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#said")).to_have_attribute("aria-live", "polite")
    for number in range(10):
        shop.enqueue(f"noise-{number}")
        shop.park(f"noise-{number}", "too loud")
    wait_for(lambda: page.evaluate(LOUD) == 10, "the page has heard of all of them")
    assert not [one for one in dashboard.said() if "noise" in one]
    page.clock.run_for(2000)

    (sentence,) = [one for one in dashboard.said() if "noise" in one]
    assert re.search(r"noise-[0-9] is parked: too loud; .*; and [0-9]+ more\.$", sentence), sentence
    for number in range(10):
        shop.served.ask("POST", f"/v1/missions/noise-{number}/cancel")
