"""`kranzq hook`: real scripts in real repositories, each one run by git; and nothing is left of them afterwards."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.laboratory import REPO, Laboratory, wait_for

pytestmark = [pytest.mark.system("git"), pytest.mark.slow]
OF_GIT = ["git-pre-commit", "git-pre-merge", "git-pre-push", "git-post-commit", "git-post-merge"]
GUARDS = {"git-pre-commit": "pre-commit", "git-pre-merge": "pre-merge-commit", "git-pre-push": "pre-push"}
PUSHES = """
trap '' TERM
echo more > file && git add file && git commit --quiet --message more && touch "$0.ready"
while ! [ -e "$0.go" ]; do sleep 0.02; done
git push --quiet origin HEAD > "$0.out" 2>&1
echo $? > "$0.part" && mv "$0.part" "$0.code"
"""
"""A mission that commits, and delivers when it is let, whatever it is told meanwhile."""


@dataclass
class Repository:
    """A checkout with its git, in which a `kranzq` is found that works."""

    lab: Laboratory
    path: str

    @property
    def scripts(self) -> Path:
        """Where git's scripts lie."""
        return self.lab.root / ".git" / "hooks"

    def git(self, *words: str, code: int = 0, env: dict[str, str] | None = None, at: Path | None = None) -> str:
        """Run git; what it and its scripts said."""
        done = subprocess.run(
            ["git", *words],
            cwd=at or self.lab.root,
            env=os.environ | {"PATH": self.path} | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=50,
        )
        assert done.returncode == code, (done.returncode, done.stdout)
        return done.stdout

    def commit(self, env: dict[str, str] | None = None) -> str:
        """Commit something; what was said."""
        return self.git("commit", "--allow-empty", "--quiet", "--message", "more", env=env)

    def hook(self, *words: str, code: int = 0, at: Path | None = None) -> str:
        """Run the verb; what was said."""
        words = (*(("-C", str(at)) if at is not None else ()), "hook", *words)
        done = self.lab.run(*words, code=code, env={"PATH": self.path})
        return done.stdout + done.stderr

    def look(self, kind: str, *words: str) -> dict[str, str]:
        """What the list says of one kind."""
        found = json.loads(self.hook("list", "--json", *words))["hooks"]
        return next(one for one in found if one["kind"] == kind)

    def missions(self) -> list[str]:
        """The missions that wait, as their entries name them."""
        return [name.split("-", 2)[2].removesuffix(".json") for name in self.lab.names() if name.endswith(".json")]

    def seen(self) -> tuple[dict[str, tuple[bytes, int]], str]:
        """All of git's scripts with their modes, and what git says has changed."""
        found = {}
        for path in sorted(self.lab.root.rglob("*")):
            if path.is_file() and ("hooks" in path.parts or ".git" not in path.parts) and ".kranz" not in path.parts:
                found[str(path.relative_to(self.lab.root))] = (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        return found, self.git("status", "--porcelain", "--ignored")


@pytest.fixture
def repository(lab: Laboratory, isolated: Path, tmp_path: Path) -> Repository:
    """The laboratory's checkout, with somebody who may commit."""
    (isolated / ".gitconfig").write_text("[user]\n\tname = A Person\n\temail = person@example.org\n")
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "kranzq"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(REPO))} exec {sys.executable} -m kranzq "$@"\n')
    command.chmod(0o755)
    return Repository(lab, f"{folder}{os.pathsep}{os.environ['PATH']}")


def without_kranzq(repository: Repository) -> dict[str, str]:
    """A PATH in which there is none."""
    return {"PATH": repository.path.partition(os.pathsep)[2]}


