"""A repository with planted work: nothing in it is executed, nobody is signalled, and each thing gets its one line.

The user has configured a mission command that leaves a trace. Whatever a clone, an archive, a submodule or a link
brings along, and whichever verb is typed in it, that command and every planted one stays unexecuted; the kernel's own
record of each exec and each signal is the proof.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kranzq.liveness import identity_of, kranz_token, me, suffix_k4
from kranzq.model.entry import Entry, Own, render
from kranzq.model.ids import MissionId
from kranzq.model.process import ProcessIdentity
from kranzq.trust.mac import sign
from kranzq.wiring import trusting
from tests.laboratory import REPO, wait_for

pytestmark = [pytest.mark.system("git", "strace"), pytest.mark.slow, pytest.mark.timeout(300)]
SEEN = "execve,execveat,kill,tkill,tgkill,pidfd_send_signal,rt_sigqueueinfo"
NONCE = "ab" * 16
HOSTILE_CONFIG = """
[core]
\tfsmonitor = touch {trace}
\thooksPath = {root}/hooks
\tsshCommand = touch {trace}
\tpager = touch {trace}
\teditor = touch {trace}
\tsharedRepository = world
[filter "planted"]
\tclean = touch {trace}
\tsmudge = touch {trace}
\tprocess = touch {trace}
[alias]
\trev-parse = !touch {trace}
[include]
\tpath = {root}/hooks/included
"""
# enqueue and retry of a planted mission are left out: they approve its name, and the configured command then runs
VERBS = (
    "init",
    "list --all",
    "status",
    "why planted",
    "why signed",
    "history",
    "history --all",
    "logs planted",
    "trust",
    "check",
    "source planted",
    "recover --dry-run",
    "recover",
    "pause",
    "drain --once",
    "resume",
    "drain --once",
    "cancel planted",
    "wait planted --timeout 1s",
    "enqueue mine -- true",
    "cancel mine",
    "stop --no-wait",
    "edit other --priority 3",
    "park other",
    "unpark other",
)


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A living process that has nothing to do with any checkout, though it bears a planted nonce."""
    marks = {"KRANZ_CLAIM": f"{NONCE}:1:1", "KRANZ_REPO": "/another/checkout"}
    argv = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env=os.environ | marks) as process:
        yield process
        assert process.poll() is None, "the stranger was ended"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """What every planted command, and the configured one, would leave behind."""
    path = tmp_path / "trace"
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f'[mission]\ncommand = ["/usr/bin/touch", "{path}"]\n')
    return path


