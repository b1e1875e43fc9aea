"""The original paths as an existing client knows them: every call, field, default and code, replayed on a real server.

Whoever wrote a client from the description of AgentMux (its HTTP, its identity rules, its work claims) finds each
sentence of it here. Fields that are new are allowed; those that are described may not be missing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kranzq import work
from tests.servers import Answer, Served, serving

COLUMNS = (
    "id title payload kind target_agent target_group priority state claimed_by target_agent_uid claimed_by_uid "
    "claim_expires attempts max_attempts created_by created_by_uid created_at updated_at not_before result"
).split()
NEW = {"title": "a title", "payload": "a prompt"}
WORK, CLAIM = "/agentmux/work", "/agentmux/work/claim"


@pytest.fixture(scope="module")
def mux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of its own: what is claimed here is nobody else's."""
    with serving(tmp_path_factory.mktemp("mux"), "--listen", "127.0.0.1:0") as one:
        yield one


@pytest.fixture(autouse=True)
def nothing_left(mux: Served) -> None:
    """Each test begins with no item that could be claimed, and without presence claims."""
    with work.open(mux.url) as store:
        for state in (work.ItemState.OPEN, work.ItemState.CLAIMED, work.ItemState.LAPSED, work.ItemState.DELAYED):
            for one in store.entries(state):
                store.cancel(one.id)
        for claim in store.presence.live():
            store.presence.release(work.Holder(claim.agent, uid=claim.agent_uid))


def call(mux: Served, method: str, path: str, body: object = None, **headers: str) -> Answer:
    """A call as such a client makes it: over TCP, with the instance's key."""
    said = {"X-AuthKey": mux.key} | {name.replace("_", "-"): text for name, text in headers.items()}
    return mux.ask(method, path, body, headers=said, tcp=True)


def enqueue(mux: Served, **fields: Any) -> str:
    """A new item's id."""
    return str(call(mux, "POST", WORK, NEW | fields).json["id"])


def claim(mux: Served, name: str = "AgentX", **fields: Any) -> Any:
    """What a claim answers."""
    return call(mux, "POST", CLAIM, {"agent_id": name} | fields).json


def holder(mux: Served, item: str, verb: str, attempt: int = 1, name: str = "AgentX", **fields: Any) -> Answer:
    """A call of a holder."""
    return call(mux, "POST", f"{WORK}/{item}/{verb}", {"agent_id": name, "attempt": attempt} | fields)


def shown(mux: Served, item: str) -> dict[str, Any]:
    """An item as the list shows it."""
    (found,) = [one for one in call(mux, "GET", f"{WORK}?limit=500").json["items"] if one["id"] == item]
    return dict(found)


def counters(mux: Served) -> dict[str, int]:
    """The fallbacks."""
    return dict(call(mux, "GET", "/agentmux/identity/fallbacks").json["counters"])


def test_enqueue_answers_the_id_and_the_defaults_are_kept(mux: Served) -> None:
    """200 `{"id"}`, a UUID; every column has its default, in the order of the table."""
    answer = call(mux, "POST", WORK, NEW)
    item = shown(mux, answer.json["id"])

    assert (answer.status, list(answer.json)) == (200, ["id"])
    assert len(answer.json["id"]) == 36
    assert list(item)[: len(COLUMNS)] == COLUMNS
    expected = {
        "title": "a title",
        "payload": "a prompt",
        "kind": "",
        "target_agent": "",
        "target_group": "",
        "priority": 0,
        "state": "open",
        "claimed_by": "",
        "target_agent_uid": "",
        "claimed_by_uid": "",
        "claim_expires": None,
        "attempts": 0,
        "max_attempts": 3,
        "created_by": "",
        "created_by_uid": "",
        "not_before": None,
        "result": "",
    }
    assert {name: item[name] for name in expected} == expected
    assert abs(item["created_at"] - time.time() * 1000) < 60_000


