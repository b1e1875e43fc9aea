"""What a person does on the dashboard is done: each button, with its effect as it lies on disk."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Locator, Page, expect

from kranzq import work
from tests.browsing import REFUSED, Checkout, Dashboard
from tests.laboratory import wait_for


def row(page: Page, name: str) -> Locator:
    """The row of a mission in the queue."""
    return page.locator("#missions .row").filter(has=page.get_by_role("link", name=name, exact=True))


@pytest.fixture
def queue(dashboard: Dashboard) -> Page:
    """The view of the queue."""
    return dashboard.open("queue")


def test_priority(queue: Page, dashboard: Dashboard, shop: Checkout) -> None:
    """The name of the file bears it."""
    shop.enqueue("sooner", priority=7)
    row(queue, "sooner").get_by_role("button", name="Priority sooner").click()
    dialog = queue.get_by_role("dialog", name="Priority of sooner")
    expect(dialog.get_by_label("0 to 255")).to_have_value("7")
    dialog.get_by_label("0 to 255").fill("1")
    dialog.get_by_role("button", name="Set it").click()

    expect(row(queue, "sooner")).to_contain_text("priority 1")
    assert next(name for name in shop.names() if name.endswith("-sooner.json")).startswith("001-")
    dashboard.says("sooner is queued, priority 1")


def test_park_and_unpark(queue: Page, shop: Checkout) -> None:
    """With the reason beside the entry; and back in its place."""
    shop.enqueue("wavering")
    row(queue, "wavering").get_by_role("button", name="Park").click()
    dialog = queue.get_by_role("dialog", name="Park wavering?")
    dialog.get_by_label("Reason").fill("not <b>today</b>")
    dialog.get_by_role("button", name="Park it").click()

    expect(row(queue, "wavering")).to_contain_text("not <b>today</b>")
    (entry,) = [name for name in shop.names("parked") if name.endswith("-wavering.json")]
    assert "not <b>today</b>" in (shop.queue / "parked" / f"{entry}.why.json").read_text()

    row(queue, "wavering").get_by_role("button", name="Unpark").click()
    expect(row(queue, "wavering")).to_contain_text("queued")
    assert [name for name in shop.names() if name.endswith("-wavering.json")]
    wait_for(lambda: not [name for name in shop.names("parked") if "-wavering." in name], "its reason goes after it")


def test_cancel_asks_first(queue: Page, shop: Checkout) -> None:
    """Keep it, or Escape, changes nothing; yes removes the entry, and the reason stays with the end."""
    shop.enqueue("doomed")
    button = row(queue, "doomed").get_by_role("button", name="Cancel doomed")
    asked = queue.get_by_role("dialog", name="Cancel mission doomed?")
    button.click()
    asked.get_by_role("button", name="Keep it").click()
    expect(button).to_be_focused()
    expect(button).not_to_have_attribute("aria-disabled", "true")
    button.press("Enter")
    expect(asked).to_be_visible()
    queue.keyboard.press("Escape")
    expect(queue.get_by_role("dialog")).to_have_count(0)
    assert [name for name in shop.names() if name.endswith("-doomed.json")]

    button.click()
    queue.get_by_label("Reason").fill("no more")
    queue.get_by_role("button", name="Yes, cancel it").click()
    expect(row(queue, "doomed")).to_have_count(0)
    assert not [name for name in shop.names() if "-doomed." in name]
    record = json.loads((shop.served.cwd / ".kranz/missions/doomed/dispatch/001/run.json").read_text())
    assert (record["outcome"], "no more" in record["reason"]) == ("cancelled", True)


def test_retry(dashboard: Dashboard, shop: Checkout) -> None:
    """What has ended is queued once more, from the list and from its own page."""
    shop.enqueue("tried", "sh", "-c", "exit 3", priority=0)
    shop.drain()
    page = dashboard.open("queue")
    ended = page.get_by_role("region", name="Ended lately").locator(".row").filter(has_text="tried")
    expect(ended).to_contain_text("exit code 3")
    ended.get_by_role("button", name="Retry tried").click()
    expect(row(page, "tried")).to_contain_text("queued")
    assert [name for name in shop.names() if name.endswith("-tried.json")]

    shop.served.ask("POST", "/v1/missions/tried/cancel")
    page = dashboard.open("mission/tried")
    page.get_by_role("button", name="Retry tried").click()
    expect(page.get_by_role("button", name="Cancel tried")).to_be_visible()
    assert [name for name in shop.names() if name.endswith("-tried.json")]
    shop.served.ask("POST", "/v1/missions/tried/cancel")


def test_run_now(queue: Page, shop: Checkout) -> None:
    """What waits for its time need not; what waits for others has no such button."""
    shop.enqueue("tomorrow", not_before="+24h")
    shop.enqueue("behind", after=["tomorrow"])
    expect(row(queue, "behind").get_by_role("button")).to_have_text(["Priority", "Park", "Cancel"])
    row(queue, "tomorrow").get_by_role("button", name="Run now").click()

    expect(row(queue, "tomorrow")).to_contain_text("queued")
    assert [name for name in shop.names() if name.endswith("-tomorrow.json")]
    for mission in ("behind", "tomorrow"):
        shop.served.ask("POST", f"/v1/missions/{mission}/cancel")


def test_what_is_refused_is_said(dashboard: Dashboard, shop: Checkout) -> None:
    """In the server's words, with the next step; the row stays as it is."""
    dashboard.expected.append(REFUSED)
    shop.enqueue("moved-away")
    page = dashboard.open("queue")
    button = row(page, "moved-away").get_by_role("button", name="Park moved-away")
    button.click()
    shop.served.ask("POST", "/v1/missions/moved-away/cancel")
    page.get_by_role("button", name="Park it").click()

    toast = page.locator("#faults .toast")
    expect(toast).to_contain_text("Mission moved-away is not in the queue")
    toast.get_by_role("button", name="Close this message").click()
    expect(toast).to_have_count(0)


def test_an_item_is_cancelled(dashboard: Dashboard, shop: Checkout) -> None:
    """After a question; its history tells why."""
    made = shop.served.ask("POST", "/v1/work", {"title": "Nobody wants it", "payload": "p"}).json["item"]
    page = dashboard.open("work")
    page.locator("#items .row").filter(has_text="Nobody wants it").get_by_role("button", name="Cancel").click()
    page.get_by_label("Reason").fill("superseded")
    page.get_by_role("button", name="Yes, cancel it").click()

    def state() -> bool:
        with work.open(shop.served.url) as store:
            return store.show(made["id"]).state.value == "cancelled"

    wait_for(state, "the store has it as cancelled")
    expect(page.locator("#items .row").filter(has_text="Nobody wants it")).to_contain_text("cancelled")
