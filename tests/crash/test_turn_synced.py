"""What a power cut may not take from a turn, told by the calls of the real dispatcher and keeper, in their order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.laboratory import REPO, Laboratory

pytestmark = [pytest.mark.crash]
KEEPER = REPO / "kranzq" / "keeper.py"
NOTING = """
def noting(log):
    import json, os
    fsync, rename = os.fsync, os.rename
    def note(what, fd, name, content):
        folder = os.readlink(f"/proc/self/fd/{fd}")
        line = json.dumps({"what": what, "path": f"{folder}/{name}" if name else folder, "content": content}) + "\\n"
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line.encode())
        os.close(file)
    def noted_fsync(fd):
        fsync(fd)
        path = f"/proc/self/fd/{fd}"
        content = ""
        if os.path.isfile(path):
            with open(path, errors="replace") as file:
                content = file.read()
        note("sync", fd, "", content)
    def noted_rename(old, new, *, src_dir_fd=None, dst_dir_fd=None):
        rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        note("name", dst_dir_fd, new, "")
    os.fsync, os.rename = noted_fsync, noted_rename
noting({log!r})
"""


def calls_of_a_turn(lab: Laboratory) -> list[dict[str, Any]]:
    """Each sync and each rename of one mission's keeper, oldest first."""
    log, program = lab.notes / "calls", lab.notes / "keeper.py"
    noting = NOTING.replace("{log!r}", repr(str(log)))
    text, start = KEEPER.read_text(), 'if __name__ == "__main__":\n'
    assert text.count(start) == 1
    program.write_text(text.replace(start, f"{noting}\n{start}"))
    lab.enqueue("m1")
    assert lab.killed("never", "drain", env={"LAB_KEEPER": str(program)}) == 0, lab.log()
    assert lab.outcomes("m1") == ["succeeded"]
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_what_an_end_rests_on_is_synced(lab: Laboratory) -> None:
    """Before `exit.json` has its name: its content, and the record that says whose end it is; after it the names."""
    calls = calls_of_a_turn(lab)
    ends = [n for n, call in enumerate(calls) if call["what"] == "name" and call["path"].endswith("/exit.json")]
    run = Path(calls[ends[0]]["path"]).parent
    for begin, end, until in zip([0, *ends], ends, [*ends[1:], len(calls)], strict=False):
        before = {call["path"]: call["content"] for call in calls[begin:end] if call["what"] == "sync"}
        after = [call["path"] for call in calls[end:until] if call["what"] == "sync" and Path(call["path"]).is_dir()]

        assert json.loads(before[str(run / "run.json")])["mission"] == "m1"
        assert [json.loads(text)["started"] for path, text in before.items() if "/.exit.json." in path] == [True]
        assert after == [str(run), *map(str, run.parents)][: len(after)]
        assert after[-1:] == [str(lab.root / ".kranz")]