def script(path: Path, text: str, mode: int = 0o755) -> None:
    """A script of somebody else's."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


@pytest.mark.parametrize("before", ["nothing", "no folder", "another's"])
def test_in_and_out_again_leaves_no_trace(repository: Repository, before: str) -> None:
    """Git's folder, its scripts and their modes, the working tree: all as they were."""
    if before == "no folder":
        for path in repository.scripts.iterdir():
            path.unlink()
        repository.scripts.rmdir()
    for kind in OF_GIT if before == "another's" else ():
        name = GUARDS.get(kind, kind.removeprefix("git-"))
        script(repository.scripts / name, "#!/bin/sh\nexit 0", 0o755 if kind != "git-pre-push" else 0o700)
    seen, is_there = repository.seen(), repository.scripts.exists()

    kinds = [*OF_GIT, "claude", "mcp"]
    for kind in kinds:
        said = repository.hook("install", kind, "--yes")
        assert f"{kind} is in " in said
        assert "+++ " in said
        assert "nothing to change" in repository.hook("install", kind, "--yes")
        assert repository.look(kind)["state"] == "installed"
    assert repository.seen() != seen
    for kind in reversed(kinds):
        assert f"{kind} is out of " in repository.hook("remove", kind, "--yes")
        assert "nothing to change" in repository.hook("remove", kind, "--yes")

    assert repository.seen() == seen
    assert repository.scripts.exists() is is_there
    assert not (repository.lab.root / ".claude").exists()


def test_each_commit_is_enqueued_once(repository: Repository) -> None:
    """However often the script is run; a commit's mission bears its name."""
    repository.hook("install", "git-post-commit", "--yes", "--priority", "7", "--", "echo", "it's one")
    heads = []
    for _ in range(2):
        assert repository.commit() == ""
        heads.append(repository.git("rev-parse", "HEAD").strip())
        subprocess.run([repository.scripts / "post-commit"], cwd=repository.lab.root, check=True, timeout=50)

    assert sorted(repository.missions()) == sorted(f"commit-{head}" for head in heads)
    entry = json.loads((repository.lab.queue / repository.lab.names()[0]).read_text())
    assert (entry["priority"], entry["kranzq"]["command"]) == (7, ["echo", "it's one"])


def test_a_merge_is_enqueued_once(repository: Repository) -> None:
    """Under a name of one's own."""
    repository.hook("install", "git-post-merge", "--yes", "--mission", "mend", "--timeout", "1h", "--", "true")
    repository.git("checkout", "--quiet", "-b", "side")
    repository.commit()
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "--no-edit", "side")

    assert repository.missions() == ["mend-" + repository.git("rev-parse", "HEAD").strip()]


def test_what_missions_commit_brings_on_no_mission(repository: Repository) -> None:
    """Else each would bring on the next, for ever; who wants that says so."""
    marks = {"KRANZ_CLAIM": f"{'a' * 32}:1:1"}
    repository.hook("install", "git-post-commit", "--yes", "--", "true")
    repository.commit(env=marks)
    assert repository.missions() == []

    repository.hook("install", "git-post-commit", "--yes", "--missions-too", "--", "true")
    repository.commit(env=marks)
    assert len(repository.missions()) == 1


def test_nothing_of_kranzq_stops_a_person(repository: Repository, tmp_path: Path) -> None:
    """Neither that it is not there, nor that it refuses: the commit is made, the rest of the script runs."""
    script(repository.scripts / "post-commit", "#!/bin/sh -eu\necho mine\n")
    for kind in OF_GIT:
        repository.hook("install", kind, "--yes")
    assert repository.commit(env=without_kranzq(repository)) == "mine\n"

    repository.lab.run("init")
    repository.lab.queue.chmod(0o777)
    said = repository.commit()
    assert "everybody may write" in said
    assert said.endswith("mine\n")
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "far.git"], check=True)
    repository.git("push", "--quiet", str(tmp_path / "far.git"), "HEAD:main", env=without_kranzq(repository))