def test_enqueue_keeps_what_is_said(mux: Served) -> None:
    """Each field as it came; `max_attempts` of zero or less is 3; unknown fields are ignored."""
    later = round(time.time() * 1000) + 3_600_000
    said = {"kind": "k", "target_agent": "AgentY", "target_agent_uid": "u-1", "priority": -7, "created_by": "AgentZ"}
    item = shown(mux, enqueue(mux, **said, max_attempts=9, not_before=later, unknown="x"))

    assert {name: item[name] for name in said} == said
    assert (item["max_attempts"], item["not_before"], item["state"]) == (9, later, "open")
    assert [shown(mux, enqueue(mux, max_attempts=number))["max_attempts"] for number in (0, -1, None)] == [3, 3, 3]
    assert shown(mux, enqueue(mux, target_group="g"))["target_group"] == "g"


@pytest.mark.parametrize(
    "fields",
    [
        {"title": ""},
        {"title": "  "},
        {"payload": ""},
        {"target_agent": "a", "target_group": "g"},
        {"target_agent_uid": "u", "target_group": "g"},
    ],
)
def test_enqueue_refuses_blanks_and_both_targets(mux: Served, fields: dict[str, str]) -> None:
    """400 `{"error"}`."""
    answer = call(mux, "POST", WORK, NEW | fields)

    assert (answer.status, "ok" in answer.json) == (400, False)
    assert answer.json["error"]


@pytest.mark.parametrize("body", [{}, {"title": "a"}, {"title": 1, "payload": "b"}, {"title": "a", "payload": None}])
def test_missing_and_mistyped_fields_are_a_fault_of_the_shape(mux: Served, body: dict[str, object]) -> None:
    """The framework's own 4xx there, 422 here, in the form of every other fault."""
    assert call(mux, "POST", WORK, body).status == 422
    assert call(mux, "POST", WORK, b"{").status == 400


def test_claim_gives_the_first_by_priority_then_age(mux: Served) -> None:
    """200 with `claimed`, `attempt` and the item; `{"claimed":false}` when there is none. Higher goes first."""
    first, second, urgent = enqueue(mux), enqueue(mux), enqueue(mux, priority=5)
    given = [claim(mux) for _ in range(3)]

    assert list(given[0]) == ["claimed", "attempt", "item"]
    assert [one["item"]["id"] for one in given] == [urgent, first, second]
    assert {(one["claimed"], one["attempt"], one["item"]["attempts"], one["item"]["state"]) for one in given} == {
        (True, 1, 1, "claimed")
    }
    assert claim(mux) == {"claimed": False}


def test_claim_takes_what_it_may(mux: Served) -> None:
    """By kind (blank and null are none), by one's group, by name ignoring case; by uid, and then never by name."""
    enqueue(mux, kind="k", target_group="g")
    enqueue(mux, target_agent="AgentY")
    enqueue(mux, target_agent_uid="u-1", target_agent="AgentZ")

    assert claim(mux) == claim(mux, kind="other", groups=["g"]) == {"claimed": False}
    assert claim(mux, kind="k", groups=["g"])["claimed"]
    assert claim(mux, "AgentZ") == {"claimed": False}
    assert claim(mux, "anybody", agent_uid="u-1", kind=None)["claimed"]
    assert claim(mux, "agenty", kind="", block_id="b")["claimed"]


@pytest.mark.parametrize(("said", "expected"), [(None, 120_000), (0, 120_000), (-5, 120_000), (60_000, 60_000)])
def test_a_lease_that_is_not_above_zero_is_two_minutes(mux: Served, said: int | None, expected: int) -> None:
    """Null, zero and negative; of a claim and of a heartbeat."""
    enqueue(mux)
    begun = time.time() * 1000
    item = claim(mux, lease_ms=said)["item"]
    holder(mux, item["id"], "heartbeat", lease_ms=said)

    assert abs(item["claim_expires"] - begun - expected) < 30_000
    assert abs(shown(mux, item["id"])["claim_expires"] - begun - expected) < 30_000


