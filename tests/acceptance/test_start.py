"""How little a verb imports: hooks call `enqueue`, scripts call `list`, and all of them wait for the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.laboratory import REPO, Laboratory

pytestmark = pytest.mark.system("git")
HEAVY = {
    *"asyncio concurrent email http importlib.metadata logging multiprocessing pathlib secrets shutil sqlite3".split(),
    *"ssl tempfile tomllib urllib psutil filelock watchdog click.shell_completion".split(),
    *"kranzq.config kranzq.daemon kranzq.hooks kranzq.wiring.dispatching".split(),
}
"""What costs much to import, or does what none of these verbs does."""
RARE = {
    *"socket subprocess kranzq.busy kranzq.disk.tracked kranzq.disk.leavings kranzq.dispatch.parts".split(),
    *"kranzq.liveness kranzq.model.outcome kranzq.model.process kranzq.runs".split(),
    *"kranzq.wiring.dispatchers kranzq.wiring.configuring".split(),
}
"""What an enqueue needs only where something unusual lies in the queue or was asked for."""
TELL = """
import os, sys
there, leave = set(sys.modules), os._exit

def tell(code):
    print("imported:", *set(sys.modules) - there, file=sys.stderr, flush=True)
    leave(code)

os._exit = tell
from kranzq.__main__ import main
try:
    main()
except SystemExit as left:
    tell(left.code)
"""


def imported(*words: str, where: Path = REPO) -> set[str]:
    """The modules that a verb imports: what the interpreter and its site have brought along is not ours."""
    argv = [sys.executable, "-c", TELL, "-C", str(where), *words]
    done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    assert "kranzq.cli.main" in done.stderr.split(), done.stderr
    return set(done.stderr.rpartition("imported: ")[2].split())


def among(modules: set[str], unwanted: set[str]) -> list[str]:
    """Those of the modules that are not wanted, or lie in a package that is not."""
    return sorted(name for name in modules if name in unwanted or name.startswith(tuple(f"{one}." for one in unwanted)))


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (("--version",), {"kranzq.wiring", "kranzq.dispatch", "dataclasses"}),
        (("enqueue", "m1", "--", "true"), RARE),
        (("enqueue", "m1", "--json", "--priority", "1", "--", "true"), RARE),
        (("guard",), RARE | {"kranzq.dispatch.own_claim", "kranzq.dispatch.own_item", "kranzq.model.work"}),
        (
            ("list",),
            {"socket", "subprocess", "kranzq.wiring.dispatchers", "kranzq.wiring.waiting", "kranzq.wiring.hooks"},
        ),
    ],
    ids=["version", "enqueue", "enqueue with options", "guard", "list"],
)
def test_a_verb_imports_only_what_it_needs(checkout: Path, words: tuple[str, ...], unwanted: set[str]) -> None:
    """Nothing heavy is imported, nor what only other verbs need, whether the queue is new or there already."""
    for _ in range(2):
        assert among(imported(*words, where=checkout), HEAVY | unwanted) == []


@pytest.mark.parametrize(
    "words",
    [
        ("work", "list"),
        ("presence", "list"),
        ("status",),
        ("list",),
        ("history",),
        ("enqueue", "m1", "--", "true"),
        ("--help",),
    ],
    ids=" ".join,
)
def test_only_who_uses_a_server_or_mcp_imports_what_that_needs(checkout: Path, words: tuple[str, ...]) -> None:
    """Neither the client's nor the tools' libraries cost a verb anything that works on this machine's stores."""
    extras = {"httpx2", "mcp", "mcp_types", "pydantic", "anyio", "starlette", "uvicorn", "msgspec", "kranzq.client"}
    surfaces = {"kranzq.mcp", "kranzq.server", "kranzq.cli.elsewhere", "kranzq.cli.elsewhere_changing"}
    assert among(imported(*words, where=checkout), extras | surfaces) == []


def test_the_wiring_imports_none_of_its_modules_by_itself() -> None:
    """Whoever imports one subject of it does not get the others."""
    program = "import sys, kranzq.wiring; print(*(name for name in sys.modules if name.startswith('kranzq.wiring.')))"
    argv = [sys.executable, "-c", program]
    loaded = subprocess.run(argv, cwd=REPO, env=dict(os.environ), capture_output=True, text=True, check=True).stdout

    assert loaded.split() == []


WATCHED = """
import sys
from kranzq.__main__ import main
from kranzq.daemon import drain
do = drain.drain
def watched(*parts, **named):
    there = set(sys.modules)
    done = do(*parts, **named)
    print("later:", *(name for name in set(sys.modules) - there if name.startswith("kranzq")), file=sys.stderr)
    return done
drain.drain = watched
main()
"""


def test_a_dispatcher_imports_nothing_of_ours_after_its_first_turn_has_begun(lab: Laboratory) -> None:
    """An upgrade beside a running dispatcher must not mix two versions in it, whatever it meets."""
    lab.enqueue("m1", "true")
    lab.enqueue("m2", "false", retries=1)
    lab.enqueue("m3", "/no/such/command")
    lab.enqueue("m4", "sh", "-c", "exit 75")
    (lab.queue / "000-00000000000000000007-bad.json").write_text("{")
    (lab.queue / "inbox").mkdir(exist_ok=True)
    (lab.queue / "inbox/dropped").write_text('{"missionId": "m5"}')
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq/config.toml"
    config.parent.mkdir(parents=True)
    told = "".join(f'{hook} = ["http://127.0.0.1:1/"]\n' for hook in ("started", "ended", "failed", "needs_person"))
    config.write_text(f"[hooks]\n{told}")
    argv = [sys.executable, "-c", WATCHED, "-C", str(lab.root), "drain"]
    done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, check=False, timeout=50)

    assert "later:" in done.stderr, done.stderr
    assert done.stderr.rpartition("later:")[2].split() == []
