"""B84: whatever somebody else wrote stays text: in lists, on pages, in titles, in what arrives live, in questions."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from kranzq import work
from tests.browsing import Checkout, Dashboard
from tests.laboratory import wait_for

HOSTILE = (
    "<img src=x onerror=hit()>",
    "</script><script>hit()</script>",
    '" onmouseover="hit()" x=\'',
    "javascript:hit()",
    "{{constructor.constructor('hit()')()}}",
)
TURNED = "invoice\u202egnp.exe"
"""Read by a browser that obeys it: invoiceexe.png."""
MADE = """() => [
  document.querySelectorAll("main img, main script, main iframe, main [onerror], main [onmouseover]").length,
  window.hits,
]"""


def nothing_hit(page: Page) -> None:
    """No element was made of a text, and nothing ran."""
    assert page.evaluate(MADE) == [0, 0]


def watch(dashboard: Dashboard) -> Page:
    """A page on which a script that ran would have left a trace."""
    dashboard.page.add_init_script("window.hits = 0; window.hit = () => { window.hits += 1; }")
    return dashboard.page


def test_items_are_text(dashboard: Dashboard, shop: Checkout) -> None:
    """Title, kind, group, payload, holder, result; in the list, live, on the item's own page."""
    page = watch(dashboard)
    dashboard.open("work")
    token = shop.served.agent("<b>agent</b>", groups=("<i>group</i>",))
    for text in HOSTILE:
        body = {
            "title": text,
            "payload": f"{text}\n\x1b[31mred\x1b[0m \x07",
            "kind": f"k{text}"[:60],
            "target_group": "<i>group</i>",
        }
        made = shop.served.ask("POST", "/v1/work", body).json["item"]
        claimed = shop.served.ask(
            "POST", "/v1/work/claim", {"kind": body["kind"], "groups": ["<i>group</i>"]}, token=token
        ).json
        end = {"attempt": claimed["attempt"], "result": text}
        assert shop.served.ask("POST", f"/v1/work/{made['id']}/complete", end, token=token).status == 200
        row = page.locator("#items .row").filter(has=page.get_by_role("link", name=text, exact=True))
        expect(row).to_contain_text("last with <b>agent</b>")
        row.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(text)
        expect(page.get_by_role("region", name="Payload").locator("pre")).to_have_text(f"{text}\nred ␇")
        expect(page.get_by_role("region", name="Result").locator("pre")).to_have_text(text)
        expect(page.get_by_role("cell", name="<b>agent</b>")).to_be_visible()
        nothing_hit(page)
        page.go_back()
    nothing_hit(page)


def test_what_turns_text_around_is_shown(dashboard: Dashboard, shop: Checkout) -> None:
    """Marks that hide or reverse what follows are written out."""
    with work.open(shop.served.url) as store:
        store.enqueue(work.NewItem(title=TURNED, payload="p"))
    page = dashboard.open("work")

    expect(page.get_by_role("link", name="invoice\\u202egnp.exe", exact=True)).to_be_visible()


def test_missions_are_text(dashboard: Dashboard, shop: Checkout) -> None:
    """Reasons, names of files in the quarantine, output, the reason of an end, in the overview as in the queue."""
    page = watch(dashboard)
    dashboard.open()
    shop.enqueue("evil", "printf", "%s\\n", *HOSTILE, "\x1b]0;title\x07", priority=0)
    shop.enqueue("evil-parked")
    shop.park("evil-parked", HOSTILE[0])
    bad = shop.queue / "quarantine" / "002-00000000000000000777-<img src=x onerror=hit()>.json"
    bad.parent.mkdir(exist_ok=True)
    bad.write_text("{")
    (bad.parent / f"{bad.name}.why.json").write_text('{"why": "<img src=x onerror=hit()>"}')
    needs = page.get_by_role("region", name="Needs a person")
    expect(needs).to_contain_text(HOSTILE[0])
    expect(needs).to_contain_text("<img src=x onerror=hit()>.json")
    shop.cli("drain", "--once").wait()
    dashboard.open("mission/evil")
    expect(page.get_by_role("log")).to_have_text("\n".join([*HOSTILE, "␛]0;title␇", ""]))
    nothing_hit(page)
    dashboard.open("queue")
    expect(page.get_by_role("region", name="Files that are no entries")).to_contain_text("onerror=hit()>.json")
    expect(page.locator("#missions")).to_contain_text(HOSTILE[0])
    page.get_by_role("searchbox", name="Filter").fill("onerror")
    expect(page.locator("#missions .row")).to_have_count(1)
    nothing_hit(page)
    for path in bad.parent.iterdir():
        path.unlink()
    shop.served.ask("POST", "/v1/missions/evil-parked/cancel")


def test_presence_and_addresses_are_text(dashboard: Dashboard, shop: Checkout) -> None:
    """Repository, path, topic, note; and what stands in the address of the page."""
    page = watch(dashboard)
    token = shop.served.agent("<u>who</u>")
    for text in HOSTILE:
        body = {"repo": "o/r", "branch": text, "path": f"p/{text}", "topic": text, "note": text}
        assert shop.served.ask("POST", "/v1/work-claims", body, token=token).status == 200
    dashboard.open("presence")
    expect(page.get_by_text("<u>who</u>")).to_have_count(len(HOSTILE))
    nothing_hit(page)
    dashboard.expected.append("status of 40[04]")
    dashboard.open("mission/%3Cimg%20src%3Dx%20onerror%3Dhit()%3E")
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("^<img src=x"))
    expect(page.get_by_role("region", name="Why")).to_contain_text("is no mission id")
    nothing_hit(page)
    shop.served.ask("POST", "/v1/work-claims/release", {}, token=token)


def test_a_script_in_the_page_would_not_run(dashboard: Dashboard) -> None:
    """The policy itself: what a fault of ours might let in is stopped by the browser, and this test would see it."""
    page = watch(dashboard)
    dashboard.expected += ["The action has been blocked", "^error: policy: (require-trusted-types-for|style-src)"]
    dashboard.open("trends")
    expect(page.get_by_role("heading", name="Trends")).to_be_visible()
    page.evaluate(
        """() => {
          const tried = [
            () => document.createElement("img").setAttribute("onerror", "hit()"),
            () => document.body.insertAdjacentHTML("beforeend", "<b id=made>x</b>"),
            () => { const one = document.createElement("script"); one.text = "hit()"; document.body.append(one); },
            () => { const one = document.createElement("b"); one.setAttribute("style", "color: red"); },
          ];
          for (const one of tried) try { one(); } catch {}
        }"""
    )

    def is_told() -> bool:
        page.evaluate("() => 0")  # what it says is heard of while somebody speaks to it
        return any(one.startswith("error: policy: require-trusted-types-for") for one in dashboard.faults)

    assert page.evaluate("() => [window.hits, document.getElementById('made')]") == [0, None]
    wait_for(is_told, "the page says what the policy has stopped")