class Planter:
    """Puts everything that could be believed into a directory that will be somebody's `.kranz`."""

    def __init__(self, kranz: Path, root: Path, trace: Path, stranger: int) -> None:
        self.kranz, self.root, self.trace, self.stranger = kranz, root, trace, stranger
        self.queue = kranz / "queue"
        self.number = 0
        found = identity_of(stranger)
        assert found is not None
        self.process: ProcessIdentity = found

    def entry(self, mission: str, *, signed_for: str | None = None, wrong: bool = False) -> None:
        """An entry with a command, an environment and a directory that would all execute something planted."""
        own = Own(
            id=secrets.token_hex(16),
            command=("/usr/bin/touch", str(self.trace)),
            env={"PATH": f"{self.root}/hooks", "LD_PRELOAD": f"{self.root}/hooks/lib.so"},
            cwd="hooks",
        )
        entry = Entry(MissionId(mission), 0, self.number, own=own)
        if signed_for is not None:
            entry = sign(entry, signed_for, trusting.keyring(os.environ).current())
        data = render(entry)
        data = data.replace(b"/usr/bin/touch", b"/bin/touch") if wrong else data
        self.write(f"queue/000-{self.number:020d}-{mission}.json", data)
        self.number += 1

    def write(self, name: str, data: bytes | str | dict[str, Any]) -> None:
        """One planted file."""
        path = self.kranz / name
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = json.dumps(data).encode() if isinstance(data, dict) else data.encode() if isinstance(data, str) else data
        path.write_bytes(raw)

    def plant(self, *, with_key: bool = True) -> None:
        """Everything at once; `with_key`: also what the user has signed and, by mistake, committed."""
        self.entry("planted")
        self.entry("other", signed_for="/somewhere/else")
        self.entry("changed", signed_for=str(self.root), wrong=True)
        if with_key:
            self.entry("signed", signed_for=str(self.root))
        self.write("kranzq.toml", f'[mission]\ncommand = ["/usr/bin/touch", "{self.trace}"]\n')
        token = suffix_k4(kranz_token(self.stranger) or "")
        claim = f"000-00000000000000000050-claimed.json.claimed.{self.stranger}.{token}"
        gone = "000-00000000000000000051-gone.json.claimed.999999.0123456789abcdef"
        for name in (claim, gone, f"000-00000000000000000052-bare.json.claimed.{self.stranger}"):
            mission = name.split("-")[2].partition(".")[0]
            self.write(f"queue/{name}", render(Entry(MissionId(mission), 0, 50)))
        for mission, named in (("gone", gone), ("claimed", claim), ("planted", "none")):
            self.run(mission, named)
        record = {"process": self.process.to_json(), "since": "2026-01-01T00:00:00Z", "version": "9"}
        self.write("queue/.daemon.json", record)
        self.write("queue/.daemon.flock", "")
        self.write("queue/.stop", {"process": me().to_json(), "now": True})
        self.write("queue/.busy.json", record | {"role": "keeper", "mission": "planted", "run": 1, "nonce": NONCE})
        self.write("queue/.seq", "999999999999999999999")
        self.write("missions/planted/input/prompt.txt", "run me")
        self.write("missions/planted/enqueue-source.json", {"producer": "p", "reference": "r", "missionId": "planted"})

    def run(self, mission: str, claim: str) -> None:
        """A run whose record names a stranger as its keeper and its survivor, and an end that was never."""
        folder = f"missions/{mission}/dispatch/001"
        entry = {"id": None, "name": f"000-00000000000000000050-{mission}.json", "inode": 1, "bornNs": None}
        record = {"version": 1, "kranzq": "9", "kind": "mission", "mission": mission, "run": 1, "state": "running"}
        record |= {"nonce": NONCE, "entry": entry, "claim": claim, "number": 50}
        record["keeper"] = self.process.to_json() | ({"startTicks": 1} if mission == "gone" else {})
        self.write(f"{folder}/run.json", record)
        survivors = [{"pid": self.stranger, "startTicks": self.process.start_ticks, "command": "x"}]
        self.write(f"{folder}/exit.json", {"nonce": NONCE, "started": True, "exitCode": 0, "survivors": survivors})
        self.write(f"{folder}/cancel.json", {"who": "x", "why": "y"})
        self.write(f"{folder}/output.log", "\x1b]0;owned\x07planted output\n")


def git(where: Path, *words: str) -> None:
    """Run git where nothing hostile is."""
    who = ("-c", "user.name=A Person", "-c", "user.email=person@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *who, *words], cwd=where, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def source_with(
    tmp_path: Path, target: Path, trace: Path, stranger: int, kranz: str = ".kranz", *, with_key: bool = True
) -> Path:
    """A repository whose planted things are made for the path `target`."""
    source = tmp_path / "source"
    hooks = source / "hooks"
    hooks.mkdir(parents=True)
    for name in ("true", "git", "sh", "python3", "post-index-change", "fsmonitor"):
        (hooks / name).write_text(f"#!/bin/sh\n/usr/bin/touch {trace}\n")
        (hooks / name).chmod(0o755)
    (source / ".gitattributes").write_text("* filter=planted\n")
    Planter(source / kranz, target, trace, stranger).plant(with_key=with_key)
    return source


def as_clone(tmp_path: Path, target: Path, trace: Path, stranger: int) -> None:
    """All planted things are tracked, and come along with a clone."""
    source = source_with(tmp_path, target, trace, stranger)
    git(source, "init", "-q")
    git(source, "add", "-f", ".")
    git(source, "commit", "-qm", "x")
    git(tmp_path, "clone", "-q", str(source), str(target))