def test_claim_without_a_name_is_refused(mux: Served) -> None:
    """400 for a blank `agent_id`, 422 for none."""
    assert call(mux, "POST", CLAIM, {"agent_id": " "}).status == 400
    assert call(mux, "POST", CLAIM, {}).status == 422


def test_a_holder_renews_completes_and_releases(mux: Served) -> None:
    """`{"ok":true}`, with the state after a release: `open`, or `failed` when the attempts are used up."""
    item = enqueue(mux, max_attempts=2)
    claim(mux)
    renewed = holder(mux, item, "heartbeat", result="ignored")
    released = holder(mux, item, "release", result="could not")
    after = shown(mux, item)
    claim(mux)
    parked = holder(mux, item, "release", 2)

    assert (renewed.status, renewed.json) == (200, {"ok": True})
    assert (released.status, released.json) == (200, {"ok": True, "state": "open"})
    assert (after["state"], after["claimed_by"], after["result"], after["attempts"]) == ("open", "", "could not", 1)
    assert parked.json == {"ok": True, "state": "failed"}

    item = enqueue(mux)
    claim(mux)
    assert holder(mux, item, "complete", result="a note").json == {"ok": True}
    done = shown(mux, item)
    assert (done["state"], done["result"], done["claim_expires"], done["claimed_by"]) == (
        "done",
        "a note",
        None,
        "AgentX",
    )


def test_a_release_that_is_repeated_tells_what_it_did(mux: Served) -> None:
    """The answer was lost, and somebody else has the item by now: still `open`, for that is what became of it then."""
    item = enqueue(mux)
    claim(mux)
    first = holder(mux, item, "release").json
    claim(mux, "AgentY")

    assert holder(mux, item, "release").json == first == {"ok": True, "state": "open"}


@pytest.mark.parametrize("field", ["agent_id", "agent_uid", "kind"])
def test_a_name_that_is_too_long_is_refused(mux: Served, field: str) -> None:
    """400, also where a token says who calls."""
    token = mux.agent(f"Long {field}")
    body = {"agent_id": "AgentX"} | {field: "x" * 201}

    assert call(mux, "POST", CLAIM, body, X_Agent_Token=token).status == 400
    assert call(mux, "POST", CLAIM, body).status == 400
    if field == "agent_id":
        assert holder(mux, enqueue(mux), "release", name="x" * 201).status == 400
    assert counters(mux), "what was refused is not looked up either"


@pytest.mark.parametrize("verb", ["heartbeat", "complete", "release"])
def test_a_wrong_holder_a_stale_fence_and_an_unknown_id_are_409(mux: Served, verb: str) -> None:
    """Alike, with `{"ok":false,"error"}`, never 404."""
    item = enqueue(mux)
    unclaimed = holder(mux, item, verb)
    claim(mux)
    answers = [
        unclaimed,
        holder(mux, item, verb, name="AgentY"),
        holder(mux, item, verb, 2),
        holder(mux, "no-such-id", verb),
    ]

    assert {one.status for one in answers} == {409}
    assert {next(iter(one.json)) for one in answers} == {"ok"}
    assert not [one for one in answers if one.json["ok"] or not one.json["error"]]


def test_list_is_newest_change_first_and_clamped(mux: Served) -> None:
    """`{"items"}`; 50 if nothing is said, from 1 to 500; a state, or blank for all; none for an unknown one."""
    items = [enqueue(mux) for _ in range(52)]
    claim(mux)

    def listed(query: str) -> list[str]:
        return [one["id"] for one in call(mux, "GET", f"{WORK}?{query}").json["items"]]

    assert listed("")[0] == items[0]  # just claimed
    assert len(listed("")) == 50
    assert [len(listed(f"limit={number}")) for number in (0, -3, 1, 51)] == [1, 1, 1, 51]
    assert len(listed("limit=9999")) >= 52
    assert listed("state=claimed") == items[:1]
    assert set(items[1:]) <= set(listed("state=open&limit=500"))
    assert listed("state=nonsense") == listed("state=lapsed") == listed("state=delayed") == []


