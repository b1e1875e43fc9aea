"""The approver's story through the real command: exit codes, keys, refusals, durability and a full disk."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.factories import PATIENT
from tests.laboratory import PATIENCE, wait_for

KRANZQ = (sys.executable, "-m", "kranzq")
pytestmark = [pytest.mark.slow, pytest.mark.system("git")]


def kranzq(where: Path, *args: str | bytes, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in a directory."""
    told = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **(env or {})}
    argv = [os.fsencode(arg) for arg in (*KRANZQ, *args)]
    return subprocess.run(argv, cwd=where, env=told, capture_output=True, text=True, check=False, timeout=PATIENCE)


def answer(where: Path, *args: str) -> dict[str, object]:
    """The JSON that a successful enqueue answers with."""
    done = kranzq(where, "enqueue", "--json", *args)
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    return value


def entries(root: Path) -> list[str]:
    """The entry names in order."""
    return sorted(path.name for path in (root / ".kranz/queue").glob("*.json") if not path.name.startswith("."))


def test_the_answer_has_its_documented_keys(checkout: Path) -> None:
    """A first approval is made, a repeat is not, and both say so under the same keys."""
    made = answer(checkout, "m1", "--priority", "1", "--", "true")

    assert made == {"mission": "m1", "seq": 0, "priority": 1, "created": True, "state": "queued"}
    assert answer(checkout, "m1", "--", "true") == made | {"created": False}
    assert entries(checkout) == ["001-00000000000000000000-m1.json"]
    assert (checkout / ".kranz/queue" / entries(checkout)[0]).stat().st_mode & 0o777 == 0o600


def test_an_id_is_made_and_printed(checkout: Path) -> None:
    """Without an id one of kranz's form is made; the command behind `--` is not taken for it."""
    assert re.fullmatch("m-[0-9a-f]{6}", str(answer(checkout, "--", "true")["mission"]))


def test_conflicts_leave_with_4_and_what_to_type(checkout: Path) -> None:
    """Another command, a parked mission and a look-alike change nothing and say what would help."""
    answer(checkout, "m1", "--", "true")
    answer(checkout, "m2", "--", "true")
    parked = checkout / ".kranz/queue/parked"
    parked.mkdir()
    name = entries(checkout)[1]
    (checkout / ".kranz/queue" / name).rename(parked / name)

    for mission, command, said in (
        ("m1", "false", "cancel m1"),
        ("m2", "true", "cancel m2"),
        ("M1", "true", "from m1"),
    ):
        refused = kranzq(checkout, "enqueue", mission, "--", command)
        assert (refused.returncode, refused.stdout) == (4, "")
        assert said in refused.stderr
    assert len(entries(checkout)) == 1


@pytest.mark.parametrize(
    "mission",
    ["../../x", "/abs", "a/b", "a\\b", ".", "..", "", " ", "m1 ", "-rf", "a.claimed.1", "x.json", "x\ny", "%2e%2e%2f"],
)
def test_dangerous_ids_are_refused(checkout: Path, mission: str) -> None:
    """Ids that could leave the folder or imitate a name of the queue are a usage error, and nothing is made."""
    refused = kranzq(checkout, "enqueue", mission, "--", "true")

    assert refused.returncode == 2
    assert not (checkout / ".kranz/queue").exists() or entries(checkout) == []
    assert not (checkout / ".kranz/missions").exists()


@pytest.mark.parametrize("mission", ["CON", "a.b_c-d", "0", "x" * 128])
def test_unusual_ids_that_are_safe_are_taken(checkout: Path, mission: str) -> None:
    """What is safe as a name is an id."""
    assert answer(checkout, mission, "--", "true")["mission"] == mission


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("m1", "--priority", "-1"), "from 0 to 255"),
        (("m1", "--priority", "256"), "from 0 to 255"),
        (("m1", "--priority", "2147483648"), "from 0 to 255"),
        (("m1", "true"), "unexpected extra argument"),
        (("m1", "--"), "no command behind"),
        (("m1", "--timeout", "soon"), "--timeout must be"),
        (("m1", "--timeout", "0"), "more than 0"),
        (("m1", "--env", "NOVALUE"), "NAME=VALUE"),
        (("m1", "--source", "noref"), "PRODUCER:REFERENCE"),
        (("m1", "--file", "missing"), "cannot be read"),
        (("m1", "--cwd", "../x", "--", "true"), "not inside the checkout"),
        (("m1", "--follow", "--json", "--", "true"), "exclude each other"),
        (("m1", "--", b"\xff"), "not UTF-8"),
    ],
)
def test_mistakes_are_usage_errors(checkout: Path, args: tuple[str | bytes, ...], said: str) -> None:
    """A mistake leaves with 2 and a sentence that names it; no entry is made."""
    refused = kranzq(checkout, "enqueue", *args)

    assert refused.returncode == 2
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (checkout / ".kranz/queue").exists() or entries(checkout) == []