def as_archive(tmp_path: Path, target: Path, trace: Path, stranger: int) -> None:
    """An unpacked archive with a `.git` whose settings execute something at every step, and nothing tracked."""
    source = source_with(tmp_path, target, trace, stranger, with_key=False)
    git(source, "init", "-q")
    with (source / ".git/config").open("a") as file:
        file.write(HOSTILE_CONFIG.format(trace=trace, root=target))
    for hook in (source / "hooks").iterdir():
        shutil.copy(hook, source / ".git/hooks" / hook.name)
    shutil.copytree(source, target)


def as_submodule(tmp_path: Path, target: Path, trace: Path, stranger: int) -> None:
    """The whole of `.kranz` is a repository of its own inside the checkout."""
    source = source_with(tmp_path, target, trace, stranger)
    inner = tmp_path / "inner"
    shutil.move(source / ".kranz", inner)
    for repository in (inner, source):
        git(repository, "init", "-q")
        git(repository, "add", "-f", ".")
        git(repository, "commit", "-qm", "x")
    git(source, "submodule", "add", "-q", str(inner), ".kranz")
    git(source, "commit", "-qm", "y")
    git(tmp_path, "clone", "-q", "--recurse-submodules", str(source), str(target))


def as_link(tmp_path: Path, target: Path, trace: Path, stranger: int) -> None:
    """`.kranz` is a link to a directory with another name."""
    source = source_with(tmp_path, target, trace, stranger, "data")
    (source / ".kranz").symlink_to("data")
    git(source, "init", "-q")
    git(source, "add", "-f", ".")
    git(source, "commit", "-qm", "x")
    git(tmp_path, "clone", "-q", str(source), str(target))


FORMS = {"clone": as_clone, "archive": as_archive, "submodule": as_submodule, "link": as_link}