def test_what_waits_and_what_lapsed_is_open(mux: Served) -> None:
    """Not due yet, or a lease that is over: `open` without a holder, and found as such."""
    waits = enqueue(mux, not_before=round(time.time() * 1000) + 3_600_000)
    lapses = enqueue(mux)
    assert claim(mux, lease_ms=1)["item"]["id"] == lapses
    with work.open(mux.url) as store:
        while store.show(lapses).state is not work.ItemState.LAPSED:
            store.sweep()
    for item in (waits, lapses):
        found = shown(mux, item)
        assert (found["state"], found["claimed_by"], found["claimed_by_uid"]) == ("open", "", "")
        assert found["claim_expires"] is None
    assert {waits, lapses} <= {one["id"] for one in call(mux, "GET", f"{WORK}?state=open").json["items"]}


def test_cancel_takes_an_optional_reason(mux: Served) -> None:
    """200 `{"ok":true}` for open and claimed; 409 `{"ok":false,"error"}` for what has ended, and for an unknown id."""
    first, second = enqueue(mux), enqueue(mux)
    claim(mux)
    done = [call(mux, "DELETE", f"{WORK}/{first}"), call(mux, "DELETE", f"{WORK}/{second}", {"reason": "why"})]
    refused = [call(mux, "DELETE", f"{WORK}/{first}"), call(mux, "DELETE", f"{WORK}/no-such-id")]

    assert [(one.status, one.json) for one in done] == [(200, {"ok": True})] * 2
    assert (shown(mux, second)["state"], shown(mux, second)["result"]) == ("cancelled", "why")
    assert shown(mux, first)["claimed_by"] == ""
    assert [(one.status, one.json["ok"]) for one in refused] == [(409, False)] * 2


def test_every_answer_tells_the_version(mux: Served) -> None:
    """`x-agentmux-srv-version`, also with faults."""
    answers = [
        call(mux, "GET", WORK),
        call(mux, "GET", "/nothing"),
        mux.ask("GET", WORK, tcp=True),
        call(mux, "POST", WORK, b"{"),
    ]

    assert all(one.headers["x-agentmux-srv-version"] for one in answers)


def test_the_key_is_needed_and_options_passes(mux: Served) -> None:
    """401 `{"error":"unauthorized"}` without or with a wrong one; a preflight of an own page needs none."""
    refused = [mux.ask("GET", WORK, tcp=True), mux.ask("GET", WORK, headers={"X-AuthKey": "x"}, tcp=True)]
    own = {"Origin": f"http://{mux.address}", "Access-Control-Request-Method": "POST"}

    assert [(one.status, one.json["error"]) for one in refused] == [(401, "unauthorized")] * 2
    assert mux.ask("OPTIONS", WORK, headers=own, tcp=True).status == 204


def test_an_agent_token_attributes_and_never_authorises(mux: Served) -> None:
    """With the key it gives the uid of who enqueues and claims; alone it opens nothing; an unknown one is nobody's."""
    token = mux.agent("Attributed")
    uid = call(mux, "GET", "/v1/agent", X_Agent_Token=token).json["uid"]
    made = call(mux, "POST", WORK, NEW | {"created_by": "Attributed"}, X_Agent_Token=token).json["id"]
    given = call(mux, "POST", CLAIM, {"agent_id": "Attributed", "agent_uid": "another"}, X_Agent_Token=token).json
    before = counters(mux)["m4.token_unknown"]
    unknown = call(mux, "POST", WORK, NEW, X_Agent_Token="nobody's").json["id"]

    assert shown(mux, made)["created_by_uid"] == uid
    assert (given["item"]["claimed_by"], given["item"]["claimed_by_uid"]) == ("Attributed", uid)
    assert mux.ask("GET", WORK, headers={"X-Agent-Token": token}, tcp=True).status == 401
    assert shown(mux, unknown)["created_by_uid"] == ""
    assert counters(mux)["m4.token_unknown"] == before + 1


