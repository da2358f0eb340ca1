"""What the tests of the service share: requests to it without a network, and a service in a process of its own."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx
from outcome import running

from fpstore.cli.stores import opened_to_ask
from fpstore.minhash.making import open_any
from fpstore.serve.app import ABORT, App
from fpstore.serve.limits import Limits
from fpstore.serve.service import Service
from fpstore.serve.writing import Writing
from fpstore.text import Recipe

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"

_Result = TypeVar("_Result")


class Response(NamedTuple):
    """What came back for a request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str, str]:
        """The status, the type and the message of an error."""
        assert self.headers["content-type"] == JSON
        assert self.json["format"] == "fpstore.error/1"
        return self.status, self.json["error"]["type"], self.json["error"]["message"]


class Client:
    """Asks an App as a server would."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def ask(
        self,
        path: str,
        body: Any = None,
        *,
        method: str = "",
        headers: Mapping[str, str] | None = None,
        again: Sequence[tuple[str, str]] = (),
        parts: Sequence[bytes] | None = None,
        query: str = "",
        before_part: Callable[[int], Awaitable[None]] | None = None,
    ) -> Response:
        """body: bytes, or what becomes JSON. parts: it comes in these, without a length. again: more headers."""
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        chunks = [sent] if parts is None else [*parts]
        has_body = body is not None or parts is not None
        named = {"host": "localhost"}
        if has_body:
            named |= {"content-type": JSON} | (
                {"content-length": str(len(sent))} if parts is None else {"transfer-encoding": "chunked"}
            )
        given = {name: value for name, value in {**named, **(headers or {})}.items() if value != ""}
        taken = 0
        left = asyncio.Event()

        async def receive() -> dict[str, Any]:
            nonlocal taken
            if taken >= len(chunks):
                await left.wait()
                return {"type": "http.disconnect"}
            if before_part is not None:
                waits = [asyncio.ensure_future(before_part(taken)), asyncio.ensure_future(left.wait())]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for wait in waits:
                    wait.cancel()
                if left.is_set():
                    return {"type": "http.disconnect"}
            taken += 1
            return {"type": "http.request", "body": chunks[taken - 1], "more_body": taken < len(chunks)}

        messages: list[Any] = []

        async def send(message: Any) -> None:
            messages.append(message)

        scope = {
            "type": "http",
            "method": method or ("POST" if has_body else "GET"),
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in [*given.items(), *again]],
            ABORT: left.set,
        }
        await self.app(scope, receive, send)
        start, *rest = messages
        assert [message["type"] for message in rest] == ["http.response.body"] * len(rest)
        assert [message["more_body"] for message in rest] == [True] * (len(rest) - 1) + [False]
        told = {name.decode(): value.decode() for name, value in start["headers"]}
        found = Response(start["status"], told, b"".join(message["body"] for message in rest))
        assert int(told["content-length"]) == len(found.body)
        return found


def with_app(
    path: Path,
    work: Callable[[Client], Awaitable[_Result]],
    *,
    limits: Limits | None = None,
    writes: bool = True,
    recipe: Recipe | None = None,
    **options: Any,
) -> _Result:
    """What work does with an App of the store at path; options: of the App."""
    limits = limits or Limits()
    writing = Writing(open_any(path, "w"), limits.answer_bytes) if writes else None
    try:
        with opened_to_ask(str(path)) as reader, ExitStack() as stack:
            service = Service(reader, writing, recipe or reader.recipe, limits)

            stack.callback(service.close)

            async def run() -> _Result:
                app = App(service, threads=2, **options)
                try:
                    return await work(Client(app))
                finally:
                    app.close()

            return asyncio.run(run())
    finally:
        if writing is not None:
            writing.close()


class Serving(NamedTuple):
    """A service in a process of its own, and where it is: a Unix socket, or an address."""

    process: "subprocess.Popen[bytes]"
    where: str

    def client(self, **options: Any) -> httpx.Client:
        """A client of it."""
        transport, base = self._reached()
        return httpx.Client(transport=transport(), base_url=base, timeout=60, **options)

    def async_client(self, connections: int) -> httpx.AsyncClient:
        """One with so many connections."""
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        uds = self.where.removeprefix("unix socket ") if self.where.startswith("unix socket ") else None
        base = "http://localhost" if uds else self.where
        return httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=uds, limits=limits), base_url=base, timeout=60, trust_env=False
        )

    def _reached(self) -> tuple[Callable[[], httpx.HTTPTransport], str]:
        if self.where.startswith("unix socket "):
            return lambda: httpx.HTTPTransport(uds=self.where.removeprefix("unix socket ")), "http://localhost"
        return httpx.HTTPTransport, self.where

    @property
    def port(self) -> int:
        return int(self.where.rpartition(":")[2])

    def end(self, number: int) -> tuple[int, str]:
        """End it by a signal: its status, and what it said since it began to serve."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=120)
        return self.process.returncode, said.decode()


@contextmanager
def serving(store: Path, *arguments: object) -> Iterator[Serving]:
    """`fpstore serve`, from when it says that it serves until the end of the block."""
    with running(sys.executable, "-m", "fpstore", "serve", store, *arguments) as process:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        assert ": serving at " in line, line + process.stderr.read().decode()
        yield Serving(process, line.strip().partition(": serving at ")[2])
