"""Sockets: whose they are, what is replaced, and what is refused."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from kranzq.errors import Busy, Refused, UsageFault
from kranzq.server.access import host_names
from kranzq.server.listening import Address, SocketFile, url_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A short path in a folder of our own."""
    return tmp_path / "s"


def test_a_socket_is_made_for_its_owner_alone_and_goes_with_the_server(path: Path) -> None:
    """0600 from its first moment, whatever the umask; removed at the end."""
    old = os.umask(0)
    try:
        file = SocketFile(str(path))
        with file.open() as listening:
            mode = stat.S_IMODE(path.stat().st_mode)
            url = url_of(listening)
            file.close()
    finally:
        os.umask(old)

    assert (mode, url, path.exists()) == (0o600, f"unix:{path}", False)


def test_a_dead_one_is_replaced_and_a_live_one_is_not(path: Path) -> None:
    """A lock of the kernel tells which it is."""
    first = SocketFile(str(path))
    with first.open():
        with pytest.raises(Busy, match=f"process {os.getpid()}"):
            SocketFile(str(path)).open()
        first._let_go()  # as the kernel does when it is killed
    second = SocketFile(str(path))
    with second.open():
        first.close()
        assert path.exists()  # what is not one's own any more is left alone
        second.close()


def test_what_is_no_server_of_ours_is_not_removed(path: Path) -> None:
    """A file, and the socket of another program that answers."""
    path.write_text("a file")
    with pytest.raises(Refused):
        SocketFile(str(path)).open()
    assert path.read_text() == "a file"

    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(Busy, match="Another program"):
            SocketFile(str(path)).open()
    with SocketFile(str(path)).open():
        pass


def test_a_place_that_will_not_do_is_refused(tmp_path: Path) -> None:
    """Too long, missing, or where others may write."""
    with pytest.raises(UsageFault, match="too long"):
        SocketFile(str(tmp_path / ("x" * 120))).open()
    with pytest.raises(UsageFault, match="missing"):
        SocketFile(str(tmp_path / "missing" / "s")).open()
    tmp_path.chmod(0o777)
    with pytest.raises(Refused, match="others may write"):
        SocketFile(str(tmp_path / "s")).open()


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    """And one that is free is told by its URL."""
    with Address.parse("127.0.0.1:0").open(allow_remote=False) as first:
        port = first.getsockname()[1]
        assert url_of(first) == f"http://127.0.0.1:{port}"
        with pytest.raises(Busy, match=str(port)):
            Address.parse(f"localhost:{port}").open(allow_remote=False)
    with pytest.raises(UsageFault, match="192"):
        Address.parse("192.0.2.1:0").open(allow_remote=True)


@pytest.mark.parametrize(
    ("address", "port", "named", "expected"),
    [
        ("127.0.0.1", 1, [], {"127.0.0.1:1", "[::1]:1", "localhost:1"}),
        ("10.0.0.7", 1, [], {"127.0.0.1:1", "[::1]:1", "localhost:1", "10.0.0.7:1"}),
        ("::", 1, ["Queue.example"], {"127.0.0.1:1", "[::1]:1", "localhost:1", "queue.example", "queue.example:1"}),
        ("127.0.0.1", 1, ["q.example:443"], {"127.0.0.1:1", "[::1]:1", "localhost:1", "q.example:443"}),
        ("127.0.0.1", 80, [], {"127.0.0.1:80", "[::1]:80", "localhost:80", "127.0.0.1", "[::1]", "localhost"}),
    ],
)
def test_its_names_are_those_that_were_given(address: str, port: int, named: list[str], expected: set[str]) -> None:
    """Loopback always, the address that it listens on, and further names."""
    assert host_names(address, port, named) == expected


@pytest.mark.parametrize("name", ["", "a/b", "a@b", "a b", "ü.example", "a,b"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    """Before anything is served under it."""
    with pytest.raises(UsageFault):
        host_names("127.0.0.1", 1, [name])
