"""`fpstore serve` as a process: where it listens, who may ask, what it bounds, and how it ends."""

import asyncio
import json
import logging
import os
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from outcome import Command
from pages import ROOT
from serving import JSON, Serving, serving

import fpstore
from fpstore.serve import server, sockets
from fpstore.serve.limits import ACCEPTED_AT_ONCE, OWN_FILES, REFUSING_AT_ONCE, Limits

BASE = 0x9F3A5C0012AB44DE
TOKEN = "a-token-of-some-length"
ROWS = {"fingerprints": [f"{BASE:x}"]}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fpstore.build(tmp_path / "s.fpstore", [BASE, 5], ids=[10, 9]).close()
    return tmp_path / "s.fpstore"


@pytest.fixture
def served(store: Path) -> Iterator[Serving]:
    with serving(store, "--port", 0, "--timeout", 2, "--max-connections", 20, "--max-body", 100_000) as each:
        yield each


# --- Where it listens ---


def test_a_unix_socket_is_its_owners_alone_and_goes_with_its_block(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    with sockets.unix_socket(str(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
        assert os.listdir(tmp_path) == ["x.sock"]
    assert os.listdir(tmp_path) == []


def test_a_socket_that_nobody_listens_to_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    with sockets.unix_socket(str(path)), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    assert os.listdir(tmp_path) == []


def test_a_socket_that_somebody_listens_to_and_a_file_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen(1)
        with pytest.raises(OSError, match="Address already in use"), sockets.unix_socket(str(path)):
            pass
        assert os.listdir(tmp_path) == ["x.sock"]
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    path.unlink()
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="found a file that is no socket"), sockets.unix_socket(str(path)):
        pass
    assert path.read_text() == "mine"
    assert os.listdir(tmp_path) == ["x.sock"]


def test_a_socket_that_another_took_just_then_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen(1)
        expect = sockets._expect_nobody
        monkeypatch.setattr(sockets, "_expect_nobody", lambda each, told: each == told or expect(each, told))
        with pytest.raises(OSError, match="Address already in use"), sockets.unix_socket(str(path)):
            pass
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    assert os.listdir(tmp_path) == ["x.sock"]


def test_a_name_that_never_comes_free_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(own: str, path: str) -> None:
        raise FileExistsError

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(OSError, match="Address already in use"), sockets.unix_socket(str(tmp_path / "x.sock")):
        pass


def test_a_socket_that_has_another_ones_name_by_now_is_left(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    with sockets.unix_socket(str(path)):
        path.unlink()
        path.write_text("another's")
    assert path.read_text() == "another's"


@pytest.mark.parametrize("name", ["x" * 120, "nosuch/x.sock"])
def test_a_path_where_no_socket_can_be_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match=name), sockets.unix_socket(str(tmp_path / name)):
        pass


def test_a_port_that_is_taken_is_named() -> None:
    with sockets.tcp_socket("localhost", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}"), sockets.tcp_socket("127.0.0.1", port):
            pass


def test_only_this_machine_is_local() -> None:
    assert all(map(sockets.is_local, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(sockets.is_local, ("0.0.0.0", "::", "10.0.0.1", "192.168.1.1", "2001:db8::1")))
    with pytest.raises(ValueError, match=r"host: found 'example\.org', expected localhost or an address"):
        sockets.is_local("example.org")


def test_a_token_is_long_enough_and_can_be_sent(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"  {TOKEN}\n")
    assert sockets.read_token(path) == TOKEN.encode()
    for right in ("x" * 16, "x" * 4096):
        path.write_text(right)
        assert sockets.read_token(path) == right.encode()
    long = ("x" * 4097, "x" * 3_000_000)
    for bad in ("", "short", "x" * 15, f"{TOKEN} {TOKEN}", f"{TOKEN}\n{TOKEN}", f"{TOKEN}\xe9", *long):
        path.write_text(bad, encoding="latin-1")
        with pytest.raises(
            ValueError, match=r"token: found (more than )?\d+ bytes, expected a token of 16 to 4096 visible ASCII"
        ):
            sockets.read_token(path)


def test_a_token_that_others_may_read_is_told_of(command: Command, store: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    for mode, told in ((0o644, True), (0o640, True), (0o600, False), (0o400, False)):
        (tmp_path / "token").chmod(mode)
        outcome = command("serve", store / "nosuch", "--token-file", tmp_path / "token")
        assert outcome.status == 1
        assert ("token: others than its owner may read the token" in outcome.err) == told


def test_as_many_files_as_are_needed_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: given.append(limits))
    for limits, asked in (((100, 1000), 500), ((100, resource.RLIM_INFINITY), 5000), ((600, 1000), 500)):
        monkeypatch.setattr(resource, "getrlimit", lambda what, limits=limits: limits)
        sockets.need_files(asked)
    assert given == [(500, 1000), (5000, resource.RLIM_INFINITY)]
    monkeypatch.setattr(resource, "getrlimit", lambda what: (100, 1000))
    with pytest.raises(ValueError, match=r"connections: found a need of 1001 open files, expected at most 1000"):
        sockets.need_files(1001)
    assert Limits(connections=10).files == 10 + REFUSING_AT_ONCE + ACCEPTED_AT_ONCE + OWN_FILES


def test_errors_of_the_server_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    try:
        server._tell_errors()
        for logger in loggers:
            logger.warning("not told")
            logger.error("gone\nin two lines", exc_info=OSError(28, "no\nspace"))
        loggers[0].error("alone")
    finally:
        for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
    line = "fpstore: gone: OSError(28, 'no\\nspace')\n"
    assert capsys.readouterr().err == line * 2 + "fpstore: alone\n"


# --- The command ---


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--host", "127.0.0.1"), "--host goes with --port"),
        (("--port", 0, "--socket", "x"), "--socket goes without --port"),
        (("--port", 0, "--host", "0.0.0.0"), "--host 0.0.0.0: found no --token-file, expected one where others than"),
        (("--port", 0, "--host", "example.org"), "host: found 'example.org', expected localhost or an address"),
        (("--port", 70000), "70000 is not in the range"),
        (("--max-body", 0), "0 is not in the range"),
        (("--socket", ""), "found nothing, expected a value, or not the option"),
        (("--port", 0, "--host", ""), "found nothing, expected a value, or not the option"),
        (("--idf", "x"), "found no recipe for texts in the store"),
        (("--max-connections", 10**9), "connections: found a need of"),
    ],
)
def test_what_cannot_be_served_is_refused(
    command: Command, store: Path, arguments: tuple[object, ...], told: str
) -> None:
    outcome = command("serve", store, *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert told in outcome.err


def test_a_store_that_another_process_writes_to_is_only_read(command: Command, store: Path) -> None:
    with fpstore.open(store, "w"):
        outcome = command("serve", store)
        assert outcome.status == 4
        assert "locked" in outcome.err or "writ" in outcome.err
    assert not store.with_name("s.fpstore.sock").exists()


def test_without_uvicorn_the_extra_is_named(command: Command, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    outcome = command("serve", store)
    assert (outcome.status, outcome.err) == (1, "fpstore: serving needs uvicorn: pip install 'fpstore[serve]'\n")


def test_a_token_file_that_is_not_there_is_named(command: Command, store: Path) -> None:
    outcome = command("serve", store, "--token-file", store / "nosuch")
    assert (outcome.status, outcome.err) == (1, f"fpstore: {store}/nosuch: No such file or directory\n")


# --- Who asks ---


@pytest.mark.slow
def test_a_unix_socket_beside_the_store_is_the_default(store: Path) -> None:
    path = store.with_name("s.fpstore.sock")
    with serving(store) as served, served.client() as client:
        assert served.where == f"unix socket {path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [match["id"] for match in client.post("/probe", json=ROWS).json()["matches"]] == ["10"]
        added = client.post("/add_if_new", json={"fingerprints": ["ff00ff00"], "ids": ["77"]})
        assert added.json()["stored_count"] == 1
        assert client.get("/%2e%2e/stats").status_code == 404
        head = client.head("/healthz")
        assert (head.status_code, head.content) == (200, b"")
        example = [str(ROOT / "examples" / "serve.sh"), str(path), "ff00ff01"]
        done = subprocess.run(example, capture_output=True, text=True, timeout=60)
        assert [match["id"] for match in json.loads(done.stdout)["matches"]] == ["77"], done.stderr
        assert served.end(signal.SIGTERM) == (0, f"{store}: ended\n")
    assert not path.exists()


@pytest.mark.slow
def test_a_wider_address_is_served_to_who_shows_the_token(store: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    arguments = ("--port", 0, "--host", "127.0.0.1", "--token-file", tmp_path / "token", "--read-only")
    with fpstore.open(store, "w") as writer, serving(store, *arguments) as served, served.client() as client:
        assert [client.get("/stats", headers=shown).status_code for shown in ({}, {"authorization": "Bearer no"})] == [
            401,
            401,
        ]
        client.headers["authorization"] = f"Bearer {TOKEN}"
        writer.add([0xFF00FF00], ids=[77])
        found = client.post("/probe", json={"fingerprints": ["ff00ff00"]}).json()["matches"]
        assert [match["id"] for match in found] == ["77"]
        assert client.post("/remove", json={"ids": ["77"]}).status_code == 403
        command = Path(f"/proc/{served.process.pid}/cmdline").read_bytes()
        assert TOKEN.encode() not in command
        assert served.end(signal.SIGINT)[0] == 0


def raw(served: Serving, *parts: bytes, pause: float = 0.0) -> bytes:
    """What comes back for bytes that are sent as they are, until the server closes."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as client:
        for part in parts:
            try:
                client.sendall(part)
            except OSError:
                break
            time.sleep(pause)
        return all_of(client)


def all_of(client: socket.socket) -> bytes:
    """What comes until the server closes, or cuts, the connection."""
    found = b""
    try:
        while data := client.recv(1 << 16):
            found += data
    except ConnectionResetError:
        pass
    return found


def status_in(response: bytes) -> int:
    return int(response.split(b" ", 2)[1])


@pytest.mark.slow
def test_what_is_no_http_or_too_large_is_refused_and_the_next_is_answered(served: Serving) -> None:
    post = b"POST /probe HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    assert status_in(raw(served, b"\x16\x03\x01 not http\r\n\r\n")) == 400
    assert json.loads(raw(served, b"GET\r\n\r\n").partition(b"\r\n\r\n")[2])["error"]["type"] == "BadRequest"
    assert status_in(raw(served, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000 + b"\r\n\r\n")) == 400
    assert status_in(raw(served, post + b"Content-Length: nonsense\r\n\r\n")) == 400
    announced = raw(served, post + b"Content-Length: 1073741824\r\n\r\n")
    assert status_in(announced) == 413
    assert b"connection: close" in announced.lower()
    told = raw(served, post + b"Expect: 100-continue\r\nContent-Length: 1073741824\r\n\r\n")
    assert status_in(told) == 413
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    before = memory_of(served.process.pid)
    assert status_in(raw(served, post + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 4000)) == 413
    assert memory_of(served.process.pid) - before < 64 << 20
    with served.client() as client:
        assert client.post("/probe", json=ROWS).status_code == 200


def memory_of(process: int) -> int:
    """The most that it held so far."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def head_of(body: bytes, path: str = "/add", *more: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {JSON}", *more]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode()


@pytest.mark.slow
def test_who_ends_its_side_is_answered_what_it_asked_whole(served: Serving, store: Path) -> None:
    body = json.dumps({"fingerprints": ["c000"], "ids": ["77"]}).encode()
    whole = head_of(body) + body
    for sent, statuses in (
        (whole, [200]),
        (whole * 3, [200] * 3),
        (whole + whole[:-1], [200]),
        (whole[:-1], []),
        (whole + b"GET /sta", [200]),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", [200]),
    ):
        with socket.create_connection(("127.0.0.1", served.port), 30) as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            answered = all_of(client)
        assert [status_in(part) for part in answered.split(b"HTTP/1.1")[1:]] == statuses, sent
    with fpstore.open(store) as opened:
        assert len(opened.probe(0xC000, max_distance=0)) == 1
    assert served.end(signal.SIGTERM) == (0, f"{store}: ended\n")


@pytest.mark.slow
def test_chunks_that_are_none_are_told_and_two_lengths_too(served: Serving) -> None:
    post = b"POST /probe HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunked = post + b"Transfer-Encoding: chunked\r\n\r\n"
    for sent in (
        [chunked, b"ZZ\r\n"],
        [chunked, b"5\r\nabcde\r\n", b"-1\r\n"],
        [chunked, b"5;" + b"x" * 200_000 + b"\r\n"],
        [post + b"Content-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
        [post + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n"],
    ):
        found = raw(served, *sent, pause=0.1)
        head, _, body = found.lower().partition(b"\r\n\r\n")
        assert status_in(found) == 400, sent
        assert b"connection: close" in head
        assert b"retry-after" not in head  # later it is no better
        assert json.loads(body)["error"]["type"] == "badrequest"
    with served.client() as client:
        assert client.post("/probe", json=ROWS).status_code == 200
        assert client.get("/stats", headers={"host": "example.org"}).status_code == 403
    whole = raw(served, b"GET http://127.0.0.1/stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert status_in(whole) == 200


@pytest.mark.slow
def test_slow_clients_are_cut_and_the_others_are_answered(served: Serving) -> None:
    begun = [
        b"",
        b"GET /stats HT",
        b"POST /probe HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{",
    ]
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", served.port), 30)) for _ in begun]
        for client, part in zip(clients, begun, strict=True):
            client.sendall(part)
        with served.client() as other:
            assert other.post("/probe", json=ROWS).status_code == 200
        found = [all_of(client) for client in clients]
    assert found[:2] == [b"", b""]
    assert status_in(found[2]) == 408


def trickle(client: socket.socket) -> None:
    for _ in range(100):
        client.sendall(b"G")
        time.sleep(0.2)


@pytest.mark.slow
def test_a_client_that_trickles_is_cut_too(served: Serving) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status_in(client.recv(1 << 16)) == 200
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            trickle(client)


@pytest.mark.slow
def test_a_client_that_does_not_take_its_answer_is_cut(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [5] * 50_000).close()
    body = json.dumps({"fingerprints": ["5"]}).encode()
    head = f"POST /probe HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n\r\n"
    with (
        serving(tmp_path / "s", "--port", 0, "--timeout", 1) as served,
        socket.socket() as client,
        served.client() as other,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", served.port))
        client.sendall(head.encode() + body)
        assert len(other.post("/probe", json={"fingerprints": ["5"]}).json()["matches"]) == 50_000
        time.sleep(6)
        client.settimeout(30)
        assert 0 < len(all_of(client)) < 3_000_000
        assert served.end(signal.SIGTERM) == (0, f"{tmp_path}/s: ended\n")


@pytest.mark.slow
def test_connections_over_the_limit_are_told_and_files_stay_bounded(store: Path) -> None:
    with serving(store, "--port", 0, "--max-connections", 20) as served:
        with ExitStack() as stack:
            clients = [
                stack.enter_context(socket.create_connection(("127.0.0.1", served.port), 30)) for _ in range(400)
            ]
            for _ in range(100):  # which are gone before they could be told
                with socket.create_connection(("127.0.0.1", served.port), 30) as gone:
                    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            time.sleep(0.5)
            answers: list[bytes] = []
            for client in clients:
                client.settimeout(0.05 if len(answers) < 20 else 10)
                try:
                    answers.append(client.recv(1 << 16))
                except TimeoutError:
                    answers.append(b"waits")
                except ConnectionResetError:
                    answers.append(b"")
            assert len(os.listdir(f"/proc/{served.process.pid}/fd")) <= Limits(connections=20).files
        told = [answer for answer in answers if answer not in (b"", b"waits")]
        assert answers.count(b"waits") == 20
        assert {status_in(answer) for answer in told} == {503}
        deadline = time.monotonic() + 30
        with served.client() as later:
            while later.get("/healthz").status_code == 503 and time.monotonic() < deadline:
                time.sleep(0.1)
            assert later.post("/probe", json=ROWS).status_code == 200
        assert served.end(signal.SIGTERM) == (0, f"{store}: ended\n")


# --- How it ends ---


@pytest.mark.slow
def test_what_was_accepted_is_finished_at_the_end(store: Path) -> None:
    with serving(store, "--port", 0) as served, socket.create_connection(("127.0.0.1", served.port), 30) as client:
        body = json.dumps({"fingerprints": ["ff00ff00"], "ids": ["77"]}).encode()
        head = f"POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body[:-1])
        with served.client() as later:
            assert later.get("/healthz").status_code == 200  # so the one before has been accepted
        served.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        client.sendall(body[-1:])
        assert status_in(all_of(client)) == 200
        assert served.process.wait(timeout=60) == 0
    with fpstore.open(store) as opened:
        assert len(opened.probe(0xFF00FF00, max_distance=0)) == 1


def expect_nobody_listening(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
        except ConnectionRefusedError:
            return
        except OSError:  # one that nobody has accepted when the listener closes
            pass
        time.sleep(0.02)
    raise AssertionError("somebody listens still")


@pytest.mark.slow
def test_a_second_signal_waits_for_nobody(store: Path) -> None:
    head = f"POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\nContent-Length: 9\r\n\r\n"
    with serving(store, "--port", 0) as served, socket.create_connection(("127.0.0.1", served.port), 30) as client:
        client.sendall(head.encode())
        with served.client() as later:
            assert later.get("/healthz").status_code == 200  # so the one before has been accepted
        served.process.send_signal(signal.SIGINT)
        expect_nobody_listening(served.port)  # so the first has been heard: signals that come together are one
        time.sleep(0.5)
        assert served.process.poll() is None
        served.process.send_signal(signal.SIGINT)  # just once: a third would meet a process that is ending already
        assert served.process.wait(30) == 0
        found = all_of(client)  # its upload was under way
        assert status_in(found) == 503
        assert json.loads(found.partition(b"\r\n\r\n")[2])["error"]["type"] == "Ending"
        assert served.process.stderr is not None
        assert served.process.stderr.read().decode() == f"{store}: ended\n"


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_service_is_killed(store: Path) -> None:
    acknowledged: list[int] = []

    def add(served: Serving, first: int) -> None:
        with served.client() as client:
            for number in range(first, first + 100_000):
                rows = {"fingerprints": [f"{number * 0x9E3779B97F4A7C15 % 2**64:x}"], "ids": [str(number)]}
                try:
                    found = client.post("/add", json=rows)
                except httpx.HTTPError:
                    return
                assert found.status_code == 200
                acknowledged.append(number)

    for turn in range(3):
        with serving(store, "--port", 0) as served:
            threads = [
                threading.Thread(target=add, args=(served, 1_000_000 * (4 * turn + worker + 1))) for worker in range(4)
            ]
            for thread in threads:
                thread.start()
            deadline = time.monotonic() + 120
            while len(acknowledged) < 40 * (turn + 1) and time.monotonic() < deadline:
                time.sleep(0.01)
            served.process.kill()
            served.process.wait()
            for thread in threads:
                thread.join()
    with fpstore.open(store) as opened:
        ids = {row.id for rows in opened.rows() for row in rows}
    assert len(acknowledged) >= 120
    assert {*acknowledged} <= ids
    assert len(ids) <= len(acknowledged) + 2 + 3 * 4  # of each thread at most one that was not acknowledged


@pytest.mark.slow
def test_sixteen_connections_are_answered_beside_a_writer(store: Path) -> None:
    async def load(served: Serving) -> int:
        ends = time.monotonic() + 5
        asked = 0

        async def read(client: httpx.AsyncClient) -> None:
            nonlocal asked
            while time.monotonic() < ends:
                found = await client.post("/probe", json=ROWS)
                assert found.status_code == 200
                assert found.json()["matches"][0]["id"] == "10"
                asked += 1

        async def write(client: httpx.AsyncClient) -> None:
            number = 100
            while time.monotonic() < ends:
                rows = {"fingerprints": [f"{number * 0x9E3779B97F4A7C15 % 2**64:x}"], "ids": [str(number)]}
                assert (await client.post("/add_if_new", json=rows)).status_code == 200
                number += 1

        async with served.async_client(17) as client:
            await asyncio.gather(write(client), *(read(client) for _ in range(16)))
        return asked

    with serving(store) as served:
        assert asyncio.run(load(served)) > 16
        assert served.end(signal.SIGTERM) == (0, f"{store}: ended\n")