def test_order_is_numeric(checkout: Path) -> None:
    """Priorities sort as numbers, and equal ones in the order of their approval."""
    for mission, priority in (("a", "10"), ("b", "9"), ("c", "100"), ("d", "0"), ("e", "9")):
        answer(checkout, mission, "--priority", priority, "--", "true")

    assert [name[25:26] for name in entries(checkout)] == ["d", "b", "e", "a", "c"]


def test_many_at_once_get_numbers_of_their_own(checkout: Path) -> None:
    """Approvals from several processes at once are all there, each with a number that no other has."""
    told = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    names = [f"m{index}" for index in range(8)] + ["same"] * 4
    program = f"{PATIENT}\nimport sys\nfrom kranzq.cli.main import run\nsys.exit(run(sys.argv[1:]))"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, "enqueue", "--json", name, "--", "true"],
            cwd=checkout,
            env=told,
            stdout=subprocess.PIPE,
        )
        for name in names
    ]
    answers = [json.loads(process.communicate(timeout=PATIENCE)[0]) for process in running]

    assert [process.returncode for process in running] == [0] * len(names)
    created = [one["seq"] for one in answers if one["created"]]
    assert sorted(created) == list(range(9))
    assert len(entries(checkout)) == 9


def test_files_and_binding_come_before_the_entry(checkout: Path) -> None:
    """A prompt lies in the mission's folder and a producer's item is bound, both named by the verbs that show them."""
    (checkout / "prompt.md").write_text("do it")
    answer(checkout, "m1", "--file", "prompt.md", "--source", "tracker:T:7", "--", "true")
    shown = kranzq(checkout, "source", "show", "m1", "--json")

    assert (checkout / ".kranz/missions/m1/input/prompt.md").read_text() == "do it"
    assert json.loads(shown.stdout)["reference"] == "T:7"
    assert kranzq(checkout, "source", "returned", "m1").returncode == 0
    assert json.loads(kranzq(checkout, "source", "show", "m1", "--json").stdout)["state"] == "returned"
    assert kranzq(checkout, "source", "show", "m2").returncode == 3


def test_nothing_of_a_queue_shows_in_git(checkout: Path) -> None:
    """Approvals, prompts and bindings never make the working tree dirty."""
    (checkout / ".git/info/exclude").write_text("prompt.md\n")
    (checkout / "prompt.md").write_text("do it")
    answer(checkout, "m1", "--file", "prompt.md", "--source", "tracker:7", "--", "true")

    status = subprocess.run(["git", "status", "--porcelain"], cwd=checkout, capture_output=True, text=True, check=True)
    assert status.stdout == ""


def test_init_can_be_repeated_and_makes_a_checkout_without_git(tmp_path: Path) -> None:
    """Without git there is no checkout until init makes one; a second init finds it."""
    assert kranzq(tmp_path, "enqueue", "m1", "--", "true").returncode == 3
    assert "Made" in kranzq(tmp_path, "init").stdout
    assert "there already" in kranzq(tmp_path, "init").stdout
    below = tmp_path / "below"
    below.mkdir()
    assert answer(below, "m1", "--", "true")["created"] is True
    assert len(entries(tmp_path)) == 1