def test_a_claim_without_a_token_takes_the_carried_uid_and_a_holder_has_none(mux: Served) -> None:
    """Uid by token, else as carried, else blank. A holder's call has a uid by token only: then it matches by name."""
    enqueue(mux)
    carried = claim(mux, agent_uid="u-carried")["item"]
    before = counters(mux)
    renewed = holder(mux, carried["id"], "heartbeat")

    assert carried["claimed_by_uid"] == "u-carried"
    assert renewed.status == 200
    assert counters(mux)["m4c.holder_by_name"] == before["m4c.holder_by_name"] + 1


def test_a_holder_with_another_uid_is_refused_though_the_name_fits(mux: Served) -> None:
    """Both uids there and different: 409."""
    mine, other = mux.agent("Twin"), mux.agent("Other")
    item = enqueue(mux)
    call(mux, "POST", CLAIM, {"agent_id": "Twin"}, X_Agent_Token=mine)
    body = {"agent_id": "Twin", "attempt": 1}

    assert call(mux, "POST", f"{WORK}/{item}/heartbeat", body, X_Agent_Token=other).status == 409
    assert call(mux, "POST", f"{WORK}/{item}/heartbeat", body | {"agent_id": "x"}, X_Agent_Token=mine).status == 200


def test_an_agents_own_token_as_the_key_pins_the_caller(mux: Served) -> None:
    """It is that agent, whatever name and uid it sends, and has its own groups alone."""
    token = mux.agent("Pinned", groups=("mine",))
    enqueue(mux, target_group="theirs")
    mine = enqueue(mux, target_group="mine")
    said = {"agent_id": "Somebody", "agent_uid": "u-x", "groups": ["theirs", "mine"]}
    given = mux.ask("POST", CLAIM, said, headers={"X-AuthKey": token}, tcp=True).json

    assert (given["item"]["id"], given["item"]["claimed_by"]) == (mine, "Pinned")


def test_fallbacks_are_counted_by_their_names(mux: Served) -> None:
    """`{boot_id, caller, counters, gauges}`; what was known by its name only, and names that do not fit their token."""
    token = mux.agent("Counted")
    before = counters(mux)
    enqueue(mux, target_agent="Somebody", created_by="Me")
    enqueue(mux)
    claim(mux, "Nameless")
    call(mux, "POST", CLAIM, {"agent_id": "Else", "agent_uid": "u"}, X_Agent_Token=token)
    call(mux, "POST", f"{WORK}/x/heartbeat", {"agent_id": "COUNTED", "attempt": 1}, X_Agent_Token=token)
    told = call(mux, "GET", "/agentmux/identity/fallbacks", X_Agent_Token=token).json
    grown = {name: number - before[name] for name, number in told["counters"].items() if number != before[name]}

    assert list(told) == ["boot_id", "caller", "counters", "gauges"]
    assert told["caller"]["name"] == "Counted"
    assert set(told["gauges"]) == {"live.tokenless_or_unknown", "live.unidentified"}
    assert grown == {
        "work_enqueue.uid_not_carried": 1,
        "work_claim.uid_not_carried": 1,
        "m4.actor_unchecked.work_enqueue": 1,
        "m4.actor_absent.work_enqueue": 1,
        "m4.actor_unchecked.work_claim": 1,
        "m4.actor_mismatch.work_claim": 1,
        "m4.actor_uid_mismatch.work_claim": 1,
    }