@pytest.mark.parametrize("kind", GUARDS)
def test_where_nobody_can_tell_a_mission_is_refused(repository: Repository, kind: str, tmp_path: Path) -> None:
    """With kranzq, whose word it is; and without it, where nobody could ask."""
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "far.git"], check=True)
    repository.git("checkout", "--quiet", "-b", "side")
    repository.commit()
    repository.git("checkout", "--quiet", "main")
    repository.hook("install", kind, "--yes")
    words = {
        "git-pre-commit": ["commit", "--allow-empty", "--message", "more"],
        "git-pre-merge": ["merge", "--no-ff", "--no-edit", "side"],
        "git-pre-push": ["push", "--quiet", str(tmp_path / "far.git"), "HEAD:main"],
    }[kind]
    head = repository.git("rev-parse", "HEAD")
    for env, why in (({}, "cannot be told"), (without_kranzq(repository), "not found in PATH")):
        assert why in repository.git(*words, code=1, env={"KRANZ_RUN_NUMBER": "1"} | env)
        if kind == "git-pre-merge":
            repository.git("merge", "--abort")

    assert repository.git("rev-parse", "HEAD") == head
    assert "main" not in repository.git("ls-remote", str(tmp_path / "far.git"))
    repository.git(*words)


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_cancelled_mission_cannot_deliver(repository: Repository, tmp_path: Path, is_cancelled: bool) -> None:  # noqa: FBT001
    """It runs on for its grace, and what it then hands over would count as work that somebody wanted."""
    lab, told = repository.lab, tmp_path / "told"
    repository.git("init", "--quiet", "--bare", str(tmp_path / "far.git"))
    repository.git("remote", "add", "origin", str(tmp_path / "far.git"))
    script(repository.scripts / "pre-push", f"#!/bin/sh\ncat > {tmp_path}/refs\n")
    repository.hook("install", "git-pre-push", "--yes")
    lab.enqueue("m1", "sh", "-c", PUSHES, str(told))
    lab.daemon(env={"PATH": repository.path, "KRANZQ_MISSION_GRACE_SECONDS": "60"})  # so long its end is in no hurry
    wait_for(Path(f"{told}.ready").exists, "the mission has committed")
    if is_cancelled:
        lab.run("cancel", "m1", "--why", "the wrong ticket")
    Path(f"{told}.go").touch()
    wait_for(Path(f"{told}.code").exists, "it has tried")
    code, said = int(Path(f"{told}.code").read_text()), Path(f"{told}.out").read_text()

    arrived = repository.git("ls-remote", str(tmp_path / "far.git"), "main")
    if is_cancelled:
        assert (code, arrived) == (1, "")
        assert "has lost its claim: it was cancelled" in said
        assert "the wrong ticket" in said
    else:
        assert (code, said) == (0, "")
        assert arrived.startswith(repository.git("rev-parse", "HEAD").strip())
        assert "refs/heads/main" in (tmp_path / "refs").read_text(), "the other script has its input"


def test_a_linked_worktree_shares_its_repository_s_scripts(repository: Repository, tmp_path: Path) -> None:
    """Git asks them there, and each commit goes into the queue of the tree in which it was made."""
    tree = tmp_path / "tree"
    repository.git("worktree", "add", "--quiet", str(tree))
    repository.hook("install", "git-post-commit", "--yes", "--", "true", at=tree)
    assert (repository.scripts / "post-commit").exists()
    assert repository.look("git-post-commit")["state"] == "installed"

    repository.git("commit", "--quiet", "--allow-empty", "--message", "more", at=tree)
    assert repository.missions() == []
    assert [name for name in os.listdir(tree / ".kranz/queue") if name.endswith(".json") and name[0] != "."]


def test_another_folder_of_scripts_is_respected(repository: Repository, tmp_path: Path) -> None:
    """Inside the repository as it is said; outside only when all repositories that use it are meant."""
    repository.git("config", "core.hooksPath", "tools/hooks")
    (repository.lab.root / "tools").mkdir()
    assert "working tree" in repository.hook("install", "git-post-commit", "--yes", "--", "true")
    repository.commit()
    assert len(repository.missions()) == 1
    repository.hook("remove", "git-post-commit", "--yes")
    assert not (repository.lab.root / "tools/hooks").exists()

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    repository.git("config", "core.hooksPath", str(elsewhere))
    assert "--shared" in repository.hook("install", "git-pre-push", "--yes", code=5)
    assert list(elsewhere.iterdir()) == []
    assert "serve other repositories" in repository.hook("install", "git-pre-push", "--yes", "--shared")
    assert repository.look("git-pre-push")["path"] == f"{elsewhere}/pre-push"

    repository.git("config", "core.hooksPath", "")  # git looks for scripts in the root of all files then
    assert "core.hooksPath is /, " in repository.hook("install", "git-pre-push", "--yes", code=5)
    assert not (repository.lab.root / "pre-push").exists()

    repository.git("config", "core.hooksPath", "/dev/null")
    assert "switches git's scripts off" in repository.hook("install", "git-pre-push", "--yes", code=4)


