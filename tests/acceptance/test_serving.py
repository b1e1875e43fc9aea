"""`kranzq serve` as its user meets it: where it listens, how it ends, and a life of an item over HTTP."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.laboratory import REPO, wait_for
from tests.servers import Served, serving


def test_an_item_lives_over_http(served: Served) -> None:
    """Enqueued by the operator, claimed and completed by an agent; a stale fence is told apart from an unknown id."""
    token = served.agent("worker")
    made = served.ask("POST", "/v1/work", {"title": "a", "payload": "b", "kind": "life"}).json
    given = served.ask("POST", "/v1/work/claim", {"kind": "life"}, token=token).json
    ended = served.ask("POST", f"/v1/work/{made['id']}/complete", {"attempt": 1, "result": "well"}, token=token)
    stale = served.ask("POST", f"/v1/work/{made['id']}/complete", {"attempt": 2}, token=token)
    unknown = served.ask("POST", "/v1/work/nothing/complete", {"attempt": 1}, token=token)

    assert made["created"]
    assert (given["claimed"], given["attempt"], given["item"]["id"]) == (True, 1, made["id"])
    assert (ended.status, ended.json) == (200, {"ok": True})
    assert (stale.status, stale.json["code"], unknown.status) == (409, "lost", 404)


def test_the_socket_is_the_users_alone(served: Served) -> None:
    """Its folder is 0700 and it is 0600, whatever the umask."""
    found = os.stat(served.socket)

    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(served.socket)).st_mode) == 0o700


def test_a_second_server_is_refused_and_told_who_has_the_socket(served: Served) -> None:
    """A live server is never put aside."""
    words = [sys.executable, "-m", "kranzq", "serve", "--url", served.url]
    second = subprocess.run(words, env=served.environ, capture_output=True, text=True, check=False, timeout=30)

    assert served.process is not None
    assert second.returncode == 4
    assert f"process {served.process.pid}" in second.stderr
    assert served.ask("GET", "/v1/nothing").status == 404


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_code_0_and_the_socket_goes(tmp_path: Path, number: signal.Signals) -> None:
    """What asks for the end gets it, and nothing is left that a client could take for a server."""
    with serving(tmp_path) as one:
        code = one.stop(number)

    assert code == 0
    assert not os.path.lexists(one.socket)


def test_the_socket_of_a_dead_server_is_replaced(tmp_path: Path) -> None:
    """A server that was killed leaves its socket; the next one serves."""
    with serving(tmp_path) as one:
        one.kill()
        left = os.path.lexists(one.socket)
        one.start()
        answer = one.ask("GET", "/v1/nothing")

    assert left
    assert answer.status == 404


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "msgspec", "prometheus_client"])
def test_a_missing_package_is_a_sentence_with_what_to_type(package: str, isolated: Path) -> None:
    """Without the extra the verb is there, and says what it needs."""
    program = f"import sys; sys.modules['{package}'] = None; from kranzq.cli.main import run; sys.exit(run(['serve']))"
    done = subprocess.run([sys.executable, "-c", program], cwd=REPO, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert package in done.stderr
    assert "pip install 'kranzq[server]'" in done.stderr
    assert not list(isolated.rglob("*.key"))


def test_it_lets_leases_lapse_without_a_claim(tmp_path: Path) -> None:
    """As a daemon does, and says so in its log."""
    with serving(tmp_path, environ={"KRANZQ_WORK_SWEEP_SECONDS": "1"}) as one:
        token = one.agent("worker")
        name = one.ask("POST", "/v1/work", {"title": "a", "payload": "b"}).json["id"]
        one.ask("POST", "/v1/work/claim", {"lease_ms": 1}, token=token)
        wait_for(lambda: one.ask("GET", f"/v1/work/{name}").json["state"] == "lapsed", "the lease lapses")
        wait_for(lambda: "1 lapsed" in one.log.read_text(), "it is told")


def test_a_reader_of_the_log_that_stands_still_stops_nobody(tmp_path: Path) -> None:
    """Its pipe is full, and requests are answered all the same."""
    with serving(tmp_path, environ={"KRANZQ_WORK_SWEEP_SECONDS": "1"}) as one:
        assert one.process is not None
        one.kill()
        read, write = os.pipe()
        with one.log.open("wb") as log:
            one.process = subprocess.Popen(
                [sys.executable, "-m", "kranzq", "serve", "--url", one.url],
                cwd=REPO,
                env=one.environ,
                stdout=log,
                stderr=write,
            )
        wait_for(lambda: "kranzq serves" in one.log.read_text(), "it serves")
        os.set_blocking(write, False)
        with contextlib.suppress(BlockingIOError):
            while os.write(write, b"x" * 4096):
                pass
        os.set_blocking(write, True)
        token = one.agent("worker")
        name = one.ask("POST", "/v1/work", {"title": "a", "payload": "b"}).json["id"]
        one.ask("POST", "/v1/work/claim", {"lease_ms": 1}, token=token)
        wait_for(lambda: one.ask("GET", f"/v1/work/{name}").json["state"] == "lapsed", "the lease lapses")
        code = one.stop()
        os.close(read)
        os.close(write)

    assert code == 0
