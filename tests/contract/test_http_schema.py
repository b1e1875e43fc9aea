"""The server against its own OpenAPI document: whatever a client sends, the answer is one that the document has.

It stands in a checkout with missions that wait, are parked or have ended, and is asked for them by name.
`KRANZQ_SCHEMATHESIS_SECONDS` looks for so long, in all ways; without it a few examples of each operation are tried.
With `KRANZQ_SCHEMATHESIS_SEED` they are the same ones each time: what is new then comes from what was changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.laboratory import REPO
from tests.servers import Served

SECONDS = os.environ.get("KRANZQ_SCHEMATHESIS_SECONDS", "")
SEED = os.environ.get("KRANZQ_SCHEMATHESIS_SEED", "")
HOW = ("--max-time", SECONDS) if SECONDS else ("--phases", "fuzzing,stateful", "--max-examples", "2", "--no-shrink")
REFUSED = ("400", "401", "403", "404", "405", "406", "409", "413", "414", "415", "422", "428", "429", "431", "5xx")
"""How what is not the document's may be refused; too long a query or body is refused before it is read."""
LEFT_OUT = "positive_data_acceptance,use_after_free,ensure_resource_availability"
"""The model knows more than a schema says: both targets of an item, blank titles, names that are none. A cancelled item
stays to be seen; and an id that was left empty is not the item's."""


MISSIONS = ("succeeded", "failed", "again", "queued", "waiting", "after", "parked", "cancelled")


@pytest.fixture
def in_a_checkout(tmp_path: Path) -> Iterator[Served]:
    """A server in a checkout of its own; what is approved there while it is asked runs never."""
    checkout = tmp_path / "checkout"
    (checkout / ".kranz" / "queue").mkdir(parents=True)
    one = Served(tmp_path, ("--listen", "127.0.0.1:0"), cwd=checkout)
    for words in (
        "enqueue succeeded -- seq 1 1000",
        "enqueue failed -- sh -c false",
        "enqueue again --retries 1 -- sh -c false",
        "enqueue cancelled -- true",
        "cancel cancelled --why unwanted",
        "drain",
        "enqueue queued -- true",
        "enqueue waiting --not-before +2h -- true",
        "enqueue after --after queued -- true",
        "enqueue parked -- true",
        "park parked",
    ):
        argv = [sys.executable, "-m", "kranzq", "-C", str(checkout), *words.split(" ")]
        done = subprocess.run(argv, cwd=REPO, env=one.environ, capture_output=True, text=True, check=False)
        assert done.returncode == (1 if words == "drain" else 0), done.stderr
    try:
        one.start()
        yield one
    finally:
        one.kill()


@pytest.mark.slow
@pytest.mark.timeout(120 + 2 * int(SECONDS or 0))
def test_every_answer_is_one_of_the_document(in_a_checkout: Served, tmp_path: Path) -> None:
    """No fault of the server, no status, header or shape that the document has not, and nothing wrong is taken."""
    served = in_a_checkout
    token = served.agent(f"fuzzer {os.getpid()}", groups=("g",))
    settings = tmp_path / "schemathesis.toml"
    settings.touch(0o600)
    settings.write_text(
        f'[headers]\nAuthorization = "Bearer {served.key}"\nX-Agent-Token = "{token}"\n'
        f"[checks.negative_data_rejection]\nexpected-statuses = {json.dumps(REFUSED)}\n"
    )
    document = served.ask("GET", "/openapi.json").json
    del document["components"]["securitySchemes"]  # credentials are what other tests try
    claim = document["components"]["schemas"]["ClaimBody"]["properties"]
    claim["wait_ms"] |= {"enum": [0, 1, 50]}  # nobody waits a minute for a test
    for operations in document["paths"].values():
        for operation in operations.values():
            del operation["security"]
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "mission":
                    named = {"enum": list(MISSIONS)}
                    parameter["schema"] = {"anyOf": [named, parameter["schema"]]} if SECONDS else named
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    words = ["--url", f"http://{served.address}", "--exclude-path", "/v1/events", "--exclude-checks", LEFT_OUT]
    program = [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"]
    done = subprocess.run(
        [
            *program,
            "--config-file",
            str(settings),
            "run",
            "openapi.json",
            *words,
            "--no-color",
            "--warnings",
            "off",
            *HOW,
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "fault " not in served.log.read_text()
    counted = served.ask("GET", "/metrics").raw.decode()
    for route in ("", "/{mission}", "/{mission}/why"):
        assert f'route="/v1/missions{route}",status="200"' in counted, "missions that are there were asked for"