def test_init_completes_gitignore_and_warns_of_tracked_state(checkout: Path) -> None:
    """Lines of others in .gitignore stay, and runtime state that git tracks is named."""
    queue = checkout / ".kranz/queue"
    queue.mkdir(parents=True)
    (checkout / ".kranz/.gitignore").write_text("mine")
    (queue / "planted.json").write_text("{}")
    subprocess.run(["git", "add", "-f", ".kranz"], cwd=checkout, check=True)
    done = kranzq(checkout, "init")

    assert done.returncode == 0
    assert ".kranz/queue/planted.json" in done.stderr
    ignored = (checkout / ".kranz/.gitignore").read_text()
    assert ignored.startswith("mine\n.gitignore\nqueue/\n")
    kranzq(checkout, "init")
    assert (checkout / ".kranz/.gitignore").read_text() == ignored


def test_homes_are_no_checkouts(tmp_path: Path, isolated: Path) -> None:
    """Neither the user's home nor kranz's becomes a checkout by mistake."""
    assert kranzq(isolated, "init").returncode == 5
    assert not (isolated / ".kranz").exists()


def test_cancel_takes_an_approval_back(checkout: Path) -> None:
    """A waiting mission is removed, a repeat finds its end, one that is not known is 3; all say so."""
    answer(checkout, "m1", "--", "true")
    done = kranzq(checkout, "cancel", "m1", "--json")

    assert json.loads(done.stdout) == {
        "mission": "m1",
        "result": "removed",
        "removed": True,
        "run": None,
        "outcome": None,
    }
    assert entries(checkout) == []
    repeated = kranzq(checkout, "cancel", "m1")
    assert (repeated.returncode, "m1 had ended already" in repeated.stdout) == (0, True)
    assert kranzq(checkout, "cancel", "m2").returncode == 3


def test_pause_is_said_when_something_is_approved(checkout: Path) -> None:
    """While dispatching is paused an approval is taken, with the reason and how to go on."""
    assert kranzq(checkout, "pause", "lunch", "break").returncode == 0
    done = kranzq(checkout, "enqueue", "m1", "--", "true")

    assert done.returncode == 0
    assert "paused (lunch break)" in done.stderr
    assert "begin again" in kranzq(checkout, "resume").stdout
    assert "Nothing was paused" in kranzq(checkout, "resume").stdout


def test_a_moved_checkout_waits_until_its_user_says_so(checkout: Path) -> None:
    """Entries of a copied checkout wait; `trust --here` signs them one by one and names them."""
    answer(checkout, "m1", "--", "echo", "hi")
    moved = checkout.parent / "moved"
    checkout.rename(moved)

    waiting = json.loads(kranzq(moved, "trust", "--json").stdout)["waiting"]
    assert [(one["mission"], one["advice"]) for one in waiting] == [("m1", "If it is yours, type: kranzq trust --here")]
    assert "m1: echo hi (was signed for" in kranzq(moved, "trust", "--here").stdout
    assert json.loads(kranzq(moved, "trust", "--json").stdout)["waiting"] == []


def test_unsigned_entries_wait_until_they_are_allowed(checkout: Path) -> None:
    """An entry of a stranger waits; allowing and withdrawing is recorded outside the checkout."""
    assert kranzq(checkout, "init").returncode == 0
    name = "002-00000000000000000000-theirs.json"
    (checkout / ".kranz/queue" / name).write_text('{"missionId": "theirs", "priority": 2, "seq": 0}')

    assert "kranzq trust --unsigned" in kranzq(checkout, "trust").stdout
    assert "may run" in kranzq(checkout, "trust", "--unsigned").stdout
    assert json.loads(kranzq(checkout, "trust", "--json").stdout)["unsigned"] is True
    assert "wait" in kranzq(checkout, "trust", "--withdraw").stdout
    assert kranzq(checkout, "trust", "--here", "--unsigned").returncode == 2


def test_what_hooks_call_imports_little(checkout: Path) -> None:
    """A repeat and a first approval start without what only dispatchers and databases need."""
    code = (
        "import sys; from kranzq.cli.main import run; code = run(['enqueue', 'm1', '--', 'true']);"
        "print(code, sorted({'psutil', 'watchdog', 'filelock', 'subprocess', 'logging', 'asyncio', 'socket', 'tomllib',"
        "'importlib.metadata', 'kranzq.config', 'kranzq.runs.keepers', 'kranzq.dispatch.parts'} & set(sys.modules)))"
    )
    told = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=checkout, env=told, capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "0 []"