def test_resolve_tells_one_ambiguous_unidentified_or_none(mux: Served) -> None:
    """With uid and candidate, candidates, a candidate without a uid, or nothing; blank is 400."""

    def resolved(name: str) -> Any:
        return call(mux, "POST", "/agentmux/agents/resolve", {"name": name}).json

    mux.agent("Unique")
    with work.open(mux.url) as store:
        twins = [store.agents.add("Double", another=True).agent.uid for _ in range(2)]
    claim(mux, "OnlySeen")

    one = resolved("unique")
    assert (one["resolution"], one["uid"]) == ("one", one["candidate"]["uid"])
    assert one["candidate"]["name"] == "Unique"
    many = resolved("DOUBLE")
    assert (many["resolution"], {each["uid"] for each in many["candidates"]}) == ("ambiguous", {*twins})
    seen = resolved("OnlySeen")
    assert (seen["resolution"], seen["candidate"]["uid"], seen["candidate"]["live"]) == ("unidentified", None, True)
    assert resolved("NobodyAtAll") == {"resolution": "none"}
    assert call(mux, "POST", "/agentmux/agents/resolve", {"name": " "}).status == 400


CLAIMS, RELEASE, WHO = "/api/v1/work-claims", "/api/v1/work-claims/release", "/api/v1/work-facts/who"
CLAIM_COLUMNS = (
    "id agent agent_uid channel repo path absolute_path branch topic note created_at expires_at home".split()
)


def test_a_work_claim_is_put_and_renewed(mux: Served) -> None:
    """200 `{claim, claimed, others_working_on_it, note}`; claimed again it keeps id and start."""
    said = {"repo": "o/r", "path": "src/a.py", "agent": "Ann", "note": "one\nline", "ttl_minutes": 30}
    first = call(mux, "POST", CLAIMS, said).json
    again = call(mux, "POST", CLAIMS, said | {"agent": "ANN", "note": "another"}).json

    assert {"claim", "claimed", "others_working_on_it", "note"} <= set(first)
    assert list(first["claim"]) == CLAIM_COLUMNS
    assert (first["claim"]["note"], first["claimed"], first["others_working_on_it"]) == ("one line", True, [])
    assert again["claim"]["id"] == first["claim"]["id"]
    assert again["claim"]["created_at"] == first["claim"]["created_at"]
    assert again["claim"]["note"] == "another"


@pytest.mark.parametrize(("said", "expected"), [(None, 120), (0, 5), (1, 5), (1440, 1440), (99_999, 1440)])
def test_a_lifetime_is_clamped(mux: Served, said: int | None, expected: int) -> None:
    """120 minutes if nothing is said, from 5 to 1440."""
    made = call(mux, "POST", CLAIMS, {"repo": "o/r", "agent": "Ann", "ttl_minutes": said}).json["claim"]

    assert made["expires_at"] - made["created_at"] == expected * 60_000
    assert made["path"] == ""


@pytest.mark.parametrize(
    "said",
    [
        {"agent": "Ann"},
        {"repo": "o/r", "path": "a"},
        {"repo": "o/r", "agent": " "},
        {"repo": "file:///x", "agent": "Ann"},
        {"repo": "nonsense", "agent": "Ann"},
        {"path": "relative", "agent": "Ann"},
    ],
)
def test_a_claim_of_nothing_by_nobody_or_somewhere_is_refused(mux: Served, said: dict[str, str]) -> None:
    """400 `{"error"}`."""
    answer = call(mux, "POST", CLAIMS, said)

    assert (answer.status, bool(answer.json["error"])) == (400, True)


def test_texts_of_a_claim_are_cut(mux: Served) -> None:
    """Path 400, branch 200, topic 120, note 200, with an ellipsis."""
    long = {"path": "p" * 500, "branch": "b" * 300, "topic": "t" * 300, "note": "n" * 300}
    made = call(mux, "POST", CLAIMS, long | {"repo": "o/r", "agent": "Ann"}).json["claim"]

    assert {name: (len(made[name]), made[name][-1]) for name in long} == {
        "path": (400, "…"),
        "branch": (200, "…"),
        "topic": (120, "…"),
        "note": (200, "…"),
    }


