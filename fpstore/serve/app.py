"""Owns the way of a request: where it leads, whether it may, how much of it is read, and how its answer goes out.

Everything that takes a while is done in threads. What a client can make this process hold is bounded: small bodies by
the number of connections, larger ones and their answers by LARGE_AT_ONCE, and each for so many seconds.
"""

import asyncio
import contextlib
import hmac
import re
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fpstore.serve import arrow
from fpstore.serve.failures import Refused, body_of, status_of
from fpstore.serve.limits import LARGE_AT_ONCE, SMALL_BYTES
from fpstore.serve.pages import ENDPOINTS, Endpoint, openapi, page
from fpstore.serve.service import JSON_TYPE, Answer, Service
from fpstore.serve.sockets import LOCAL_HOSTS

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = dict[bytes, bytes]

_Result = TypeVar("_Result")

# In the scope of a request: what cuts its connection at once.
ABORT = "fpstore.abort"
# How long, and how much, a client that is refused may go on to send, so that it reads why; it is thrown away.
LINGER_SECONDS = 1.0
LINGER_BYTES = 64 << 20


# What a request may say once: another one counts here than for who stands between.
ONCE = (b"authorization", b"host", b"content-type", b"content-encoding", b"content-length", b"transfer-encoding")
# More than any distance or count that is taken has.
NUMBER_DIGITS = 9
# How much a form is accepted that Accept does not name: less than any that it does, more than one that it refuses.
UNNAMED = 1e-4


class _Left(Exception):
    """The client has gone."""


