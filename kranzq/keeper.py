# Longer than 300 lines: one file, run by path, which may import nothing of ours once the package may be gone.
"""The keeper: the parent of one mission, which outlives every dispatcher and alone records how the mission ended.

A program of its own, run by path (`python -I -S -E keeper.py SOCKET`): it imports nothing of kranzq and nothing at all
once it is ready, so replacing or removing the package cannot hurt a running mission. It holds nothing until *go*; from
then on it lives, and the busy lock is held, as long as anything of the mission lives.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource  # noqa: F401 - os.wait4 would import it later, when the package may be gone
import select
import signal
import socket
import stat
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # 0.8 MB and 2 ms in each keeper, for words that nothing reads at run time
    from collections.abc import Callable
    from typing import Any

TICK = 1.0  # the truth for wishes and deadlines; dnotify only makes them faster
TOUCH_EVERY = 60.0
LATE_TERM = 1.0  # a stopped service signals mission and keeper apart, up to 0.2 s on a loaded machine
STUCK_AFTER = 30.0
LONGEST_LEASE = 86400.0
ASLEEP, RENEWAL_WITHIN = 2.0, 5.0  # after such a pause of ours whoever watches has so long to confirm the lease
PR_SET_CHILD_SUBREAPER = 36
SPARE, WISH_LIMIT, LOG_LIMIT, MOST_NAMED = 4 * 1024, 8 * 1024, 256 * 1024, 256
PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
SOON, BLOCK = 0.005, 4096
LIBC = ctypes.CDLL(None, use_errno=True)
SHARED = stat.S_ISGID | stat.S_IWGRP  # a folder that a group shares, which says so
ENDING = frozenset({signal.SIGTERM, signal.SIGINT})
WATCHED = ENDING | {signal.SIGCHLD, signal.SIGIO}
ENTRY_FAULTS = {errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.E2BIG, errno.ELOOP, errno.ENAMETOOLONG}
NOT_OFFERED = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EACCES}
REASONS = {
    None: "",
    "cancel": "Its end was wished: cancel.",
    "return": "Its end was wished: its entry returns.",
    "terminated": "Its keeper was told to end it.",
    "timeout": "It ran longer than its timeout.",
    "lease": "The lease of its item was not renewed in time.",
}


class Process:
    """What /proc/PID/stat says; a pid means something only together with its start ticks."""

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        self.pid, self.state = pid, fields[0].decode()
        self.parent, self.group, self.threads, self.ticks = (int(fields[index]) for index in (1, 2, 17, 19))


class Bound:
    """The bound of an output: over its cap the middle becomes a hole; the mission goes on appending to the same file.

    The pause between two looks follows the growth: not more than a quarter of the cap is written meanwhile, unless a
    mission begins to write that fast within the pause.
    """

    def __init__(self, fd: int, cap: int | None) -> None:
        self.fd, self.cap, self.pause, self.seen = fd, cap, SOON, (boot(), 0)
        self.block = BLOCK if cap is None else max(BLOCK, os.fstat(fd).st_blksize)
        self.head = self.hole = -(-((cap or 0) // 2) // self.block) * self.block

    def look(self) -> float:
        """Punch out what is too much; say how soon to look again."""
        if self.cap is None:
            return TICK
        now, (then, before) = boot(), self.seen
        if now - then >= SOON / 2:  # many wake-ups, such as the deaths of children, tell nothing of the pace
            size = self.trim(self.cap)
            enough = self.cap / 4 / max(size - before, 1) * (now - then)
            self.pause, self.seen = max(SOON, min(TICK, self.pause * 2, enough)), (now, size)
        return self.pause

    def trim(self, cap: int) -> int:
        """Let the hole grow up to where the kept tail begins; the size. No holes here: said once, and left alone."""
        size = os.fstat(self.fd).st_size
        if size < self.hole:  # somebody truncated it
            self.hole = self.head
        end = (size - cap // 2) // self.block * self.block
        if end > self.hole:
            call = getattr(LIBC, "fallocate64", None) or LIBC.fallocate
            if call(self.fd, PUNCH_HOLE_KEEP_SIZE, ctypes.c_int64(self.hole), ctypes.c_int64(end - self.hole)) == 0:
                self.hole = end
            elif ctypes.get_errno() in NOT_OFFERED:
                note(f"the output may grow over its cap: {os.strerror(ctypes.get_errno())}")
                self.cap = None
        return size


class Keeper:
    """One mission from *go* to its last record."""

    leader, reaped = 0, False
    why: str | None = None
    wish: dict[str, Any] | None = None
    deadline: float | None = None
    kill_at: float | None = None
    term_seen = term_counted = stuck_named = False

    def __init__(self, sock: socket.socket, locks: list[int], fds: dict[str, int], order: dict[str, Any]) -> None:
        self.sock, self.locks, self.fds, self.order, self.run = sock, locks, fds, order, fds["run"]
        self.spares: list[tuple[str, int]] = []
        self.names = 0
        self.told: set[tuple[int, int, int]] = set()
        self.touch_at = boot() + TOUCH_EVERY
        self.lease, self.looked, self.excused = order["leaseEndsBoottime"], boot(), 0.0
        self.bound = Bound(fds.get("output", -1), order.get("outputCap"))
        self.end: dict[str, Any] = {key: order[key] for key in ("version", "kranzq", "mission", "run", "nonce")}
        self.end |= {"started": False, "notStarted": None, "exitCode": None, "signal": None, "startedAt": None}
        self.end["record"] = order.get("record") or ""  # whose end it is, should the mission remove `run.json`
        self.end["usage"] = {"userSeconds": 0.0, "systemSeconds": 0.0, "maxRssKiB": 0}

    def keep(self) -> None:
        """Start the mission, watch it, record its end, see to what survives it, and record that as the last act."""
        if self.start():
            self.watch()
            self.reap_leader()
            self.record(patient=True)
            self.tell({"end": self.end})
            self.end["survivors"] = self.see_to_survivors()
            self.bound.look()
            recorded = self.record(patient=True)
            self.tell({"survivors": self.end["survivors"]})
        else:  # nothing ran: a dispatcher that is there is told, and the full disk need not hold up the checkout
            recorded = self.record(patient=self.dispatcher_is_gone())
            self.tell({"notStarted": self.end})
        for name, _ in self.spares:
            quietly(os.unlink, name, dir_fd=self.run)
        if recorded and self.dispatcher_is_gone():
            for lock in self.locks:  # survivors that were named keep the descriptor, but shall block nothing
                fcntl.flock(lock, fcntl.LOCK_UN)

    def start(self) -> bool:
        """Start the mission; False when it was not, with the reason in the end record."""
        try:
            for _ in range(2):  # room for both records, so that a full disk cannot swallow an end
                self.spares.append(self.new_file())
                reserve(self.spares[-1][1])
        except OSError as fault:
            return self.refuse("environment", f"There is no room for its end record: {fault.strerror}.")
        quietly(fcntl.fcntl, self.run, fcntl.F_NOTIFY, fcntl.DN_CREATE | fcntl.DN_RENAME | fcntl.DN_MULTISHOT)
        self.wait(0)
        self.why = self.look()
        if self.why is not None:
            return self.refuse("request", f"It was not started. {REASONS[self.why]}")
        try:
            os.dup2(self.fds["input"] if "input" in self.fds else os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), 0)
            os.fchdir(self.fds["cwd"])
        except OSError as fault:
            return self.refuse("environment", f"Its working directory cannot be entered: {fault.strerror}.")
        self.end["startedAt"] = stamp()
        try:
            self.leader = self.spawn()
        except (OSError, ValueError) as fault:  # ValueError: a text that no system call takes, such as one with a NUL
            own = not isinstance(fault, OSError) or fault.errno in ENTRY_FAULTS
            self.end["startedAt"] = None
            return self.refuse("entry" if own else "environment", f"{self.order['executable']!r} cannot run: {fault}.")
        timeout, seen = self.order["timeoutSeconds"], look_at(self.leader)
        self.deadline = None if timeout is None else boot() + timeout
        self.end["started"] = True
        started = {"pid": self.leader, "startTicks": seen.ticks if seen else None, "at": self.end["startedAt"]}
        self.tell({"started": started})
        return True

    def spawn(self) -> int:
        """Become a mission's parent: own session, empty mask, default dispositions, output to its file."""
        order, output = self.order, self.fds["output"]
        score = quietly(oom_score)  # raised before and lowered after: what the mission forks at once has it higher, too
        if score is not None:
            quietly(oom_score, min(score + order["oomScoreAdjust"], 1000))
        try:
            return os.posix_spawn(
                raw(order["executable"]),
                [raw(part) for part in order["argv"]],
                {raw(key): raw(value) for key, value in order["env"].items()},
                file_actions=[(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)],
                setsid=True,
                setsigmask=(),
                setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
            )
        finally:
            if score is not None:
                quietly(oom_score, score)
            os.chdir("/")

    def refuse(self, kind: str, reason: str) -> bool:
        """Note that nothing was started, and why."""
        self.sum_up(reason)
        self.end |= {"notStarted": kind, "survivors": []}
        return False

    def sum_up(self, reason: str) -> None:
        """Write into the end record who ended the mission, and whether that counts."""
        counted = self.why != "return" and (self.why != "terminated" or self.term_counted)
        self.end.setdefault("endedAt", stamp())
        self.end |= {"why": self.why, "counted": counted, "reason": reason, "wish": self.wish if self.why else None}
        note(reason or "it ended by itself")

    def watch(self) -> None:
        """Wait until the mission's own process has ended, or end it when there is a reason to."""
        while not self.leader_ended():
            try:
                why = self.look()
                if why is not None and not self.leader_ended():  # else it ended by itself: its own outcome stands
                    self.why = why
                    self.end_tree(self.leader_ended)
                    break
                lease = None if self.lease is None else max(self.lease, self.excused)
                limits = [at - boot() for at in (self.deadline, lease) if at is not None]
                self.wait(min([TICK, *limits]))
            except Exception as fault:  # a fault of ours must not leave a mission without its parent
                note(f"while watching: {fault!r}")
                self.wait(TICK)
        self.end["endedAt"] = stamp()
        ended = os.waitid(os.P_PID, self.leader, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        clean = ended is not None and (ended.si_code, ended.si_status) == (os.CLD_EXITED, 0)
        if self.why is None and not clean and self.term_within(LATE_TERM):
            self.why = "terminated"

    def look(self) -> str | None:
        """Say for which reason the mission must end now, if there is one."""
        if self.term_seen:
            return "terminated"
        for why in ("cancel", "return"):
            there, self.wish = read_wish(self.run, f"{why}.json")
            if there:
                return why
        now = boot()
        if self.lease is not None and self.lease_is_over(now):
            return "lease"
        return "timeout" if self.deadline is not None and now >= self.deadline else None

    def lease_is_over(self, now: float) -> bool:
        """Say whether the lease has passed unconfirmed; `lease.json` has its end as it was last confirmed.

        When we stood still ourselves, so did whoever renews it: the two of us may have been asleep with the host.
        """
        said = (read_wish(self.run, "lease.json")[1] or {}).get("endsBoottime")
        if isinstance(said, int | float) and said < now + LONGEST_LEASE:
            self.lease = said
        if now - self.looked > ASLEEP:
            self.excused = now + RENEWAL_WITHIN
        self.looked = now
        return bool(now >= max(self.lease, self.excused))

    def leader_ended(self) -> bool:
        """Look without reaping: while the leader is a zombie its number, and its group's, is surely its own."""
        self.children_left()
        return os.waitid(os.P_PID, self.leader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def children_left(self) -> bool:
        """Reap all but the leader; False is the proof that no descendant is left, for orphans come to a subreaper."""
        try:
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if ended.si_pid == self.leader and not self.reaped:
                    break
                os.waitid(os.P_PID, ended.si_pid, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            return False
        return True

    def reap_leader(self) -> None:
        """Take the code and the use of resources: the one place that reaps the mission's own process."""
        _, status, usage = os.wait4(self.leader, 0)
        self.reaped = True
        code = os.waitstatus_to_exitcode(status)
        self.end["exitCode" if code >= 0 else "signal"] = abs(code)
        times = {"userSeconds": round(usage.ru_utime, 3), "systemSeconds": round(usage.ru_stime, 3)}
        self.end["usage"] = times | {"maxRssKiB": usage.ru_maxrss}
        self.sum_up(REASONS[self.why])

    def see_to_survivors(self) -> list[dict[str, object]]:
        """End what outlived the mission, or name it where the order says so."""
        if not self.children_left():
            return []
        if self.why is None and self.order["onSurvivors"] == "report":
            return named_family()
        note(f"ending what is left: {named_family()}")
        self.end_tree(lambda: not self.children_left())
        return []

    def end_tree(self, over: Callable[[], bool]) -> None:
        """TERM once to each process, after the grace KILL, again until `over`."""
        if self.kill_at is None:
            self.kill_at = boot() + self.order["graceSeconds"]
        self.signal_tree(signal.SIGTERM)
        self.pause(self.kill_at, over)
        pause = 0.01
        while not over():
            pause = 0.01 if self.signal_tree(signal.SIGKILL) else min(pause * 1.5, TICK)
            self.pause(boot() + pause, over)
            if boot() > self.kill_at + STUCK_AFTER and not self.stuck_named:
                self.name_stuck()

    def name_stuck(self) -> None:
        """Say once what will not die: the keeper stays as long as that does, with claim and lock."""
        self.stuck_named = True
        stuck: dict[str, object] = {"stuck": named_family()}
        self.tell(stuck)
        quietly(lambda: self.put("stuck.json", json.dumps(stuck).encode(), self.new_file()))

    def signal_tree(self, sig: int) -> bool:
        """Signal the descendants, with TERM only those that have not had it; say whether there was a new one."""
        known, group = len(self.told), 0 if self.reaped or (self.told and sig == signal.SIGTERM) else self.leader
        if group:  # also where /proc is hidden
            quietly(os.killpg, group, sig)
        for process in family():
            key = (process.pid, process.ticks, sig)
            if process.group != group and (sig == signal.SIGKILL or key not in self.told):
                quietly(send, process.pid, sig)
            self.told.add(key)
        return len(self.told) > known

    def pause(self, until: float, over: Callable[[], bool]) -> None:
        """Wait until a point of the boot clock or until `over`."""
        while not over() and (left := until - boot()) > 0:
            self.wait(min(left, TICK))

    def term_within(self, seconds: float) -> bool:
        """Say whether a TERM of our own has come or comes within `seconds`."""
        self.pause(boot() + seconds, lambda: self.term_seen)
        return self.term_seen

    def wait(self, seconds: float) -> None:
        """Sleep until a child ends, the run folder changes or a TERM of our own comes: the only place for signals."""
        if boot() >= self.touch_at:
            self.touch_at = boot() + TOUCH_EVERY
            quietly(os.utime, raw(self.order["claim"]), dir_fd=self.fds["queue"], follow_symlinks=False)
        told = signal.sigtimedwait(WATCHED, max(min(seconds, self.bound.look()), 0.0))
        if told is not None and told.si_signo in ENDING:
            note(f"signal {told.si_signo} from process {told.si_pid}")
            if not self.term_seen:  # before the start nothing can have come from the mission
                self.term_seen, self.term_counted = True, self.leader != 0 and counts(told.si_pid)
            self.tell({"term": {"sender": told.si_pid}})

    def record(self, *, patient: bool) -> bool:
        """Write exit.json; while that fails stay and try again, until a TERM ends the trying."""
        data, said = json.dumps(self.end).encode(), ""
        while True:
            try:
                if os.fstat(self.run).st_nlink == 0 and not self.folder_anew():
                    return False
                quietly(self.sync_record, "run.json")
                quietly(self.sync_record, "not-before")
                if self.order["leaseEndsBoottime"] is not None:  # an item's result is what it said last
                    quietly(self.sync_record, "output.log")
                self.put("exit.json", data, self.spare() or self.new_file())
                return True
            except Exception as fault:
                reason = (isinstance(fault, OSError) and fault.strerror) or repr(fault)
                if reason != said:
                    note(f"exit.json cannot be written: {reason}")
                    self.tell({"unwritten": reason})
                said = reason
            if not patient or self.term_within(TICK):
                return False

    def spare(self) -> tuple[str, int] | None:
        """Take a file that was made before the start; one that somebody has removed since is none any more."""
        while self.spares:
            name, fd = self.spares.pop(0)
            seen = quietly(os.stat, name, dir_fd=self.run, follow_symlinks=False)
            if seen is not None and seen.st_ino == os.fstat(fd).st_ino:
                return name, fd
            os.close(fd)
        return None

    def folder_anew(self) -> bool:
        """Make the removed run folder again, but only while the claim is there: else nobody waits for the record."""
        try:
            os.stat(raw(self.order["claim"]), dir_fd=self.fds["queue"], follow_symlinks=False)
        except FileNotFoundError:
            return False
        path = raw(self.order["runPath"])
        make_folders(path)
        self.run = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.spares.clear()
        if self.order.get("record"):  # or nobody could tell whose end this is, and it would run again
            self.put("run.json", raw(self.order["record"]), self.new_file())
        return True

    def sync_record(self, name: str) -> None:
        """Make what the end rests on as safe as it: `run.json` says whose end it is, `not-before` when to run again."""
        seen = os.stat(name, dir_fd=self.run, follow_symlinks=False)
        if stat.S_ISREG(seen.st_mode) and seen.st_nlink == 1:  # as in `read_wish`
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.run)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def new_file(self) -> tuple[str, int]:
        """Create a hidden file in the run folder."""
        self.names += 1
        name = f".exit.json.{os.getpid()}.{self.names}.tmp"
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self.run)
        if os.fstat(self.run).st_mode & SHARED == SHARED:
            os.fchmod(fd, 0o660)
        return name, fd

    def put(self, name: str, data: bytes, file: tuple[str, int]) -> None:
        """Make `name` in the run folder this content, whole and synced, as are the folders made for it."""
        temporary, fd = file
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(fd, data[done:], done)
            os.ftruncate(fd, len(data))
            os.fsync(fd)
            try:
                os.rename(temporary, name, src_dir_fd=self.run, dst_dir_fd=self.run)
            except IsADirectoryError:  # a mission's doing; it must not keep the end from being recorded
                os.rename(name, f"{temporary}.aside", src_dir_fd=self.run, dst_dir_fd=self.run)
                os.rename(temporary, name, src_dir_fd=self.run, dst_dir_fd=self.run)
        except OSError:
            quietly(os.unlink, temporary, dir_fd=self.run)
            raise
        finally:
            os.close(fd)
        for level in range(self.order["syncParents"] + 1):
            sync("/".join([".", *[".."] * level]), self.run)

    def tell(self, message: dict[str, object]) -> None:
        """Send the dispatcher a message, if there is one; what it must know is on disk as well."""
        quietly(self.sock.send, json.dumps(message).encode(), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)

    def dispatcher_is_gone(self) -> bool:
        """Say whether the other end is closed; end-of-file would not do, for our own shutdown looks the same."""
        poll = select.poll()
        poll.register(self.sock, 0)
        return any(events & select.POLLHUP for _, events in poll.poll(0))


def boot() -> float:
    """Seconds since boot, sleep included: a deadline passes while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def stamp() -> str:
    """Now, as RFC 3339 in UTC with milliseconds."""
    seconds, rest = divmod(time.time_ns(), 10**9)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest // 10**6:03d}Z"


def note(text: str) -> None:
    """Write a line to keeper.log, as long as that is small: a mission may signal us, or fail, without end."""
    if (quietly(os.lseek, 2, 0, os.SEEK_END) or 0) < LOG_LIMIT:
        quietly(os.write, 2, f"{stamp()} {text}\n".encode("utf-8", "backslashreplace"))


def make_folders(path: bytes) -> None:
    """Make a run folder and what is missing above it, whatever the umask; in a shared folder for its group."""
    above, name = os.path.split(path)
    if name and not os.path.isdir(above):
        make_folders(above)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    mode = 0o700 if name.isdigit() or name == b"dispatch" else 0o755
    if os.stat(above).st_mode & SHARED == SHARED:
        mode |= (mode & 0o700) >> 3 | stat.S_ISGID
    os.chmod(path, mode)


def quietly(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call what may fail without harm: the process, file or dispatcher is gone, or the system does not offer it."""
    try:
        return call(*args, **kwargs)
    except OSError:
        return None


def raw(text: str) -> bytes:
    """The bytes that the dispatcher had, whatever this process's locale is."""
    return text.encode("utf-8", "surrogateescape")


def read(path: str, limit: int = 4096) -> bytes:
    """The first bytes of a file of /proc; empty when it is gone or hidden."""
    fd = quietly(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
    if fd is None:
        return b""
    try:
        return quietly(os.read, fd, limit) or b""
    finally:
        os.close(fd)


def look_at(pid: int) -> Process | None:
    """One process, or None when it is gone."""
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return Process(pid, fields) if fields else None


def descends(pid: int) -> bool:
    """Say whether a process descends from this one, by a walk upwards that begins anew when an ancestor dies."""
    at = pid
    while at > 1:
        seen = look_at(at)
        if seen is None and at == pid:
            return False
        if seen is not None and seen.parent == os.getpid():
            return True
        at = pid if seen is None else seen.parent
    return False


def family() -> list[Process]:
    """Every descendant, zombies included. A snapshot: `send` looks again behind a pidfd."""
    names = quietly(os.listdir, "/proc") or []
    seen = [process for name in names if name.isdigit() and (process := look_at(int(name)))]
    ours, found = {os.getpid()}, True
    while found:
        new = {process.pid for process in seen if process.parent in ours} - ours
        ours, found = ours | new, bool(new)
    return [process for process in seen if process.pid in ours and process.pid != os.getpid()]


def named_family() -> list[dict[str, object]]:
    """The living descendants as records name them; a main thread that left before its others shows as a zombie too."""
    alive = [process for process in family() if process.state not in "ZX" or process.threads > 1]
    # bounded: a record that is too long to be read would be no record
    return [{"pid": each.pid, "startTicks": each.ticks, "command": command(each.pid)} for each in alive[:MOST_NAMED]]


def command(pid: int) -> str:
    """A short command line for people."""
    line = read(f"/proc/{pid}/cmdline", 100) or read(f"/proc/{pid}/comm", 100)
    return line.replace(b"\0", b" ").decode("utf-8", "replace").strip()


def send(pid: int, sig: int) -> None:
    """Signal one descendant, never a stranger that has got its number."""
    fd = os.pidfd_open(pid)
    try:
        if descends(pid):
            signal.pidfd_send_signal(fd, sig)
    finally:
        os.close(fd)


def counts(sender: int) -> bool:
    """Say whether being told to end counts as an interruption: not when somebody outside the mission surely told us."""
    seen = look_at(sender)
    return sender not in {0, 1} and (seen is None or seen.state in "ZX" or descends(sender))


def read_wish(folder: int, name: str) -> tuple[bool, dict[str, Any] | None]:
    """Say whether a wish is there, and its content if it is a JSON object.

    A second name of a lock file must not be opened: closing it would drop the lock that says that a keeper lives.
    """
    seen = quietly(os.stat, name, dir_fd=folder, follow_symlinks=False)
    if seen is None or not stat.S_ISREG(seen.st_mode) or seen.st_nlink != 1:
        return False, None
    fd = quietly(os.open, name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    if fd is None:
        return False, None
    try:
        wish = json.loads(os.read(fd, WISH_LIMIT))
    except Exception:  # whatever it holds, the wish is its being there
        wish = None
    finally:
        os.close(fd)
    return True, wish if isinstance(wish, dict) else None


def reserve(fd: int) -> None:
    """Take the space for one end record."""
    try:
        os.posix_fallocate(fd, 0, SPARE)
    except OSError as fault:
        if fault.errno not in NOT_OFFERED:
            raise
        if os.pwrite(fd, bytes(SPARE), 0) < SPARE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None


def sync(folder: str, base: int) -> None:
    """Make the names in a folder survive a power cut, where the system lets us."""
    fd = -1
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=base)
        os.fsync(fd)
    except OSError as fault:
        if fault.errno not in NOT_OFFERED:
            raise
    finally:
        if fd >= 0:
            os.close(fd)


def oom_score(new: int | None = None) -> int:
    """This process's own place in the order of out-of-memory kills, after changing it if asked."""
    fd = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
    try:
        if new is not None:
            os.pwrite(fd, b"%d" % new, 0)
        return int(os.pread(fd, 16, 0))
    finally:
        os.close(fd)


def say_alive(lock: int) -> None:
    """Take the read lock that says "a keeper lives", on a descriptor of our own that is never closed."""
    own = quietly(os.open, f"/proc/self/fd/{lock}", os.O_RDONLY | os.O_CLOEXEC)
    quietly(fcntl.lockf, lock if own is None else own, fcntl.LOCK_SH | fcntl.LOCK_NB)


def await_go(sock: socket.socket) -> Keeper:
    """Wait for *go* and become the keeper of its mission; without it leave.

    A TERM closes the door first and then looks behind it, so each *go* is either refused to its sender or answered.
    """
    sock.setblocking(False)
    fcntl.fcntl(sock, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(sock, fcntl.F_SETFL, fcntl.fcntl(sock, fcntl.F_GETFL) | os.O_ASYNC)
    sock.send(json.dumps({"ready": 1, "pid": os.getpid()}).encode())
    told_to_end, packet = False, None
    while packet is None:
        try:
            packet = sock.recvmsg(4096, socket.CMSG_SPACE(64), socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            if signal.sigwaitinfo(WATCHED).si_signo in ENDING:
                told_to_end = True
                sock.shutdown(socket.SHUT_RD)
    data, ancillary, flags, _ = packet
    if not data or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        os._exit(0)
    received = [fd for _, _, part in ancillary for (fd,) in struct.iter_unpack("i", part)]
    named = list(zip(json.loads(data)["fds"], received, strict=True))
    locks = [fd for name, fd in named if name == "lock"]
    for lock in locks:
        say_alive(lock)
        os.set_inheritable(lock, True)
    fds = dict(named)
    for number in (1, 2):
        os.dup2(fds["log"], number)
    order = json.loads(os.pread(fds["order"], os.fstat(fds["order"]).st_size, 0))
    keeper = Keeper(sock, locks, fds, order)
    keeper.term_seen = told_to_end
    return keeper


def main() -> None:
    """Be ready for one mission, and keep it."""
    number = int(sys.argv[1])
    os.set_inheritable(number, False)  # else the mission holds our end and the dispatcher never sees it closed
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):  # ignored by whoever started us, children would vanish
        signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, WATCHED)
    if LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        os._exit(1)
    keeper = await_go(socket.socket(fileno=number))
    try:
        keeper.keep()
    except BaseException as fault:
        note(f"the keeper fails: {fault!r}")
        os._exit(70)
    os._exit(0)  # closes the locks' descriptors, no more


if __name__ == "__main__":
    main()