def test_a_release_ends_ones_own_only(mux: Served) -> None:
    """200 `{released, note}` also when empty; by id or all; 400 without a releaser."""
    mine = call(mux, "POST", CLAIMS, {"repo": "o/r", "path": "a", "agent": "Ann"}).json["claim"]["id"]
    call(mux, "POST", CLAIMS, {"repo": "o/r", "path": "b", "agent": "Ann"})

    assert call(mux, "POST", RELEASE, {"id": mine, "agent": "Bob"}).json["released"] == []
    one = call(mux, "POST", RELEASE, {"id": mine, "agent": "ann"})
    assert (one.status, [each["id"] for each in one.json["released"]], "note" in one.json) == (200, [mine], True)
    assert [each["path"] for each in call(mux, "POST", RELEASE, {"agent": "Ann"}).json["released"]] == ["b"]
    assert call(mux, "POST", RELEASE, {}).status == 400


def test_a_token_tells_who_claims_before_the_name_does(mux: Served) -> None:
    """Token, else the one registered agent of the name, else the bare name."""
    token = mux.agent("Registered")
    by_token = call(mux, "POST", CLAIMS, {"topic": "x", "agent": "Else"}, X_Agent_Token=token).json["claim"]
    by_name = call(mux, "POST", CLAIMS, {"topic": "x", "agent": "registered"}).json["claim"]
    bare = call(mux, "POST", CLAIMS, {"topic": "x", "agent": "Nobody"}).json["claim"]

    assert by_name["id"] == by_token["id"]
    assert by_token["agent_uid"]
    assert (by_token["agent"], bare["agent"], bare["agent_uid"]) == ("Registered", "Nobody", "")


def test_who_tells_everybody_but_the_caller(mux: Served) -> None:
    """`{asked, caller, agents, remote_agents, unreachable_channels, note}`, each agent with its matches."""
    call(mux, "POST", CLAIMS, {"repo": "o/r", "path": "crates/srv", "agent": "Ann"})
    call(mux, "POST", CLAIMS, {"repo": "o/r", "path": "crates/srv/x", "agent": "Bob", "note": "hot path"})
    told = call(mux, "GET", f"{WHO}?repo=o/r&path=crates/srv/x/y&agent=Ann").json

    assert list(told) == ["asked", "caller", "agents", "remote_agents", "unreachable_channels", "note"]
    assert (told["asked"]["repo"], told["asked"]["path"]) == ("o/r", "crates/srv/x/y")
    assert told["caller"] == {"agent": "Ann", "repo": None, "branch": None}
    (bob,) = told["agents"]
    fields = ["agent", "channel", "status", "goal", "repo", "branch", "git_checked_ms", "matches"]
    assert (list(bob), bob["agent"], bob["status"]) == (fields, "Bob", "not running")
    assert list(bob["matches"][0]) == ["kind", "detail", "since_ms"]
    assert call(mux, "GET", f"{WHO}?repo=o/r&path=crates/sr").json["agents"] == []
    assert [one["agent"] for one in call(mux, "GET", f"{WHO}?query=HOT").json["agents"]] == ["Bob"]
    assert call(mux, "GET", f"{WHO}?repo=o/r").json["caller"] is None
    assert call(mux, "GET", WHO).status == call(mux, "GET", f"{WHO}?path=a").status == 400


def test_facts_are_what_peers_ask_for(mux: Served) -> None:
    """`{channel, agents}`."""
    call(mux, "POST", CLAIMS, {"repo": "o/r", "path": "a", "agent": "Ann"})
    told = call(mux, "GET", "/api/v1/work-facts").json

    assert list(told) == ["channel", "agents"]
    assert [one["agent"] for one in told["agents"]] == ["Ann"]