def test_nothing_that_a_checkout_says_is_run_or_believed(repository: Repository, tmp_path: Path) -> None:
    """Git is asked in a way that runs nothing, and a `.git` that leads to another repository is refused."""
    trace = tmp_path / "trace"
    settings = f"[core]\n\tfsmonitor = touch {trace}\n\tpager = touch {trace}\n\tsshCommand = touch {trace}\n"
    settings += f"[alias]\n\trev-parse = !touch {trace}\n[include]\n\tpath = /dev/zero\n"
    planted = tmp_path / "planted"
    subprocess.run(["git", "init", "--quiet", planted], check=True)
    with (planted / ".git/config").open("a") as config:
        config.write(settings.replace("[include]\n\tpath = /dev/zero\n", ""))
    repository.hook("install", "git-pre-push", "--print", at=planted)
    repository.hook("list", at=planted)
    assert not trace.exists()

    leads = tmp_path / "leads"
    leads.mkdir()
    (leads / ".git").write_text(f"gitdir: {repository.lab.root}/.git\n")
    assert "does not know this checkout" in repository.hook("install", "git-pre-push", "--yes", code=5, at=leads)
    (planted / ".claude").symlink_to(repository.lab.root)
    assert "it is a link" in repository.hook("install", "claude", "--yes", code=5, at=planted)


@pytest.mark.parametrize(
    ("text", "mode", "why", "code"),
    [
        ("#!/usr/bin/env python3\n", 0o755, "no script of a shell", 4),
        ("#!/bin/sh\n", 0o644, "not executable", 4),
        ("#!/bin/sh\n# >>> kranzq hook git-pre-push >>> 1 made=\n", 0o755, "line 2", 4),
    ],
)
def test_what_is_not_understood_stays(repository: Repository, text: str, mode: int, why: str, code: int) -> None:
    """And it is said what to do by hand."""
    path = repository.scripts / "pre-push"
    script(path, text, mode)
    said = repository.hook("install", "git-pre-push", "--yes", code=code)

    assert why in said
    assert path.read_text() == text
    if code == 4 and "python3" in text:
        assert "near its beginning: kranzq guard >/dev/null </dev/null || exit $?" in said


def test_a_link_is_left_alone(repository: Repository) -> None:
    """What it leads to is somebody's, and perhaps tracked."""
    script(repository.lab.root / "mine", "#!/bin/sh\n")
    (repository.scripts / "pre-push").symlink_to(repository.lab.root / "mine")

    assert "symbolic link" in repository.hook("install", "git-pre-push", "--yes", code=5)
    assert (repository.lab.root / "mine").read_text() == "#!/bin/sh\n"


def test_the_list_tells_what_is_not_as_it_should_be(repository: Repository) -> None:
    """Another version is named; a change by hand is a difference; a broken file is not looked into."""
    repository.hook("install", "git-pre-push", "--yes")
    path = repository.scripts / "pre-push"
    text = path.read_text()
    assert repository.look("git-pre-commit")["state"] == "absent"

    path.write_text(text.replace(">>> 0.1.0", ">>> 0.0.1"))
    assert (repository.look("git-pre-push")["state"], repository.look("git-pre-push")["version"]) == (
        "installed",
        "0.0.1",
    )
    path.write_text(text.replace("kranzq guard", "kranzq guard --mission-only"))
    assert repository.look("git-pre-push")["why"] == "it was changed by hand"
    path.write_text(text.replace("kranzq guard", "kranzq guard --json").replace(">>> 0.1.0", ">>> 0.0.1"))
    assert "0.0.1 wrote it otherwise" in repository.look("git-pre-push")["why"]
    path.write_text(text)
    path.chmod(0o644)
    assert "not executable" in repository.look("git-pre-push")["why"]
    (repository.lab.root / ".mcp.json").write_text("{\n,")
    assert repository.look("mcp")["state"] == "unknown"
    assert "line 2" in repository.look("mcp")["why"]
    shown = repository.hook("list")
    assert "differs" in shown
    assert "unknown" in shown


