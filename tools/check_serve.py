"""Attacks a service: load beside a writer, kill -9 at random, and clients that ask for too much, or never finish.

    python tools/check_serve.py [--seconds 60] [--kills 20] [--connections 10000] [--parts load,kill,signed,attack]
                                 [--dir DIR]

load: 16 connections of httpx probe for so many seconds beside one that adds; each answer is checked, and none may fail.
kill: four clients add, a row at a time, and remove some; the service is killed -9 at a random moment and started again.
Every row that was acknowledged is there, none whose removal was acknowledged, and of each client at most one change
that was not acknowledged. signed: the same of a store of signatures, of texts. attack: bodies of 1 GB, announced and in
chunks; clients that send nothing, half a head, a byte now and then, half a body, and that take no answer; as many
connections as asked for; wrong tokens; paths that lead elsewhere. Each must be refused as docs/operations.md says, in
bounded memory and files, and a client that asks properly is answered before, beside where it has a connection, and
after. All of it is on this machine, and ends by itself.
Exit status 1 if anything was otherwise.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from arguments import names_among, parse_count, parse_folder, parse_seconds
from bench_serve import load, timings
from benchlib import uniform

import fpstore
from fpstore import minhash
from fpstore.minhash.making import open_any
from fpstore.serve.limits import Limits

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from serving import JSON, Serving, serving

PARTS = ("load", "kill", "signed", "attack")
ROWS = 1_000_000
SEED = 3
TOKEN = "a-token-that-nobody-else-has"
TIMEOUT = 3
# Of a text: so that two share a band by no chance.
WORDS = 20
# What the service may take more than before, whatever is asked of it.
MORE_BYTES = 400 << 20
RowOf = Callable[..., dict[str, Any]]
faults: list[str] = []


def expect(right: bool, what: str) -> None:
    """Say what was wrong."""
    if not right:
        faults.append(what)
        print(f"WRONG: {what}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=parse_seconds, default=60, help="of load; default 60")
    parser.add_argument("--kills", type=parse_count, default=20, help="default 20")
    parser.add_argument("--connections", type=parse_count, default=10_000, help="at once; default 10,000")
    parser.add_argument("--rows", type=parse_count, default=ROWS, help=f"of the store under load; default {ROWS:,}")
    parser.add_argument("--parts", type=names_among(PARTS), default=list(PARTS), help=f"default {','.join(PARTS)}")
    parser.add_argument("--dir", type=parse_folder, help="where the stores go; default: temporary")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fpstore-serve-", dir=arguments.dir) as folder:
        for part in arguments.parts:
            play = {"load": under_load, "kill": killed, "signed": killed_signed, "attack": attacked}[part]
            play(arguments, Path(folder) / part)
    print(f"{len(faults)} wrong" if faults else "all as it should be")
    return int(bool(faults))


def under_load(arguments: argparse.Namespace, folder: Path) -> None:
    """16 connections beside a writer; load() ends with what is wrong."""
    folder.mkdir()
    keys = uniform(arguments.rows, np.random.default_rng(SEED))
    fpstore.build(folder / "s", keys, ids=np.arange(len(keys), dtype=np.uint64)).close()
    asked = argparse.Namespace(seconds=arguments.seconds, connections=16)
    with serving(folder / "s") as served:
        read, wrote = asyncio.run(load(served, asked, keys, 0))
        for row in (timings("probe", read, 0), timings("add_if_new", wrote, 0)):
            del row["cpu ms"]
            print(
                "  ".join(
                    f"{name} {value:.3g}" if isinstance(value, float) else f"{value}" for name, value in row.items()
                )
            )
    with fpstore.open(folder / "s") as store:
        expect(store.count("rows") <= len(keys) + len(wrote), "more rows than were added")
        store.verify()


# --- Killed ---


class Adding:
    """A client that adds rows and removes some. doubtful: the change that was not acknowledged when it ended."""

    def __init__(self, first: int, row_of: RowOf) -> None:
        """row_of: what of the number of a row is sent, beside its id."""
        self.number, self._row_of = first, row_of
        self.there: set[int] = set()
        self.gone: set[int] = set()
        self.doubtful: set[int] = set()

    def run(self, served: Serving, rng: random.Random) -> None:
        """Go on until the service has ended."""
        with served.client() as client:
            while True:
                removed = sorted(self.there)[-1:] if rng.random() < 0.1 else []
                if not removed:
                    self.number += 1
                number = removed[0] if removed else self.number
                row = {**self._row_of(number, removed=bool(removed)), "ids": [str(number)]}
                self.doubtful = {number}
                try:
                    answer = client.post("/remove" if removed else rng.choice(["/add", "/add_if_new"]), json=row)
                except httpx.HTTPError:
                    self.there -= self.doubtful
                    return
                expect(answer.status_code == 200, f"row {number}: found {answer.status_code} {answer.text:.100}")
                self.doubtful = set()
                (self.gone if removed else self.there).add(number)
                self.there -= self.gone


def fingerprint_row(number: int, *, removed: bool) -> dict[str, Any]:
    """A fingerprint that no other number has; also of what is removed."""
    return {"fingerprints": [f"{number * 0x9E3779B97F4A7C15 % 2**64:x}"]}


def text_row(number: int, *, removed: bool) -> dict[str, Any]:
    """A text that is like that of no other number; nothing of what is removed, which its id says."""
    words = (str(number * 0x9E3779B97F4A7C15 % 2**64 ^ place) for place in range(WORDS))
    return {} if removed else {"texts": [" ".join(words)]}


def killed(arguments: argparse.Namespace, folder: Path) -> None:
    """A store of fingerprints."""
    folder.mkdir()
    fpstore.create(folder / "s", max_distance=0, plan="size").close()
    killed_in_turn(arguments, folder, fingerprint_row)


def killed_signed(arguments: argparse.Namespace, folder: Path) -> None:
    """A store of signatures."""
    folder.mkdir()
    minhash.create(folder / "s", recipe="minhash-128").close()
    killed_in_turn(arguments, folder, text_row)


def killed_in_turn(arguments: argparse.Namespace, folder: Path, row_of: RowOf) -> None:
    """Turn by turn, with the same clients."""
    rng = random.Random(SEED)
    clients = [Adding(10**9 * (each + 1), row_of) for each in range(4)]
    doubtful: set[int] = set()
    for turn in range(arguments.kills):
        with serving(folder / "s", "--port", 0) as served:
            threads = [threading.Thread(target=each.run, args=(served, random.Random(turn))) for each in clients]
            for thread in threads:
                thread.start()
            time.sleep(rng.random() * 2)
            served.process.kill()
            served.process.wait()
            for thread in threads:
                thread.join()
        doubtful = doubtful.union(*(each.doubtful for each in clients))
        with open_any(folder / "s") as store:
            found = {int(row.id or 0) for rows in store.rows() for row in rows}
            store.verify()
        there = set[int]().union(*(each.there for each in clients)) - doubtful
        gone = set[int]().union(*(each.gone for each in clients)) - doubtful
        expect(not there - found, f"turn {turn}: {len(there - found)} acknowledged rows are lost")
        expect(not gone & found, f"turn {turn}: {len(gone & found)} rows are there whose removal was acknowledged")
        expect(not found - there - doubtful, f"turn {turn}: {len(found - there - doubtful)} rows that nobody added")
    total = sum(len(each.there) + len(each.gone) for each in clients)
    print(f"killed {arguments.kills} times: {total} acknowledged rows, {len(doubtful)} not acknowledged")


# --- Attacked ---


def attacked(arguments: argparse.Namespace, folder: Path) -> None:
    """Each in turn, and a proper client after each."""
    folder.mkdir()
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o600)
    fpstore.build(folder / "s", [5] * 90_000).close()
    most = arguments.connections + 500
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, hard), hard))
    options = ("--port", 0, "--token-file", folder / "token", "--timeout", TIMEOUT)
    attacks = (announced, chunked, slow, crowded, guessed, strayed)
    with serving(folder / "s", *options) as served:
        before = memory_of(served)
        for attack in attacks:
            begun = time.monotonic()
            told = attack(served, arguments)
            files = len(os.listdir(f"/proc/{served.process.pid}/fd"))
            proper(served, attack.__name__)
            taken = time.monotonic() - begun
            held = memory_of(served) - before
            print(f"{attack.__name__}: {told}; {taken:.1f} s, {files} files, {held >> 20} MiB more", flush=True)
            expect(
                held < MORE_BYTES, f"{attack.__name__}: found {held >> 20} MiB more, expected under {MORE_BYTES >> 20}"
            )
            expect(files <= Limits().files, f"{attack.__name__}: found {files} open files, expected {Limits().files}")


def proper(served: Serving, after: str) -> None:
    """A client that asks properly is answered, at the latest when the others' time is up."""
    deadline = time.monotonic() + 20 * TIMEOUT
    with served.client(headers={"authorization": f"Bearer {TOKEN}"}) as client:
        while True:
            try:
                status = client.post("/probe", json={"fingerprints": ["ffff0000ffff"]}).status_code
            except httpx.HTTPError as error:
                status = 0
                last = repr(error)
            else:
                last = str(status)
            if status == 200 or time.monotonic() > deadline:
                expect(status == 200, f"after {after}: a proper client found {last}, expected 200")
                return
            time.sleep(0.2)