@pytest.mark.system("strace")
def test_an_entry_is_on_disk_before_it_is_reported(checkout: Path, tmp_path: Path) -> None:
    """The file is synced before it gets its name and the directory after, and only then is the answer written."""
    answer(checkout, "m0", "--", "true")
    trace = tmp_path / "trace"
    told = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    calls = "trace=openat,fsync,fdatasync,renameat2,renameat,rename,link,linkat,write"
    done = subprocess.run(
        ["strace", "-f", "-y", "-e", calls, "-o", trace, *KRANZQ, "enqueue", "m1", "--", "true"],
        cwd=checkout,
        env=told,
        capture_output=True,
        text=True,
        check=True,
    )
    queue, name = re.escape(str(checkout / ".kranz/queue")), "002-00000000000000000001-m1.json"
    steps = [
        rf"fsync\(\d+<{queue}/\.{re.escape(name)}[^>]*\.tmp>\)",
        rf'linkat\(\d+<{queue}>, "\.{re.escape(name)}[^"]*", \d+<{queue}>, "{re.escape(name)}", 0\)',
        rf"fsync\(\d+<{queue}>\)",
        r'write\(1<[^>]*>, "m1 is queued',
    ]
    text = trace.read_text()
    found = [re.search(step, text) for step in steps]

    assert done.returncode == 0
    places = [one.start() for one in found if one is not None]
    assert len(places) == len(steps)
    assert places == sorted(places)


FULL = """
set -e
mount -t tmpfs -o size=64k,mode=755 tmpfs "$1/.kranz"
cd "$1"
"$2" -m kranzq enqueue before -- true
dd if=/dev/zero of=.kranz/filler bs=1k 2>/dev/null || true
{ dd if=/dev/zero bs=1 count=4096 >> .kranz/filler; } 2>/dev/null || true
set +e
"$2" -m kranzq enqueue refused --file big --source t:1 -- true; echo "code $?"
"$2" -m kranzq enqueue refused -- true; echo "code $?"
find .kranz -mindepth 1 -printf 'full %P\\n'
rm .kranz/filler
"$2" -m kranzq enqueue refused -- true; echo "code $?"
mount -o remount,ro "$1/.kranz"
"$2" -m kranzq enqueue other -- true; echo "code $?"
"$2" -m kranzq cancel before; echo "code $?"
"$2" -m kranzq pause; echo "code $?"
find .kranz -mindepth 1 -name '*.json' -printf 'entry %P\\n'
"""


@pytest.mark.system("unshare", "mount")
def test_a_full_or_read_only_disk_is_said_and_leaves_nothing_half_written(checkout: Path) -> None:
    """On a full or read-only disk verbs leave with 6 and a sentence; what was queued before stays, nothing else."""
    (checkout / ".kranz").mkdir()
    (checkout / "big").write_bytes(b"x" * 100_000)
    told = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    probe = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("needs the right to make a mount namespace")
    argv = ["unshare", "-m", "sh", "-c", FULL, "sh", str(checkout), sys.executable]
    done = subprocess.run(argv, env=told, capture_output=True, text=True, check=False, timeout=55)
    lines = done.stdout.splitlines()

    assert [line for line in lines if line.startswith("code")] == ["code 6", "code 6", "code 0"] + ["code 6"] * 3
    assert {line for line in lines if line.startswith("full")} == {
        f"full {name}"
        for name in (
            ".gitignore",
            "filler",
            "queue",
            "queue/.mutate.flock",
            "queue/inbox",
            "queue/.seq",
            "queue/002-00000000000000000000-before.json",
        )
    }
    assert done.stderr.count("No space left on device") == 2
    assert done.stderr.count("Read-only file system") == 3
    assert len([line for line in lines if line.startswith("entry")]) == 2


