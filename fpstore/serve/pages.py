"""Owns what there is to ask for, and how that is described: to programs (OpenAPI) and to people (a page)."""

import html
import json
from dataclasses import dataclass
from typing import Any

from fpstore.serve.arrow import MEDIA_TYPE
from fpstore.serve.limits import Limits

JSON_TYPE = "application/json"


@dataclass(frozen=True)
class Endpoint:
    """What a path leads to. call: what the service does; fields: of a body; body, answer: examples.

    takes_distance, takes_count: which parameters an address may have.
    """

    name: str
    method: str
    call: str
    told: str
    fields: tuple[str, ...] = ()
    takes_distance: bool = False
    body: str = ""
    answer: str = ""
    takes_count: bool = False


_QUERIES = '{"fingerprints": ["9f3a5c0012ab44df"]}'
_MATCHES = (
    '{"format": "fpstore.matches/1", "query_count": 1, "matches": [{"query": 0,'
    ' "fingerprint": "9f3a5c0012ab44de", "distance": 1, "id": "17"}]}'
)
_ADDITIONS = (
    '{"format": "fpstore.additions/1", "stored_count": 0, "additions": [{"stored": false,'
    ' "match_fingerprint": "9f3a5c0012ab44de", "match_distance": 1, "match_id": "17"}]}'
)
_ROWS = '{"fingerprints": ["9f3a5c0012ab44df"], "ids": ["18"]}'
_CHANGED = '{"format": "fpstore.changed/1", "row_count": 1}'
_REMOVED = '{"format": "fpstore.removed/1", "asked_count": 1}'
_ALL = (
    Endpoint("", "GET", "page", "This page."),
    Endpoint("openapi.json", "GET", "openapi", "The same for programs, as OpenAPI."),
    Endpoint(
        "healthz",
        "GET",
        "health",
        "Whether the store answers; needs no token.",
        answer='{"format": "fpstore.health/1", "status": "ok"}',
    ),
    Endpoint("stats", "GET", "stats", "What the store holds, and how.", answer='{"format": "fpstore.stats/1"}'),
    Endpoint(
        "probe",
        "POST",
        "probe",
        "All that is near each fingerprint or text, nearest first. query is the number of the fingerprint in the body.",
        ("fingerprints", "texts"),
        True,
        _QUERIES,
        _MATCHES,
    ),
    Endpoint(
        "nearest",
        "POST",
        "nearest",
        "The nearest rows of each fingerprint or text, however far they are, and with max_distance those within that."
        " All may be read for what is far. A store of signatures has none; it is asked by probe.",
        ("fingerprints", "texts"),
        True,
        _QUERIES,
        _MATCHES,
        takes_count=True,
    ),
    Endpoint(
        "lookup",
        "POST",
        "lookup",
        "All rows of each id, by id and fingerprint; an id that is not there has none. Ask for many at once: all"
        " ids of the store may be read for it.",
        ("ids",),
        False,
        '{"ids": ["17"]}',
        '{"format": "fpstore.rows/1", "rows": [{"fingerprint": "9f3a5c0012ab44de", "id": "17"}]}',
    ),
    Endpoint(
        "add_if_new",
        "POST",
        "add_if_new",
        "Add what is near nothing that came before, and tell of each row whether it was stored, or what it is near."
        " Durable when it is answered.",
        ("fingerprints", "texts", "ids"),
        True,
        _ROWS,
        _ADDITIONS,
    ),
    Endpoint(
        "add",
        "POST",
        "add",
        "Add rows, all of them or none. Durable when it is answered.",
        ("fingerprints", "texts", "ids"),
        False,
        _ROWS,
        _CHANGED,
    ),
    Endpoint(
        "upsert",
        "POST",
        "upsert",
        "Put each row in the place of all that has its id; of an id that comes twice the last row counts. Durable when"
        " it is answered.",
        ("fingerprints", "texts", "ids"),
        False,
        _ROWS,
        _CHANGED,
    ),
    Endpoint(
        "remove",
        "POST",
        "remove",
        "Remove fingerprints with all their ids, all that has an id, or, of both, just these pairs. Durable when it is"
        " answered; what is not there is no error, and is counted as asked for.",
        ("fingerprints", "texts", "ids"),
        False,
        '{"ids": ["17"]}',
        _REMOVED,
    ),
)
ENDPOINTS = {endpoint.name: endpoint for endpoint in _ALL}
_COLUMNS = {
    "fingerprints": "Hexadecimal digits, 1 to 16 for 64 bits. In Arrow integers or 8 bytes, too; of wide ones, bytes.",
    "texts": "In place of fingerprints, which they become by the store's recipe.",
    "ids": "One for each; strings, as many programs round numbers above 2^53. In a store whose ids are strings any of"
    " up to 64 KiB. In one whose ids are bytes, what is no UTF-8 is a half of a surrogate pair, \\udc80 to \\udcff, as"
    " Python's surrogateescape has it; in Arrow, they are bytes.",
}
_STATUSES = {
    "400": "What was sent cannot be read.",
    "401": "The token is missing, or wrong.",
    "403": "Another host was named, or the service only reads.",
    "404": "There is no such path.",
    "405": "The path takes another method.",
    "408": "The body did not come in time.",
    "411": "The body has no length, and no chunks.",
    "413": "The body is too large, or has too many rows.",
    "415": "The body is neither JSON nor Arrow, or it is packed.",
    "422": "The store does not take that, or the answer would be too large.",
    "500": "The store is damaged, or the service is at fault.",
    "503": "Try again: too many connections, a full disk, a store that was replaced.",
}


