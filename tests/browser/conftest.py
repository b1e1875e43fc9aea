"""A Chromium for the tests of one module, and one server; take names of your own for missions and items.

Playwright keeps an event loop running in the thread of the tests, in which no other test could have one of its own: so
it ends with its module, before others come.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browsing import MISSING, Checkout, Dashboard, is_there, launch, looking


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    if not is_there():
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        one = launch(playwright)
        yield one
        one.close()


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A server with missions, which tests share."""
    one = Checkout.at(tmp_path_factory.mktemp("dashboard"))
    try:
        one.served.start()
        yield one
    finally:
        one.served.kill()


@pytest.fixture
def dashboard(browser: Browser, shop: Checkout) -> Iterator[Dashboard]:
    """A page, signed in as the operator."""
    with looking(browser, shop, shop.served.key) as one:
        yield one