def _dispatch(root: Path) -> subprocess.Popen[bytes]:
    told = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "KRANZQ_MISSION_MIN_FREE_DISK": "0"}
    return subprocess.Popen(
        [*KRANZQ, "drain"], cwd=root, env=told, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _end_of_run(root: Path) -> dict[str, object]:
    found = json.loads((root / ".kranz/missions/m1/dispatch/001/exit.json").read_bytes())
    assert isinstance(found, dict)
    return found


def _has_survivors_told(root: Path) -> bool:
    try:
        return "survivors" in _end_of_run(root)
    except (OSError, ValueError):
        return False


def _claims(root: Path) -> list[str]:
    return [name for name in os.listdir(root / ".kranz/queue") if ".claimed." in name]


def _keeper_is_gone(root: Path) -> bool:
    pid = _claims(root)[0].split(".claimed.")[1].split(".")[0]
    try:
        return "State:\tZ" in Path("/proc", pid, "status").read_text()
    except OSError:
        return True


def test_a_new_approval_after_an_unattended_end_is_a_new_approval(checkout: Path) -> None:
    """A mission that ended while no dispatcher lived is settled first, so approving it anew queues it anew."""
    answer(checkout, "m1", "--", "sh", "-c", "touch up; until test -e ready; do sleep 0.02; done; exit 3")
    with _dispatch(checkout) as dispatcher:
        wait_for((checkout / "up").exists, "the mission runs")
        running = answer(checkout, "m1", "--", "sh", "-c", "touch up; until test -e ready; do sleep 0.02; done; exit 3")
        dispatcher.send_signal(signal.SIGKILL)
    (checkout / "ready").touch()
    wait_for(lambda: _has_survivors_told(checkout) and _keeper_is_gone(checkout), "it has ended, its keeper too")

    assert (running["created"], running["state"]) == (False, "claimed")
    assert len(_claims(checkout)) == 1
    once = answer(checkout, "m1", "--once", "--", "true")
    assert (once["created"], once["state"], once["outcome"]) == (False, "gone", "failed")
    assert _claims(checkout) == []
    assert answer(checkout, "m1", "--", "true")["created"] is True


def test_cancel_ends_a_running_mission_without_a_dispatcher(checkout: Path) -> None:
    """With its dispatcher killed a mission is still ended on a wish, and the verb waits for and settles its end."""
    answer(checkout, "m1", "--", "sh", "-c", "touch up; exec sleep 600")
    with _dispatch(checkout) as dispatcher:
        wait_for((checkout / "up").exists, "the mission runs")
        dispatcher.send_signal(signal.SIGKILL)
    done = kranzq(checkout, "cancel", "m1", "--wait", "--why", "enough", "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == "cancelled"
    assert _claims(checkout) == []
    assert _end_of_run(checkout)["why"] == "cancel"


def test_waiting_for_an_approved_mission_tells_its_end(checkout: Path) -> None:
    """`--wait` leaves as the mission ended, and `--follow` shows what it says, byte by byte."""
    env = {"KRANZQ_MISSION_MIN_FREE_DISK": "0"}
    told = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **env}
    with subprocess.Popen([*KRANZQ, "daemon"], cwd=checkout, env=told, stdout=subprocess.DEVNULL) as daemon:
        try:
            followed = kranzq(checkout, "enqueue", "m1", "--follow", "--", "sh", "-c", "printf 'a\\033[1mb\\n'; exit 3")
            waited = kranzq(checkout, "enqueue", "m2", "--wait", "--json", "--", "true")
        finally:
            daemon.terminate()

    assert (followed.returncode, followed.stdout) == (1, "a\033[1mb\n")
    assert waited.returncode == 0, waited.stderr
    shown = json.loads(waited.stdout)
    assert (shown["mission"], shown["created"], shown["end"]["outcome"]) == ("m2", True, "succeeded")


def test_inside_its_own_checkout_a_mission_does_not_wait_for_itself(checkout: Path) -> None:
    """A mission may approve another one, but not wait for it: the checkout is busy with the mission itself."""
    inside = {"KRANZ_CLAIM": "0" * 32 + ":1:1", "KRANZ_REPO": str(checkout), "KRANZ_MISSION_ID": "outer"}

    assert kranzq(checkout, "enqueue", "m1", "--wait", "--", "true", env=inside).returncode == 4
    assert kranzq(checkout, "enqueue", "m1", "--", "true", env=inside).returncode == 0
    assert kranzq(checkout, "cancel", "m1", "--wait", env=inside).returncode == 4
