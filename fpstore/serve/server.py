"""Owns the process that serves: its sockets, its threads, its connections, and its end.

HTTP itself is uvicorn's, with the parser h11, which bounds what it holds of a request's head. What uvicorn leaves open
is closed here: how many connections there are, and how long one may take that asks for nothing.
"""

import asyncio
import contextlib
import json
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from fpstore.serve.app import ABORT, LINGER_SECONDS, App
from fpstore.serve.limits import BACKLOG, HEAD_BYTES, REFUSING_AT_ONCE, Limits
from fpstore.text.packages import need

SWEEP_SECONDS = 1.0
_ENDS = (signal.SIGINT, signal.SIGTERM)


def serve(app: App, listener: socket.socket, limits: Limits, told: Callable[[], object]) -> None:
    """Serve until SIGTERM or SIGINT, then finish what was accepted. told: called when connections are accepted.

    ImportError without uvicorn.
    """
    uvicorn = expect_uvicorn()
    config = uvicorn.Config(
        app,
        http=_connections(limits),
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_keep_alive=limits.seconds,
        timeout_graceful_shutdown=2 * limits.seconds,
    )
    _tell_errors()
    _run(uvicorn.Server(config), listener, limits, told)


def expect_uvicorn() -> Any:
    """The package. ImportError names the extra that brings it."""
    return need("uvicorn", "serve", "serving")


def _run(server: Any, listener: socket.socket, limits: Limits, told: Callable[[], object]) -> None:
    """As serve, for a server of uvicorn."""

    async def run() -> None:
        sweeping = asyncio.create_task(_sweep(server, limits))
        telling = asyncio.create_task(_tell_started(server, told))
        try:
            await server.serve(sockets=[listener])
        finally:
            sweeping.cancel()
            telling.cancel()

    with _ending_by_signals(server):
        asyncio.run(run())


@contextlib.contextmanager
def _ending_by_signals(server: Any) -> Iterator[None]:
    """SIGTERM and SIGINT end the server, the usual way in which it ends; a second one does not wait for clients."""

    def end(number: int, frame: object) -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    server.capture_signals = contextlib.nullcontext  # uvicorn's own ends the process by the signal afterwards
    before = {number: signal.signal(number, end) for number in _ENDS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _tell_started(server: Any, told: Callable[[], object]) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    told()


async def _sweep(server: Any, limits: Limits) -> None:
    """Cut connections that ask for nothing whole for too long, or do not take the end of their answer."""
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        now = time.monotonic()
        for connection in [*server.server_state.connections]:
            if connection.is_answering:
                connection.idle_since = now
            elif now - connection.idle_since > limits.seconds:
                connection.transport.abort()


def _connections(limits: Limits) -> Any:
    """The connections of uvicorn, counted and timed."""
    h11_impl = need("uvicorn.protocols.http.h11_impl", "serve", "serving")

    class Connection(h11_impl.H11Protocol):  # type: ignore[misc, name-defined]
        """One connection. idle_since: since when it has asked for nothing whole."""

        refusing = 0

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            answer: Any = self.app
            self.idle_since = time.monotonic()
            self._is_refused = False
            self._has_ended = False  # nothing more comes from the client

            async def with_abort(scope: Any, receive: Any, send: Any) -> None:
                scope[ABORT] = self.transport.abort
                try:
                    await answer(scope, receive, send)
                except asyncio.CancelledError:  # the second signal
                    self._leave(503, "Service Unavailable", "Ending", "found the service ending, try again")

            self.app: Any = with_abort

        @property
        def is_answering(self) -> bool:
            """Whether a request is under way, which has limits of its own."""
            return self.cycle is not None and not self.cycle.response_complete

        def connection_made(self, transport: Any) -> None:
            if len(self.connections) < limits.connections:
                super().connection_made(transport)
                return
            self._is_refused = True
            self.transport = transport
            kind = type(self)
            kind.refusing += 1
            if kind.refusing > REFUSING_AT_ONCE:
                transport.abort()
                return
            told = "found as many connections as are served at once, try again"
            self.loop.call_later(LINGER_SECONDS, transport.abort)
            transport.write(_plain_response(503, "Service Unavailable", "Busy", told))
            with contextlib.suppress(OSError):  # it has gone already
                transport.write_eof()

        def connection_lost(self, error: Exception | None) -> None:
            if self._is_refused:
                type(self).refusing -= 1
            else:
                super().connection_lost(error)

        def data_received(self, data: bytes) -> None:
            if not self._is_refused:
                super().data_received(data)

        def on_response_complete(self) -> None:
            self.idle_since = time.monotonic()
            super().on_response_complete()
            if self._has_ended and not self._has_whole_request:
                self.transport.close()

        def eof_received(self) -> bool:
            """Whether to stay: who says that no more comes is still answered what was asked whole."""
            self._has_ended = True
            return self._has_whole_request

        @property
        def _has_whole_request(self) -> bool:
            return self.is_answering and not self.cycle.more_body

        def send_400_response(self, message: str) -> None:
            told = "request: found bytes that are no HTTP, expected a request"
            self._leave(400, "Bad Request", "BadRequest", told)

        def _leave(self, status: int, reason: str, kind: str, message: str) -> None:
            """Say why, unless an answer has begun, and close."""
            if self.is_answering:
                begun = self.cycle.response_started
                self.cycle.disconnected = True
                self.cycle.message_event.set()
                if begun:
                    self.transport.abort()
                    return
            self.transport.write(_plain_response(status, reason, kind, message))
            self.transport.close()

    return Connection


def _plain_response(status: int, reason: str, kind: str, message: str) -> bytes:
    """A whole response to who has not asked properly."""
    body = json.dumps({"format": "fpstore.error/1", "error": {"type": kind, "message": message}})
    later = ["retry-after: 1"] if status == 503 else []
    head = [f"HTTP/1.1 {status} {reason}", "content-type: application/json", f"content-length: {len(body)}", *later]
    return "\r\n".join([*head, "connection: close", "", body]).encode()


class _OneLine(logging.Formatter):
    """A record as one line, with the error that it is about and without where that came from."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        message = record.getMessage().partition("\n")[0]
        return f"fpstore: {message}" if error is None else f"fpstore: {message}: {error!r}"


def _tell_errors() -> None:
    """What uvicorn and asyncio call an error becomes a line on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        logger.handlers = [handler]
