"""What comes from several sides at once: tokens that end, tabs that nobody has opened yet, addresses that are odd."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Browser, Route, expect

from kranzq import work
from kranzq.model.agents import Scope
from tests.browsing import REFUSED, Checkout, Dashboard, looking
from tests.laboratory import wait_for

HIDDEN = "Object.defineProperty(document, 'hidden', { value: true, configurable: true })"
SEEN = """() => {
  Object.defineProperty(document, 'hidden', { value: false, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}"""
TURNED = "waits for \u202eexe.gnp\u00ad\u180e\U000e0041"
WRITTEN = "waits for \\u202eexe.gnp\\u00ad\\u180e\\u{e0041}"
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_the_reason_stays_when_many_questions_are_refused_at_once(browser: Browser, shop: Checkout) -> None:
    """The overview asks five things; the last refusal takes neither the reason nor what is typed."""
    token = shop.served.agent("leaves-many", scopes=(Scope.READ,))
    with looking(browser, shop, token) as one:
        one.expected.append(REFUSED)
        page = one.open()
        expect(page.locator("#live")).to_have_text("live")
        with work.open(shop.served.url) as store:
            store.agents.revoke("leaves-many")
        shop.enqueue("leaves-many")
        expect(page.get_by_role("alert").first).to_contain_text("You were signed out")
        page.get_by_label("Token").fill("half a tok")
        shop.served.ask("POST", "/v1/missions/leaves-many/cancel")
        page.evaluate("""async () => {
          const api = await import("/ui/api.js");
          await api.ask("GET", "/v1/status").catch(() => {});
        }""")

        expect(page.get_by_role("alert").first).to_contain_text("You were signed out")
        expect(page.get_by_label("Token")).to_have_value("half a tok")


def test_a_browser_that_keeps_no_cookie_is_told_of(browser: Browser, shop: Checkout) -> None:
    """Else the sign-in would come back without a word, again and again."""
    with looking(browser, shop) as one:
        page = one.open()

        page.route("**/v1/session", lambda route: route.fulfill(json={"ok": True, "signed_in": False}))
        page.get_by_label("Token").fill(shop.served.key)
        page.get_by_role("button", name="Sign in").click()

        expect(page.get_by_role("alert").first).to_contain_text("The browser kept no cookie of this server.")


def test_a_page_that_was_opened_behind_takes_no_connection(browser: Browser, shop: Checkout) -> None:
    """Six of them would leave none to the page in front. It reads on when somebody looks at it."""
    with looking(browser, shop, shop.served.key) as one:
        one.page.add_init_script(HIDDEN)
        asked: list[str] = []
        one.page.on("request", lambda request: asked.append(request.url))
        page = one.open("queue")
        expect(page.locator("#told")).to_have_text(re.compile("mission"))
        assert [url for url in asked if url.endswith("/v1/events")] == []
        page.evaluate(SEEN)

        expect(page.locator("#live")).to_have_text("live")


def test_an_address_with_a_word_of_the_language_is_no_view(dashboard: Dashboard) -> None:
    """The first view is shown, as for every other address that names none."""
    for word in ("constructor", "toString", "__proto__"):
        page = dashboard.open(f"{word}/x")
        expect(page.get_by_role("heading", name="Needs a person")).to_be_visible()
        dashboard.open("presence")
        expect(page.get_by_role("heading", name="Presence", exact=True)).to_be_visible()


def test_no_sentence_carries_marks_that_hide_or_turn_text(dashboard: Dashboard, shop: Checkout) -> None:
    """Neither a row nor the news that are read aloud, nor what the browser shows of a question."""
    page = dashboard.open("queue")
    expect(page.locator("#live")).to_have_text("live")
    shop.enqueue("turned")
    shop.park("turned", TURNED)
    expect(page.locator("#missions .row", has_text="turned").locator(".note")).to_have_text(WRITTEN)

    dashboard.says(rf"(^|; )turned is parked: {re.escape(WRITTEN)}(; and [0-9]+ more)?\.$")
    shop.served.ask("POST", "/v1/missions/turned/cancel")


def test_a_payload_of_a_megabyte_leaves_the_page_quick(browser: Browser, shop: Checkout) -> None:
    """Its beginning is shown, and where the rest is; what has not changed is not drawn again under a selection."""
    body = {"title": "heavy", "payload": "P" * 1_000_000, "kind": "heavy"}
    item = shop.served.ask("POST", "/v1/work", body).json["id"]
    with looking(browser, shop, shop.served.key) as one:
        page = one.open(f"item/{item}")
        part = page.get_by_role("region", name="Payload").first
        expect(part).to_contain_text(f"900,000 characters are left out: kranzq work show {item}")
        assert len(part.locator("pre").inner_text()) == 100_000
        page.evaluate("() => { document.querySelector('pre').dataset.mine = 'yes'; }")
        token = shop.served.agent("porter")
        assert shop.served.ask("POST", "/v1/work/claim", {"kind": "heavy"}, token=token).status == 200
        expect(page.locator(".headline")).to_contain_text("claimed attempt 1")

        expect(part.locator("pre")).to_have_attribute("data-mine", "yes")


def test_what_has_the_focus_is_not_behind_the_footer(browser: Browser, shop: Checkout) -> None:
    """By Tab through a long list, in a window that shows a part of it."""
    names = [f"far-below-{number:02d}" for number in range(12)]
    for name in names:
        shop.enqueue(name)
    with looking(browser, shop, shop.served.key, viewport={"width": 1280, "height": 400}) as one:
        page = one.open("queue")
        expect(page.get_by_role("link", name=names[-1])).to_be_visible()
        page.get_by_role("link", name=names[0]).focus()
        covered = []
        for _ in range(40):
            page.keyboard.press("Tab")
            covered += page.evaluate(
                """() => {
                  const { bottom } = document.activeElement.getBoundingClientRect();
                  const footer = document.querySelector(".bottom");
                  const over = bottom > footer.getBoundingClientRect().top + 1;
                  return over && !footer.contains(document.activeElement) ? [document.activeElement.outerHTML] : [];
                }"""
            )
        assert covered == []
    for name in names:
        shop.served.ask("POST", f"/v1/missions/{name}/cancel")


def test_a_telephone_that_enlarges_everything_shows_all_of_it(browser: Browser, shop: Checkout) -> None:
    """At twice the size on 360 pixels nothing lies beside the screen, and what stays in place covers little."""
    name = "m" * 128
    how: dict[str, Any] = {"viewport": {"width": 180, "height": 370}, "device_scale_factor": 2}
    shop.enqueue(name)
    with looking(browser, shop, shop.served.key, **how) as one:
        for view in ("", "queue", "work", "presence", "trends", f"mission/{name}"):
            page = one.open(view)
            expect(page.locator("#live")).to_have_text("live")
            expect(page.get_by_text("Asking …")).to_have_count(0)
            assert (view, page.evaluate(WIDER)) == (view, 0)
        assert one.page.locator(".bottom").evaluate("(one) => getComputedStyle(one).position") == "static"
    shop.served.ask("POST", f"/v1/missions/{name}/cancel")


def test_a_stream_that_ends_at_once_is_not_begun_again_without_a_pause(browser: Browser, shop: Checkout) -> None:
    """As while the store does not answer: a hundred pages would ask as often as they can."""
    with looking(browser, shop, shop.served.key) as one:
        asked: list[str] = []

        def bye(route: Route) -> None:
            asked.append(route.request.url)
            said = 'retry: 1000\n\nevent: bye\ndata: {"why":"the store does not answer"}\n\n'
            route.fulfill(body=said, headers={"content-type": "text/event-stream"})

        one.page.route("**/v1/events", bye)
        one.stand_still()
        page = one.open("presence")
        expect(page.locator("#live")).to_have_text(re.compile("^not live since"))
        page.evaluate("async () => { for (let at = 0; at < 50; at += 1) await fetch('/v1/session'); }")

        def came_again() -> bool:
            page.evaluate("() => 0")  # what it asks is heard of while somebody speaks to it
            return len(asked) == 2

        assert len(asked) == 1
        page.clock.run_for(1000)
        wait_for(came_again, "after a pause it is begun again")


def test_older_items_are_as_true_as_the_newest(browser: Browser, shop: Checkout) -> None:
    """What came by "Show older ones" is asked again with the rest: nothing falls between, nothing stays as it was."""
    said = [{"title": f"older-{number:03d}", "payload": "p", "kind": "older"} for number in range(63)]
    made = [shop.served.ask("POST", "/v1/work", one).json["id"] for one in said[:60]]
    with looking(browser, shop, shop.served.key) as one:
        page = one.open("work/open")
        page.get_by_role("button", name="Show older ones").click()
        row = page.locator("#items .row", has_text="older-")
        expect(row).to_have_count(60)
        shop.served.ask("DELETE", f"/v1/work/{made[0]}", {"reason": "r"})
        expect(row).to_have_count(59)
        made += [shop.served.ask("POST", "/v1/work", one).json["id"] for one in said[60:]]

        expect(row).to_have_count(62)
    for item in made:
        shop.served.ask("DELETE", f"/v1/work/{item}", {"reason": "r"})