def test_an_approved_plan_is_enqueued_once(repository: Repository) -> None:
    """The host runs the command with the approval on its input; what was approved lies in the mission's input."""
    repository.hook("install", "claude", "--yes", "--timeout", "2h", "--", "cat")
    hooks = json.loads((repository.lab.root / ".claude/settings.local.json").read_text())["hooks"]
    command = hooks["PostToolUse"][0]["hooks"][0]["command"]
    env = os.environ | {"PATH": repository.path, "CLAUDE_PROJECT_DIR": str(repository.lab.root)}

    def run(text: str, **marks: str) -> int:
        done = subprocess.run(["sh", "-c", command], input=text, text=True, env=env | marks, check=False, timeout=50)
        return done.returncode

    assert [run('{"a": 1}'), run('{"a": 1}'), run('{"a": 2}'), run("{}", KRANZ_CLAIM="x")] == [0, 0, 0, 0]
    assert len(repository.missions()) == 2
    assert all(name.startswith("plan-") for name in repository.missions())
    files = list(repository.lab.root.glob(".kranz/missions/plan-*/input/approval.json"))
    assert sorted(path.read_text() for path in files) == ['{"a": 1}', '{"a": 2}']
    assert run("{}", PATH=without_kranzq(repository)["PATH"]) == 0
    repository.lab.queue.chmod(0o777)
    assert run('{"a": 3}') == 1

    stop = hooks["Stop"][0]["hooks"][0]["command"]
    for marks, code in (({}, 0), ({"KRANZ_RUN_NUMBER": "1"}, 1)):
        assert subprocess.run(["sh", "-c", stop], env=env | marks, check=False, timeout=50).returncode == code


def test_settings_elsewhere_are_named(repository: Repository, tmp_path: Path) -> None:
    """Those of the user, or of another agent that reads the same form; no checkout is needed."""
    path = tmp_path / "settings.json"
    text = '{\n    "model": "big",\n    "hooks": {\n        "Stop": []\n    }\n}\n'
    path.write_text(text)
    path.chmod(0o600)
    for kind in ("claude", "mcp"):
        repository.hook("install", kind, "--yes", "--file", str(path), at=tmp_path)
        assert repository.look(kind, "--file", str(path))["state"] == "installed"
    assert '"KRANZQ_HOOK"' in path.read_text()
    for kind in ("mcp", "claude"):
        repository.hook("remove", kind, "--yes", "--file", str(path), at=tmp_path)

    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (text, 0o600)


def test_a_job_for_a_ci_is_only_printed(repository: Repository) -> None:
    """Its steps are shell that can be read, and nothing is written."""
    seen = repository.seen()
    said = repository.hook("install", "ci", "--mission", "verify", "--", "make", "it's all")
    steps = [step.replace("\n      ", "\n") for step in said.split("- |\n")[1:]]

    assert len(steps) == 2
    for step in steps:
        subprocess.run(["sh", "-n", "-c", step], check=True, timeout=50)
    assert """kranzq enqueue verify-"${REVISION:?names no commit}" --once -- make 'it'"'"'s all'""" in said
    told = json.loads(
        repository.hook("install", "ci", "--print", "--json", "--mission", "verify", "--", "make", "it's all")
    )
    assert (told["path"], told["diff"]) == (None, said.splitlines())
    assert repository.seen() == seen
    repository.hook("remove", "ci", code=2)


def test_a_job_for_a_ci_that_is_not_wired_fails(repository: Repository) -> None:
    """Without a commit each job would enqueue the same mission, and without a branch nothing would be guarded."""
    said = repository.hook("install", "ci", "--", "true")
    guard, enqueue = (step.partition("\n    #")[0].replace("\n      ", "\n") for step in said.split("- |\n")[1:])
    env = {name: text for name, text in os.environ.items() if name not in {"REVISION", "BRANCH"}}

    def run(step: str, **given: str) -> tuple[int, str]:
        there = env | {"PATH": repository.path} | given
        argv = ["sh", "-c", step]
        done = subprocess.run(
            argv, cwd=repository.lab.root, env=there, capture_output=True, text=True, check=False, timeout=50
        )
        return done.returncode, done.stderr

    for given in ({}, {"REVISION": "", "BRANCH": ""}):
        for step, name in ((guard, "BRANCH"), (enqueue, "REVISION")):
            code, told = run(step, **given)
            assert code != 0
            assert name in told
    assert repository.missions() == []
    assert run(guard, BRANCH="main") == (0, "")
    assert run(enqueue, REVISION="abc")[0] == 0
    assert repository.missions() == ["ci-abc"]