class Watched:
    """Runs verbs under the kernel's eyes and keeps what was executed and who was signalled."""

    def __init__(self, tmp_path: Path, target: Path) -> None:
        self.log, self.target = tmp_path / "strace", target
        self.said: dict[str, str] = {}

    def argv(self, words: list[str]) -> list[str]:
        """The command line of one verb."""
        traced = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", f"trace={SEEN}", "-A", "-o", str(self.log)]
        return [*traced, sys.executable, "-m", "kranzq", "-C", str(self.target), *words]

    def run(self, line: str) -> str:
        """One verb to its end."""
        done = subprocess.run(
            self.argv(line.split()),
            cwd=REPO,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode not in {70, 120}, (line, done.stderr)
        assert "Traceback" not in done.stderr, (line, done.stderr)
        self.said[line] = done.stdout + done.stderr
        return self.said[line]

    def daemon(self) -> str:
        """A daemon that looks at everything and is stopped, or that refuses."""
        output = self.log.with_name("daemon.log")
        with output.open("wb") as file:
            process = subprocess.Popen(
                self.argv(["daemon"]),
                cwd=REPO,
                env=os.environ | {"KRANZQ_DAEMON_SCAN_SECONDS": "0.1"},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        looks: set[int] = set()

        def has_done_turns() -> bool:
            with contextlib.suppress(OSError, ValueError, KeyError):
                record = self.target / ".kranz/queue/.daemon.json"
                if f"process {json.loads(record.read_text())['process']['pid']};" in output.read_text():
                    looks.add(record.stat().st_mtime_ns)  # touched before each turn
            return process.poll() is not None or len(looks) > 3

        wait_for(has_done_turns, "the daemon has done turns, or refused")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        with contextlib.suppress(OSError, IndexError):
            os.kill(int(children.read_text().split()[0]), signal.SIGTERM)
        process.wait(60)
        self.said["daemon"] = output.read_text()
        return self.said["daemon"]

    def executed(self) -> set[str]:
        """The programs that were executed."""
        found = re.findall(r'execve(?:at)?\((?:[0-9A-Z_]+, )?"([^"]*)".*= 0$', self.log.read_text(), re.MULTILINE)
        return set(found)

    def signalled(self) -> list[str]:
        """Every signal that was sent to a process."""
        lines = self.log.read_text().splitlines()
        return [line for line in lines if re.search(r"\b(kill|tkill|tgkill|pidfd_send_signal|rt_sigqueueinfo)\(", line)]


@pytest.mark.parametrize("form", FORMS)
def test_nothing_planted_is_executed_and_nobody_is_signalled(
    form: str, tmp_path: Path, trace: Path, stranger: subprocess.Popen[bytes]
) -> None:
    """Every verb, and a daemon, in a repository full of planted things: the kernel saw only our own interpreter."""
    target = tmp_path / "target"
    FORMS[form](tmp_path, target, trace, stranger.pid)
    watched = Watched(tmp_path, target)
    for line in VERBS:
        watched.run(line)
    watched.daemon()
    for claim in (target / ".kranz/queue").glob("*.claimed.*"):
        if str(stranger.pid) in claim.name:
            claim.unlink()  # with these, which name a living process, the checkout was busy until now
    for line in ("recover", "drain", "status", "history --all", "list --all"):
        watched.run(line)
    watched.daemon()

    assert not trace.exists()
    assert {os.path.basename(program) for program in watched.executed()} == {os.path.basename(sys.executable)}
    own = [line for line in watched.signalled() if str(stranger.pid) in line]
    assert own == []
    for line, said in watched.said.items():
        assert line.startswith("logs") or not {"\x1b", "\x07"} & set(said)


def test_hooks_start_nothing_but_one_question_to_git(
    tmp_path: Path, trace: Path, stranger: subprocess.Popen[bytes]
) -> None:
    """What git is asked runs nothing of what the repository configures, and the folder that it names gets nothing."""
    target = tmp_path / "target"
    as_archive(tmp_path, target, trace, stranger.pid)
    watched = Watched(tmp_path, target)
    before = {path for path in target.rglob("*") if path.is_file()}
    watched.run("hook list")
    watched.run("hook install git-pre-push --print")
    watched.run("hook remove git-pre-push --yes")
    watched.run("guard")

    assert not trace.exists()
    programs = {os.path.basename(program) for program in watched.executed()}
    assert programs <= {os.path.basename(sys.executable), "git"}
    assert watched.signalled() == []
    assert {path for path in target.rglob("*") if path.is_file()} == before


def test_each_planted_thing_gets_one_line(tmp_path: Path, trace: Path, stranger: subprocess.Popen[bytes]) -> None:
    """In a clone each verb that tells names each planted thing once, with the reason, and drain runs none."""
    target = tmp_path / "target"
    as_clone(tmp_path, target, trace, stranger.pid)
    watched = Watched(tmp_path, target)

    listed = watched.run("list")
    for mission in ("planted", "other", "signed"):
        lines = [line for line in listed.splitlines() if line.startswith(f"{mission} ")]
        assert len(lines) == 1
        assert "tracked by git" in lines[0]
    assert "tracked by git" in watched.run("why signed")
    said = watched.run("drain")
    for mission in ("planted", "other", "changed", "signed"):
        assert len([line for line in said.splitlines() if re.search(rf"\b{mission}\b", line)]) == 1, said
    assert said.count("kranzq.toml does not count") == 1
    for verb in ("status", "trust", "check"):
        told = watched.run(verb)
        assert told.count("kranzq.toml does not count") == 1, told
        assert told.count("git tracks ") == 1, told
    assert "serves" not in watched.said["status"]
    assert "Nothing has run yet" in watched.run("history")
    assert git_is_unchanged(target)


def git_is_unchanged(target: Path) -> bool:
    """Whether nothing that came along was moved or changed."""
    done = subprocess.run(["git", "status", "--porcelain"], cwd=target, capture_output=True, text=True, check=True)
    changed = [line for line in done.stdout.splitlines() if not line.startswith("??")]
    return [line for line in changed if not re.search(r"\.(seq|stop|busy\.json|gitignore|daemon\.json)", line)] == []