class App:
    """What uvicorn calls for each request (ASGI).

    token: what a client has to show, None for nothing. only_local: refuse requests that name another host, which is
    how a page of a stranger would reach a port of this machine through a browser.
    """

    def __init__(self, service: Service, *, threads: int, token: bytes | None = None, only_local: bool = False) -> None:
        self._service = service
        self._limits = service.limits
        self._token = token
        self._only_local = only_local
        self._pool = ThreadPoolExecutor(threads, "fpstore-reader")
        self._working = asyncio.Semaphore(threads)
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)

    def close(self) -> None:
        """End the threads, when they are done."""
        self._pool.shutdown()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise ValueError(f"scope: found type {scope['type']!r:.20}, expected http")
        request = _Request(scope, receive, send, _Place(self._large))
        try:
            answer = await self._answer(request)
        except _Left:
            return
        except Exception as error:
            await self._refuse(request, error)
        else:
            await self._send(request, answer)
        finally:
            request.place.leave()

    async def _answer(self, request: "_Request") -> Answer:
        _expect_once(request)
        endpoint = self._endpoint(request)
        if endpoint.name == "openapi.json":
            return Answer(openapi(self._limits))
        if endpoint.name == "":
            return Answer(page(self._limits), "text/html; charset=utf-8")
        kind = self._service.kind
        if endpoint.call == "nearest":
            kind.expect_nearest()
        nearness, count = _parameters(request.scope["query_string"], endpoint, kind.parameter)
        if endpoint.method == "GET":
            asked_for = {"stats": self._service.stats, "health": self._service.health}[endpoint.call]
            return await self._in_thread(request, asked_for)
        media_type = _media_type(request.headers)
        wanted = _wanted(request.headers, media_type)
        body = await self._body(request)
        service = self._service
        read = partial(service.read, body, media_type, endpoint.fields)
        if endpoint.call == "probe":
            return await self._in_thread(request, lambda: service.probe(read(), nearness, wanted))
        if endpoint.call == "nearest":
            return await self._in_thread(request, lambda: service.nearest(read(), count, nearness, wanted))
        if endpoint.call == "lookup":
            return await self._in_thread(request, lambda: service.lookup(read(), wanted))
        if endpoint.call == "add_if_new":
            asked = await self._in_thread(request, lambda: service.expect_few_additions(read(), nearness))
        else:
            asked = await self._in_thread(request, read)
        result = await asyncio.wrap_future(service.change(endpoint.call, asked, nearness))
        return await self._in_thread(request, partial(service.changed, endpoint.call, result, asked, wanted))

    # --- Whether it may ---

    def _endpoint(self, request: "_Request") -> Endpoint:
        """Where a request leads. Paths are names and nothing else: none is looked up anywhere."""
        path, method = request.path, request.scope["method"]
        if self._token is None:
            if self._only_local:
                _expect_local(request.host)
        elif path != "/healthz":
            self._expect_shown(request.headers)
        endpoint = ENDPOINTS.get(path.removeprefix("/")) if path.startswith("/") else None
        if endpoint is None:
            raise Refused(404, "NotFound", f"path: found {path!r:.60}, expected one of those that / lists")
        if method != endpoint.method and (method, endpoint.method) != ("HEAD", "GET"):
            raise Refused(405, "MethodNotAllowed", f"method: found {method:.20}, expected {endpoint.method}")
        return endpoint

    def _expect_shown(self, headers: Headers) -> None:
        assert self._token is not None
        scheme, _, shown = headers.get(b"authorization", b"").partition(b" ")
        if not (hmac.compare_digest(shown.strip(), self._token) and scheme.lower() == b"bearer"):
            raise Refused(401, "Unauthorized", "authorization: found no right token, expected Bearer TOKEN")

    # --- What comes in ---

    async def _body(self, request: "_Request") -> bytes:
        headers, place, most = request.headers, request.place, self._limits.body_bytes
        length = int(headers.get(b"content-length", b"0"))
        if length > most:
            raise Refused(413, "BodyTooLarge", f"body: found {length} bytes, expected at most {most}")
        if b"content-length" not in headers and b"transfer-encoding" not in headers:
            raise Refused(411, "LengthRequired", "body: found none, expected a Content-Length, or chunks")
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.seconds):
                while not request.is_read:
                    if max(size, length) > SMALL_BYTES:
                        await place.take()
                    message = await request.receive()
                    if message["type"] != "http.request":
                        raise _Left
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise Refused(413, "BodyTooLarge", f"body: found more, expected at most {most} bytes")
                    request.is_read = not message.get("more_body", False)
        except TimeoutError:
            if place.is_waiting:
                raise Refused(503, "Busy", "found as many large requests as are held at once, try again") from None
            told = f"body: found {size} bytes in {self._limits.seconds} s, expected all of it"
            raise Refused(408, "RequestTimeout", told) from None
        return b"".join(parts)

    async def _in_thread(self, request: "_Request", work: Callable[[], _Result]) -> _Result:
        """What work returns; of an answer that is not small, when there is a place for it."""
        async with self._working:
            result = await asyncio.get_running_loop().run_in_executor(self._pool, work)
            if isinstance(result, Answer) and len(result.body) > SMALL_BYTES:
                await request.place.take()
        return result

    # --- What goes out ---

    async def _send(self, request: "_Request", answer: Answer) -> None:
        size = len(answer.body)
        async with self._in_time(request):
            await request.send(_start(200, size, answer.media_type.encode()))
            for start in range(0, max(size, 1), SMALL_BYTES):
                end = start + SMALL_BYTES
                part = {"type": "http.response.body", "body": answer.body[start:end], "more_body": end < size}
                await request.send(part)

    async def _refuse(self, request: "_Request", error: Exception) -> None:
        body, status = body_of(error), status_of(error)
        if status == 500:
            _tell(error)
        more: list[tuple[bytes, bytes]] = []
        if status == 401:
            more.append((b"www-authenticate", b"Bearer"))
        if status == 405:
            more.append((b"allow", ENDPOINTS[request.path.removeprefix("/")].method.encode()))
        if status == 503:
            more.append((b"retry-after", b"1"))
        if not request.is_read:
            more.append((b"connection", b"close"))
        async with self._in_time(request):
            await request.send(_start(status, len(body), JSON_TYPE.encode(), more))
            await request.send({"type": "http.response.body", "body": body, "more_body": not request.is_read})
        if not request.is_read:
            await self._linger(request)
            await request.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _linger(self, request: "_Request") -> None:
        """Let a client that is still sending read why it was refused: a connection cut at once may take that along."""
        if b"expect" in request.headers:  # it waits for a word before it sends, and has had it
            return
        left = LINGER_BYTES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while left > 0:
                    message = await request.receive()
                    left = left - len(message["body"]) if message.get("more_body", False) else 0

    @contextlib.asynccontextmanager
    async def _in_time(self, request: "_Request") -> AsyncIterator[None]:
        """Cut the connection of a client that does not take its answer in time."""
        try:
            async with asyncio.timeout(self._limits.seconds):
                yield
        except TimeoutError:
            request.scope[ABORT]()
            while (await request.receive())["type"] != "http.disconnect":
                pass


class _Request:
    """A request on its way. path, host: what it asks for, and of whom; is_read: nothing more of it comes."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, place: "_Place") -> None:
        self.scope, self.receive, self.send, self.place = scope, receive, send, place
        self.headers: Headers = dict(scope["headers"])
        if b"accept" in self.headers:  # which may come in several lines
            self.headers[b"accept"] = b",".join(value for name, value in scope["headers"] if name == b"accept")
        self.path: str = scope["path"]
        self.host = self.headers.get(b"host", b"").decode("latin-1")
        scheme, is_whole, rest = self.path.partition("://")
        if is_whole and scheme.lower() in ("http", "https"):  # a whole address, as a proxy is asked: its host counts
            self.host, _, path = rest.partition("/")
            self.path = f"/{path}"
        self.is_read = scope["method"] in ("GET", "HEAD")


class _Place:
    """One of the places for large requests, which a request takes once and leaves at its end."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._taken = False
        self.is_waiting = False

    async def take(self) -> None:
        if not self._taken:
            self.is_waiting = True
            await self._places.acquire()
            self._taken, self.is_waiting = True, False

    def leave(self) -> None:
        if self._taken:
            self._places.release()