def test_without_a_hash_or_a_commit_nothing_is_enqueued(repository: Repository, tmp_path: Path) -> None:
    """A mission with half an id would be there once and never again: the host shows a fault, and git goes on."""
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("sha256sum", "git"):
        (broken / name).write_text("#!/bin/sh\nexit 1\n")
        (broken / name).chmod(0o755)
    repository.hook("install", "claude", "--yes", "--", "cat")
    repository.hook("install", "git-post-commit", "--yes", "--", "cat")
    hooks = json.loads((repository.lab.root / ".claude/settings.local.json").read_text())["hooks"]
    command = hooks["PostToolUse"][0]["hooks"][0]["command"]
    env = os.environ | {"PATH": f"{broken}:{repository.path}", "CLAUDE_PROJECT_DIR": str(repository.lab.root)}

    done = subprocess.run(["sh", "-c", command], input="{}", text=True, env=env, check=False, timeout=50)
    assert done.returncode == 1
    committed = subprocess.run(
        [repository.scripts / "post-commit"], env=env, cwd=repository.lab.root, check=False, timeout=50
    )
    assert committed.returncode == 0
    assert repository.missions() == []


def test_what_would_change_is_shown_and_nothing_is_written(repository: Repository) -> None:
    """With --print, and where nobody can be asked."""
    seen = repository.seen()
    assert "+#!/bin/sh" in repository.hook("install", "git-pre-push", "--print")
    shown = json.loads(repository.hook("install", "git-pre-push", "--print", "--json"))
    assert (shown["kind"], shown["changed"], shown["notes"]) == ("git-pre-push", False, [])
    assert "+#!/bin/sh" in shown["diff"]
    assert "--yes" in repository.hook("install", "git-pre-push", code=5)
    repository.hook("install", "git-pre-push", "--json", code=2)

    assert repository.seen() == seen
    assert json.loads(repository.hook("install", "git-pre-push", "--yes", "--json"))["changed"] is True


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_on_a_terminal_it_asks(repository: Repository, answer: str, code: int) -> None:
    """After the difference, which is what the answer is about."""
    ours, theirs = os.openpty()
    argv = repository.lab.command("hook", "install", "git-pre-push")
    with subprocess.Popen(
        argv, cwd=REPO, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as one:
        os.write(ours, f"{answer}\n".encode())
        said, _ = one.communicate(timeout=50)
    os.close(ours)
    os.close(theirs)

    assert one.returncode == code
    assert said.index("+#!/bin/sh") < said.index("Change ")
    assert (repository.scripts / "pre-push").exists() is (code == 0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["install", "pre-push"], "Did you mean git-pre-push"),
        (["install", "git-pre-push", "--", "true"], "enqueues nothing"),
        (["install", "git-pre-push", "--agent", "ann"], "for mcp"),
        (["install", "git-pre-push", "--file", "x"], "--file"),
        (["install", "mcp", "--shared"], "--shared"),
        (["install", "ci", "--file", "x"], "--file"),
        (["install", "git-post-commit", "--timeout", "soon"], "--timeout"),
        (["install", "git-post-commit", "--mission", "a/b"], "no mission id"),
        (["install", "git-post-commit", "--mission", "a" * 100], "no mission id"),
    ],
)
def test_words_that_mean_nothing_are_refused(repository: Repository, words: list[str], says: str) -> None:
    """With what was perhaps meant; nothing is written."""
    assert says in repository.hook(*words, code=2)


def test_without_a_repository_it_is_said_what_is_missing(repository: Repository, tmp_path: Path) -> None:
    """No checkout, or one without git."""
    assert "no checkout" in repository.hook("install", "mcp", "--yes", code=3, at=tmp_path)
    (tmp_path / "bare").mkdir()
    assert "no checkout" in repository.hook("install", "git-pre-push", "--yes", code=3, at=tmp_path / "bare")
    repository.lab.run("-C", str(tmp_path / "bare"), "init")
    assert "no git" in repository.hook("install", "git-pre-push", "--yes", code=3, at=tmp_path / "bare")


def test_kinds_are_completed() -> None:
    """A press of the key shows what can be installed."""
    asked = {"_KRANZQ_COMPLETE": "bash_complete", "COMP_WORDS": "kranzq hook install git-pre", "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-m", "kranzq"], cwd=REPO, env=os.environ | asked, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == [f"plain,{kind}" for kind in GUARDS]