def memory_of(served: Serving) -> int:
    lines = Path(f"/proc/{served.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def head(path: str = "/probe", *more: str, method: str = "POST", token: str = TOKEN) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {token}",
        f"Content-Type: {JSON}",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def connect(served: Serving) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=60)


def all_of(client: socket.socket) -> bytes:
    """What comes until the server closes, or cuts, the connection."""
    found = b""
    try:
        while data := client.recv(1 << 20):
            found += data
    except (ConnectionResetError, TimeoutError):
        pass
    return found


def status_in(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def announced(served: Serving, arguments: argparse.Namespace) -> str:
    """A body of 1 GB by its length."""
    with connect(served) as client:
        client.sendall(head("/probe", f"Content-Length: {1 << 30}"))
        status = status_in(all_of(client))
    expect(status == 413, f"1 GB announced: found {status}, expected 413")
    return f"1 GB announced: {status}"


def chunked(served: Serving, arguments: argparse.Namespace) -> str:
    """A body of 1 GB without a length."""
    sent = 0
    with connect(served) as client:
        client.sendall(head("/probe", "Transfer-Encoding: chunked"))
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        try:
            for _ in range(1024):
                client.sendall(chunk)
                sent += 1
        except OSError:
            pass
        status = status_in(all_of(client))
    expect(sent < 1024, "1 GB in chunks: all of it was taken")
    expect(status in (0, 413), f"1 GB in chunks: found {status}, expected 413, or a cut")
    return f"1 GB in chunks: {status} after {sent} MiB"


def slow(served: Serving, arguments: argparse.Namespace) -> str:
    """Clients that do not finish, one of each kind twenty times."""
    kinds = {
        "nothing": (b"", {0}),
        "half a head": (head()[:30], {0}),
        "half a body": (head("/probe", "Content-Length: 50") + b"{", {408}),
        "half of a large body": (head("/probe", "Content-Length: 1000000") + b" " * 500_000, {408, 503}),
        "no answer taken": (head("/probe", "Content-Length: 23") + b'{"fingerprints": ["5"]}', {200}),
    }
    told = []
    with ExitStack() as stack:
        clients = []
        for kind, (sent, _) in kinds.items():
            for _ in range(20):
                client = stack.enter_context(socket.socket())
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.settimeout(60)
                client.connect(("127.0.0.1", served.port))
                client.sendall(sent)
                clients.append((kind, client))
        trickling = stack.enter_context(connect(served))
        cut = False
        for _ in range(20 * TIMEOUT):
            try:
                trickling.sendall(b"G")
            except OSError:
                cut = True
                break
            time.sleep(0.5)
        expect(cut, "a byte now and then: never cut")
        for kind, client in clients:
            begun = time.monotonic()
            status = status_in(all_of(client))
            expect(status in kinds[kind][1], f"{kind}: found {status}, expected one of {kinds[kind][1]}")
            expect(time.monotonic() - begun < 30 * TIMEOUT, f"{kind}: never cut")
            told.append(status)
    return f"{len(clients) + 1} slow clients: {', '.join(f'{told.count(each)} of {each}' for each in sorted({*told}))}"


def crowded(served: Serving, arguments: argparse.Namespace) -> str:
    """Very many connections at once, beside one that is answered all along."""
    waiting = told = cut = 0
    with served.client(headers={"authorization": f"Bearer {TOKEN}"}) as friend:
        expect(friend.get("/stats").status_code == 200, "crowded: refused before")
        with ExitStack() as stack:
            clients = []
            most_files = 0
            for number in range(arguments.connections):
                client = stack.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", served.port))
                clients.append(client)
                if number % 500 == 499:
                    expect(friend.get("/healthz").status_code == 200, f"crowded: refused beside {number} others")
                    most_files = max(most_files, len(os.listdir(f"/proc/{served.process.pid}/fd")))
            time.sleep(1)
            for client in clients:
                try:
                    told += status_in(client.recv(1 << 16)) == 503
                except BlockingIOError:
                    waiting += 1
                except OSError:
                    cut += 1
            expect(friend.get("/stats").status_code == 200, "crowded: refused beside all of them")
    expect(most_files <= Limits().files, f"crowded: found {most_files} open files, expected {Limits().files}")
    expect(waiting + told + cut <= len(clients), "crowded: found more answers than clients")
    return f"{len(clients)} connections: {told} told 503, {waiting} held, {cut} cut, {most_files} files at most"


def guessed(served: Serving, arguments: argparse.Namespace) -> str:
    """Tokens that are not the one."""
    tokens = ["", " ", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), TOKEN[::-1]]
    found = set()
    for token in tokens:
        for path in ("/probe", "/remove", "/nosuch"):
            with connect(served) as client:
                client.sendall(head(path, "Content-Length: 2", "Connection: close", token=token) + b"{}")
                found.add(status_in(all_of(client)))
    expect(found == {401}, f"wrong tokens: found {found}, expected 401")
    return f"{len(tokens)} wrong tokens: {found}"


def strayed(served: Serving, arguments: argparse.Namespace) -> str:
    """Paths that lead elsewhere."""
    paths = ("/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/stats/../../s/catalog.mdb", "//stats", "/stats/", "/s")
    found = set()
    for path in paths:
        with connect(served) as client:
            client.sendall(head(path, "Connection: close", method="GET"))
            answer = all_of(client)
            found.add(status_in(answer))
            expect(
                json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "NotFound", f"{path}: {answer!r:.80}"
            )
    expect(found == {404}, f"paths that lead elsewhere: found {found}, expected 404")
    return f"{len(paths)} paths that lead elsewhere: {found}"


if __name__ == "__main__":
    sys.exit(main())
