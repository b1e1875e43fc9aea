"""Signing in to the dashboard and out: by a token that is kept nowhere, for a cookie that no script reads."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, expect

from kranzq import work
from kranzq.model.agents import Scope
from tests.browsing import REFUSED, Checkout, Dashboard, looking

KEPT = "() => JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, location.href])"


def sign_in(page: Page, token: str) -> None:
    """As a person does."""
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_a_token_becomes_a_cookie_that_no_script_reads(browser: Browser, shop: Checkout) -> None:
    """It is HttpOnly and SameSite=Strict; the token itself is neither kept by the page nor in the server's log."""
    with looking(browser, shop) as one:
        page = one.open("queue")
        sign_in(page, f"  {shop.served.key} ")
        expect(page.get_by_role("heading", name="Queue", exact=True)).to_be_visible()
        (cookie,) = page.context.cookies()

        assert (cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (True, "Strict", -1)
        assert page.evaluate(KEPT) == f'["",{{}},{{}},"{one.url}/#/queue"]'
        assert shop.served.key not in cookie["value"] + page.content() + shop.served.log.read_text()


def test_signing_out_ends_the_session_for_good(dashboard: Dashboard) -> None:
    """Also for whoever has copied the cookie; what was shown is gone from the page."""
    dashboard.stand_still()  # what the page asked by itself in that moment would be refused, and told as a fault
    page = dashboard.open("presence")
    expect(page.locator("#live")).to_have_text("live")
    (cookie,) = page.context.cookies()
    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text(["You are signed out.", ""])
    expect(page.get_by_role("navigation")).to_have_count(0)
    said = {"Cookie": f"{cookie.get('name')}={cookie.get('value')}", "Sec-Fetch-Site": "same-origin"}
    assert dashboard.checkout.served.ask("GET", "/v1/status", headers=said, tcp=True).status == 401
    page.reload()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_wrong_token_is_refused_in_words(browser: Browser, shop: Checkout) -> None:
    """Nothing is shown, and the next one may be right. What is no token at all does not even leave the page."""
    with looking(browser, shop) as one:
        one.expected.append(REFUSED)
        page = one.open()
        for wrong in ("kqo_" + "A" * 43, "two words", "ключ", "' or 1=1 --"):
            sign_in(page, wrong)
            expect(page.get_by_role("alert").first).to_have_text(
                "This token opens nothing here. Was it mistyped, rotated or revoked?"
            )
        assert page.context.cookies() == []
        sign_in(page, shop.served.key)

        expect(page.get_by_role("heading", name="Needs a person")).to_be_visible()


def test_a_revoked_token_shows_the_sign_in_again(browser: Browser, shop: Checkout) -> None:
    """At once, by the stream of events or by the next question, with the reason; and signed in anew one is back."""
    token = shop.served.agent("leaver", scopes=(Scope.READ,))
    with looking(browser, shop, token) as one:
        one.expected.append(REFUSED)
        page = one.open("work")
        expect(page.get_by_role("heading", name="Work items")).to_be_visible()
        with work.open(shop.served.url) as store:
            store.agents.revoke("leaver")
        page.evaluate("() => { location.hash = '#/presence'; }")  # the links may be gone already

        expect(page.get_by_role("alert").first).to_contain_text("or its token was rotated or revoked")
        sign_in(page, shop.served.key)
        expect(page.get_by_role("heading", name="Presence")).to_be_visible()


def test_who_may_only_look_has_no_buttons(browser: Browser, shop: Checkout) -> None:
    """And is told so; there is nothing to try in vain."""
    shop.enqueue("looked-at")
    token = shop.served.agent("looker", scopes=(Scope.READ,))
    with looking(browser, shop, token) as one:
        page = one.open("queue")
        expect(page.get_by_role("link", name="looked-at")).to_be_visible()

        expect(page.get_by_text("looker looks only")).to_be_visible()
        expect(page.locator("main").get_by_role("button")).to_have_count(0)
    shop.served.ask("POST", "/v1/missions/looked-at/cancel")
