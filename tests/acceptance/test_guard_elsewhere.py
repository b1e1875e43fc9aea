"""`kranzq guard` where something else keeps the claim: an item's dispatcher, an agent, a server, a library's user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq import queue as q
from kranzq import work
from kranzq.model.claim import Holder
from kranzq.model.item_policy import mission_of_item
from kranzq.model.work import NewItem
from tests.factories import run_python
from tests.laboratory import IN_OTHER_NAMESPACE, REPO, Laboratory, wait_for
from tests.servers import Served
from tests.shop import Shop, started

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
HOLDS = """
import json, os, sys
from kranzq import queue as q
taken = q.claim_front_when_repo_free(sys.argv[1])
print(json.dumps(dict(taken.claim.environment)), flush=True)
sys.stdin.read()
"""


def marks_of(pid: int) -> dict[str, str]:
    """What a process was told about itself."""
    parts = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return {part.partition("=")[0]: part.partition("=")[2] for part in parts if part.startswith("KRANZ_")}


@pytest.fixture
def shop(lab: Laboratory, isolated: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A checkout that serves a work queue."""
    one = Shop(lab, f"sqlite://{isolated}/state/kranzq/work.db", monkeypatch)
    yield one
    one.store.close()


def test_an_item_of_a_checkout_is_asked_about_at_its_work_queue(shop: Shop) -> None:
    """Both halves must hold: the claim's file here, the attempt there."""
    item = shop.add("one", 60)
    shop.lab.daemon()
    started(shop.lab, "one")
    shop.runs(item)
    record = shop.lab.records(mission_of_item(item))[0]
    assert record.process is not None
    marks = marks_of(record.process[0])
    assert {"KRANZ_CLAIM", "KRANZ_ITEM_ID", "KRANZ_ITEM_ATTEMPT"} <= set(marks)

    assert "is its own" in shop.lab.run("guard", env=marks).stdout
    assert "attempt 1" in shop.lab.run("guard", env=marks | {"KRANZ_ITEM_ATTEMPT": "2"}, code=4).stderr
    shop.lab.run("guard", env=marks | {"KRANZ_ITEM_ID": ""}, code=5)
    shop.store.cancel(item, "nobody wants it")
    assert "was cancelled" in shop.lab.run("guard", env=marks, code=4).stderr
    shop.lab.release()


def test_the_command_of_an_item_asks_its_own_work_queue(isolated: Path, tmp_path: Path) -> None:
    """It is told which one, and its lease is renewed for it."""
    url = f"sqlite://{isolated}/state/kranzq/work.db"
    with work.open(url) as store:
        store.enqueue(NewItem("t", "p", id="w-9"))
    guard = f"{sys.executable} -m kranzq guard --mission-only && {sys.executable} -m kranzq work cancel w-9 >&2; "
    guard += f"{sys.executable} -m kranzq guard; echo $? > {tmp_path}/code"
    argv = [
        sys.executable,
        "-m",
        "kranzq",
        "work",
        "claim",
        "--url",
        url,
        "--exec",
        "sh",
        "-c",
        f"trap '' TERM; {guard}",
    ]
    done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, check=False, timeout=50)

    assert "The claim of item w-9 is its own." in done.stdout + done.stderr
    assert "was cancelled" in done.stdout + done.stderr
    assert (tmp_path / "code").read_text() == "4\n"


@pytest.mark.parametrize("by", ["token", "socket"])
def test_an_item_at_a_server_is_asked_about_there(lab: Laboratory, served: Served, by: str, tmp_path: Path) -> None:
    """With the caller's token, or as the operator on the socket."""
    token = tmp_path / "token"
    token.write_text(served.agent(f"guard-{by}"))
    token.chmod(0o600)
    with work.open(served.url) as store:
        item = store.enqueue(NewItem("t", "p", kind=f"guard-{by}")).entry.id
        store.claim(Holder("ann"), work.Wanted(kind=f"guard-{by}"), lease_ms=60_000)
    at = f"http://{served.address}" if by == "token" else f"unix:{served.socket}"
    env = {"KRANZQ_TOKEN_FILE": str(token)} if by == "token" else {}
    flags = ("guard", "--item", item, "--server", at)

    assert "is its own" in lab.run(*flags, "--attempt", "1", env=env).stdout
    assert "attempt 1" in lab.run(*flags, "--attempt", "2", env=env, code=4).stderr
    if by == "token":
        assert lab.run(*flags, "--attempt", "1", code=None).returncode in {2, 5, 6}


def test_a_mission_of_a_library_s_user_is_its_own_while_that_lives(lab: Laboratory) -> None:
    """There is no keeper; the process that claimed is the holder."""
    q.enqueue(lab.root, "m-1")
    with run_python(HOLDS, str(lab.root)) as holder:
        assert holder.stdout is not None
        marks = json.loads(holder.stdout.readline())
        said = lab.run("guard", env=marks, code=None)
        holder.kill()

    assert (said.returncode, said.stdout) == (0, "The claim of mission m-1 is its own.\n")
    assert "is gone" in lab.run("guard", env=marks, code=4).stderr


@pytest.mark.system("git", "unshare")
def test_a_keeper_of_another_pid_namespace_is_seen(lab: Laboratory) -> None:
    """Agents run git in sandboxes, in which no process of the host can be found."""
    told = lab.notes / "environment"
    lab.enqueue(
        "m1",
        "sh",
        "-c",
        'env -0 > "$0.part" && mv "$0.part" "$0"; while ! [ -e "$0.go" ]; do sleep 0.02; done',
        str(told),
    )
    lab.daemon()
    wait_for(told.exists, "the mission runs")
    marks = dict(part.split("=", 1) for part in told.read_text().split("\0") if part.startswith("KRANZ_"))
    argv = [*IN_OTHER_NAMESPACE, *lab.command("guard")]
    done = subprocess.run(
        argv, cwd=REPO, env=os.environ | marks, capture_output=True, text=True, check=False, timeout=50
    )
    Path(f"{told}.go").touch()
    if "Operation not permitted" in done.stderr:
        pytest.skip("needs the right to make namespaces")

    assert (done.returncode, done.stdout) == (0, "The claim of mission m1 is its own.\n")