def openapi(limits: Limits) -> bytes:
    """The description for programs, as JSON."""
    paths = {f"/{each.name}": {each.method.lower(): _operation(each, limits)} for each in _ALL if each.name}
    error = {
        "type": "object",
        "properties": {
            "error": {"type": "object", "properties": {"type": {"type": "string"}, "message": {"type": "string"}}}
        },
    }
    from fpstore import __version__

    told = {
        "openapi": "3.1.0",
        "info": {"title": "fpstore", "version": __version__, "description": _told_of(limits)},
        "paths": paths,
        "components": {
            "schemas": {"Error": error},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }
    return json.dumps(told).encode()


def page(limits: Limits) -> bytes:
    """The description for people, as a page that loads nothing else."""
    parts = [
        "<!doctype html><meta charset=utf-8><title>fpstore</title>",
        "<style>body{max-width:50rem;margin:2rem auto;font-family:sans-serif}pre{background:#eee;padding:.5rem;"
        "white-space:pre-wrap}</style>",
        f"<h1>fpstore</h1><p>{html.escape(_told_of(limits))}</p>",
    ]
    for each in _ALL:
        parts.append(f"<h2><code>{each.method} /{each.name}</code></h2><p>{html.escape(each.told)}</p>")
        if each.takes_count:
            parts.append(
                "<p><code>?count=10</code> asks for so many of each, not for one; <code>&max_distance=8</code> for none"
                " beyond that.</p>"
            )
        elif each.takes_distance:
            parts.append(
                "<p><code>?max_distance=2</code> asks for less than the store's; of a store of signatures, which takes"
                " texts, <code>?min_similarity=0.8</code>.</p>"
            )
        parts += [f"<pre>{html.escape(example)}</pre>" for example in (each.body, each.answer) if example]
    rows = "".join(f"<li>{status}: {html.escape(told)}</li>" for status, told in _STATUSES.items())
    parts.append(f'<h2>Errors</h2><p><code>{{"error": {{"type": ..., "message": ...}}}}</code></p><ul>{rows}</ul>')
    return "".join(parts).encode()


def _told_of(limits: Limits) -> str:
    return (
        f"Bodies are {JSON_TYPE} or {MEDIA_TYPE} with columns of the same names; answers are as the body, or as Accept"
        f" says. A body has at most {limits.body_bytes} bytes and {limits.queries} rows, an answer at most"
        f" {limits.matches} matches and {limits.answer_bytes} bytes: more is an error, never a shorter answer."
    )


def _operation(endpoint: Endpoint, limits: Limits) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": endpoint.call, "summary": endpoint.told, "responses": {}}
    if endpoint.takes_distance:
        distance = {"type": "integer", "minimum": 0, "description": "of a store of fingerprints"}
        similarity = {"type": "number", "minimum": 0, "maximum": 1, "description": "of a store of signatures"}
        count = {"type": "integer", "minimum": 1, "default": 1, "description": "how many rows of each"}
        more = {"count": count} if endpoint.takes_count else {"min_similarity": similarity}
        named = {"max_distance": distance, **more}
        operation["parameters"] = [{"name": name, "in": "query", "schema": each} for name, each in named.items()]
    if endpoint.fields:
        lists = {
            name: {
                "type": "array",
                "maxItems": limits.queries,
                "items": {"type": "string"},
                "description": _COLUMNS[name],
            }
            for name in endpoint.fields
        }
        schema = {"type": "object", "properties": lists, "additionalProperties": False}
        operation["requestBody"] = {
            "required": True,
            "content": {JSON_TYPE: {"schema": schema, "example": json.loads(endpoint.body)}, MEDIA_TYPE: {}},
        }
    example = {"example": json.loads(endpoint.answer)} if endpoint.answer else {}
    operation["responses"]["200"] = {"description": "Done.", "content": {JSON_TYPE: example}}
    for status, told in _STATUSES.items():
        operation["responses"][status] = {
            "description": told,
            "content": {JSON_TYPE: {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
    if endpoint.name == "healthz":
        operation["security"] = []
    return operation