def _start(status: int, size: int, kind: bytes, more: Iterable[tuple[bytes, bytes]] = ()) -> Message:
    headers = [(b"content-type", kind), (b"content-length", str(size).encode()), *more]
    return {"type": "http.response.start", "status": status, "headers": headers}


def _expect_once(request: _Request) -> None:
    """Refused for a request that says one thing twice: who stands between may have read the other one."""
    names = [name for name, _ in request.scope["headers"]]
    for name in ONCE:
        if names.count(name) > 1:
            raise Refused(400, "BadRequest", f"{name.decode()}: found it {names.count(name)} times, expected it once")
    if b"content-length" in names and b"transfer-encoding" in names:
        request.is_read = False  # so that the connection ends here: what follows may be a body, or a request
        raise Refused(400, "BadRequest", "body: found a Content-Length and a Transfer-Encoding, expected one of them")


def _expect_local(host: str) -> None:
    """Refused for a request that asks another host than this machine, as a page of a stranger's would."""
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    if name.strip("[]").lower() not in LOCAL_HOSTS:
        raise Refused(403, "Forbidden", f"host: found {host!r:.60}, expected {' or '.join(LOCAL_HOSTS)}")


def _media_type(headers: Headers) -> str:
    """What a body is. Refused for what is not taken."""
    found = headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
    if found not in (JSON_TYPE, arrow.MEDIA_TYPE):
        expected = f"{JSON_TYPE} or {arrow.MEDIA_TYPE}"
        raise Refused(415, "UnsupportedMediaType", f"content-type: found {found!r:.60}, expected {expected}")
    packed = headers.get(b"content-encoding", b"identity").strip().lower()
    if packed != b"identity":
        raise Refused(415, "UnsupportedMediaType", f"content-encoding: found {packed!r:.60}, expected none")
    return found


def _wanted(headers: Headers, media_type: str) -> str:
    """What an answer is to be: what the client accepts most, and of equal forms that of its body."""
    weights: dict[str, float] = {}
    for part in headers.get(b"accept", b"*/*").decode("latin-1").lower().split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        weights.setdefault(name, _weight(parameters))

    def weight(form: str) -> float:
        return next((weights[name] for name in (form, "application/*", "*/*") if name in weights), UNNAMED)

    return max(sorted((JSON_TYPE, arrow.MEDIA_TYPE), key=lambda form: form != media_type), key=weight)


def _weight(parameters: Iterable[str]) -> float:
    """How much one of the forms that a client names is accepted: q, 1 where that is not said as it is to be."""
    for name, _, value in (parameter.partition("=") for parameter in parameters):
        if name.strip() == "q" and re.fullmatch(r"[01](\.\d{0,3})?", value.strip()):
            return float(value)
    return 1.0


def _parameters(query: bytes, endpoint: Endpoint, parameter: str) -> tuple[float | None, int]:
    """What an address says: max_distance or min_similarity, as parameter names it, and a count, 1 by default.

    ValueError for what the path does not take.
    """
    taken = [name for name, takes in ((parameter, endpoint.takes_distance), ("count", endpoint.takes_count)) if takes]
    found: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in taken:
            raise ValueError(f"parameter: found {name!r:.40}, expected {' or '.join(taken) or 'none'}")
        if name in found:
            raise ValueError(f"{name}: found it twice, expected it once")
        found[name] = value
    count = _whole_number(found, "count", 1)
    if parameter == "max_distance":
        return (_whole_number(found, parameter, 0) if parameter in found else None), count
    if parameter in found and not re.fullmatch(r"[01](\.[0-9]{0,17})?", found[parameter]):
        raise ValueError(f"{parameter}: found {found[parameter]!r:.40}, expected a number from 0 to 1")
    return (float(found[parameter]) if parameter in found else None), count


def _whole_number(found: Mapping[str, str], name: str, least: int) -> int:
    """That of this name, the least where there is none. ValueError for another one."""
    value = found.get(name, str(least))
    if not (value.isascii() and value.isdigit() and len(value) <= NUMBER_DIGITS and int(value) >= least):
        more = f", {least} or more" if least else ""
        raise ValueError(f"{name}: found {value!r:.40}, expected a whole number{more}")
    return int(value)


def _tell(error: Exception) -> None:
    """Say on standard error what went wrong with the store, or where an error comes from that nobody foresaw."""
    from fpstore import Error

    lines = [str(error)] if isinstance(error, Error) else traceback.format_exception(error)
    print(f"fpstore: {''.join(lines).rstrip()}", file=sys.stderr, flush=True)
